"""A row on its way: as read, as a request, as rendered text, as token ids.

Everything here is frozen: a step takes one of these and gives the next. They are structs of
msgspec, as is all that is made for every row: a frozen dataclass takes ten times as long to make.
"""

from __future__ import annotations

from enum import StrEnum
from typing import TypeAlias

import msgspec
import numpy as np
import numpy.typing as npt

from promptmill.schemas.errors import RowError
from promptmill.schemas.json_types import JsonObject
from promptmill.schemas.media import MediaItem, MediaSpan

Ids: TypeAlias = npt.NDArray[np.int32]
"""Token ids, shape (n,)."""
Offsets: TypeAlias = npt.NDArray[np.int32]
"""Code point spans of tokens, shape (n, 2), end exclusive."""
Mask: TypeAlias = npt.NDArray[np.int8]
"""1 where a loss belongs, shape (n,)."""
CharSpan: TypeAlias = tuple[int, int]
"""A half-open range of code points."""


DOUBLE_BOS = "double_bos"
"""How the warning of a prompt that starts with two BOS ids begins."""
EMPTY_MASK = "empty_mask"
"""How the warning of a prompt whose mask marks no id begins."""
NO_TURN = f"{EMPTY_MASK}: no assistant turn, the mask is all zeros"
"""That of a chat that has nothing to learn from."""


class RawRow(msgspec.Struct, frozen=True):
    """One row as it stands in its input file."""

    source: str
    """The input file, relative to the input the user named."""
    row_index: int
    """0-based; for JSONL the line number minus one, blank lines counted."""
    data: bytes | JsonObject | None
    """A JSONL line without its newline, or a decoded row of a columnar file (nulls left out,
    binary values as bytes); None with `error`."""
    error: RowError | None = None
    """Set where the reader could not carry the row (a line over the size limit)."""
    byte_range: tuple[int, int] | None = None
    """Where the line lies in its (uncompressed) file, for lines."""
    head: bytes = b""
    """The first bytes (4 KB) of a line that `data` does not carry."""


class Endpoint(StrEnum):
    """Which server endpoint a row would go to; decides defaults (see `pipeline/limits.py`)."""

    CHAT = "chat"
    COMPLETION = "completion"
    EMBEDDING = "embedding"
    DOCUMENT = "document"


class ChatPrompt(msgspec.Struct, frozen=True):
    """The parts of a chat body that decide the rendered text, already validated and rebuilt."""

    messages: list[JsonObject]
    """In the key order of vLLM's request model, unknown keys of known objects as it keeps them."""
    tools: list[JsonObject] | None = None
    """As `model_dump()` of vLLM's tool model: explicit nulls, unknown keys gone."""
    chat_template: str | None = None
    chat_template_kwargs: JsonObject | None = None
    add_generation_prompt: bool | None = None
    """None: the row does not say; the task's default applies."""
    continue_final_message: bool = False
    documents: list[JsonObject] | None = None
    reasoning_effort: str | None = None
    mm_processor_kwargs: JsonObject | None = None
    media_io_kwargs: JsonObject | None = None


class TextPrompt(msgspec.Struct, frozen=True):
    """A completion prompt or a document: text as it is."""

    text: str


class TokensPrompt(msgspec.Struct, frozen=True):
    """A prompt that came as ids: no template, no tokenizer."""

    token_ids: list[int]


class Api(StrEnum):
    """An API whose bodies a renderer may convert by itself."""

    CHAT_COMPLETIONS = "chat_completions"
    MESSAGES = "messages"
    """Anthropic's."""
    RESPONSES = "responses"


class ApiPrompt(msgspec.Struct, frozen=True):
    """A conversation as it came, for renderers that convert bodies by a library of their own."""

    api: Api
    body: JsonObject


Prompt: TypeAlias = ChatPrompt | ApiPrompt | TextPrompt | TokensPrompt


class Budget(msgspec.Struct, frozen=True, kw_only=True):
    """The budget fields of a row as it gave them; None where it gave none."""

    truncate_prompt_tokens: int | None = None
    truncation_side: str | None = None
    max_tokens: int | None = None
    max_completion_tokens: int | None = None
    add_special_tokens: bool | None = None
    echo: bool = False
    return_token_ids: bool = False


class Place(msgspec.Struct, frozen=True):
    """Where a prompt comes from."""

    source: str
    row_index: int
    prompt_index: int = 0


class Request(msgspec.Struct, frozen=True, kw_only=True):
    """One prompt to be made: a row, or one of the several prompts of a row."""

    custom_id: str
    place: Place
    endpoint: Endpoint
    prompt: Prompt
    budget: Budget = msgspec.field(default_factory=Budget)
    passthrough: JsonObject = msgspec.field(default_factory=dict)
    """What rendering does not consume (sampling and so on): becomes the `request` column."""
    warnings: tuple[str, ...] = ()


class Answer(msgspec.Struct, frozen=True):
    """What the conversion of a request settles about its answer, where a library has the say."""

    max_tokens: int | None
    """Asked for by the row; None: it leaves that to the default."""
    default_max_tokens: int
    fields: JsonObject = msgspec.field(default_factory=dict)
    """Sampling with its final values and how the answer is read: they replace the row's own."""


class Rendered(msgspec.Struct, frozen=True, kw_only=True):
    """A request after rendering. Exactly one of `text` and `token_ids` is set."""

    text: str | None = None
    token_ids: list[int] | None = None
    """Set where the renderer answers in ids (mistral, prompts that came as ids)."""
    verbatim: bool = False
    """No truncation, padding or length check applies: the server leaves such prompts alone."""
    hide_text: bool = False
    """The server would answer in ids here (`tokenize` in the template arguments): no special
    tokens are added, no character gate applies, and neither text nor offsets are given."""
    special_ranges: tuple[CharSpan, ...] | None = None
    """None: the tokenizer finds control tokens in the text. Otherwise exactly these character
    ranges are control tokens, each the id of its spelling, and all else is plain text."""
    assistant_spans: tuple[CharSpan, ...] | None = None
    """Characters that assistant turns wrote, where a mask is wanted."""
    media: tuple[MediaItem, ...] = ()
    """In the order of their placeholders."""
    answer: Answer | None = None
    """None: the server's own rules settle the answer."""
    warnings: tuple[str, ...] = ()


class TokenRow(msgspec.Struct, frozen=True, kw_only=True):
    """A prompt as token ids, with everything that runs parallel to them.

    `ids`, `offsets` and `mask` are views into a batch's flat arrays. `offsets` and `mask` may be
    shorter than `ids` only by padding, which is on the right.
    """

    request: Request
    text: str | None
    """The text that `offsets` point into: rendered, before any cut."""
    ids: Ids
    offsets: Offsets | None = None
    mask: Mask | None = None
    spans: tuple[MediaSpan, ...] = ()
    original_num_tokens: int = 0
    """Expanded length before any cut, in ids."""
    truncated_left: int = 0
    truncated_right: int = 0
    other_side: Ids | None = None
    """Of a prompt that was cut: the ids that the same cut on the other side would have kept. None
    where nothing was cut, or they are not known (the text was cut before, media among them)."""
    max_tokens: int | None = None
    warnings: tuple[str, ...] = ()


class Reject(msgspec.Struct, frozen=True):
    """A prompt that ended in an error, with what is needed to find and re-run it."""

    row: RawRow
    error: RowError
    custom_id: str | None = None
    prompt_index: int = 0


class EncodedBatch(msgspec.Struct, frozen=True):
    """Token rows and rejects, each in input order."""

    rows: list[TokenRow]
    rejects: list[Reject]
    blank_lines: int = 0
