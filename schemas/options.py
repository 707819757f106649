"""The job as people write it: command line, `--config` file and `--set` all end here."""

from __future__ import annotations

from datetime import datetime
from enum import StrEnum
from ipaddress import ip_network
from typing import Annotated, Final, NamedTuple

from pydantic import (
    BaseModel,
    BeforeValidator,
    ConfigDict,
    Field,
    PlainSerializer,
    model_validator,
)

from promptmill.schemas import profile
from promptmill.schemas.json_types import JsonObject
from promptmill.schemas.media import Modality
from promptmill.schemas.redact import redacted

MOST_TOKENS: Final = 2**31 - 1
"""What lengths in ids are counted with: the columns are int32."""


class Task(StrEnum):
    """What the rows are for; decides the defaults the server would take."""

    GENERATE = "generate"
    """What a server would prefill; one id of context is kept for output where truncation is -1."""
    POOLING = "pooling"
    """Embeddings and scores: the whole context, special tokens as for completions."""
    TRAIN = "train"
    """Whole conversations: no generation prompt, the whole context, mask on."""


class Side(StrEnum):
    """Which end a truncation takes."""

    LEFT = "left"
    RIGHT = "right"


class ContentFormat(StrEnum):
    """How list content reaches the template (vLLM's --chat-template-content-format)."""

    AUTO = "auto"
    STRING = "string"
    OPENAI = "openai"


class OnOverlong(StrEnum):
    """What becomes of a prompt that does not fit and asks for no truncation."""

    ERROR = "error"
    TRUNCATE = "truncate"
    DROP = "drop"


class OnError(StrEnum):
    """What a reject does to the run."""

    RECORD = "record"
    FAIL = "fail"


class ColumnNames(StrEnum):
    """The dialect of the column names."""

    VLLM = "vllm"
    HF = "hf"


class OutputFormat(StrEnum):
    """The file format of the parts."""

    PARQUET = "parquet"
    ARROW = "arrow"


class EngineName(StrEnum):
    """What turns text into ids."""

    AUTO = "auto"
    TOKENIZERS = "tokenizers"
    FASTOKENS = "fastokens"
    GIGATOKEN = "gigatoken"
    MISTRAL_COMMON = "mistral-common"
    """Taken by itself in tokenizer mode mistral; not to be chosen otherwise."""


class SegmentCache(StrEnum):
    """Whether texts between control tokens that came before are tokenized again."""

    AUTO = "auto"
    """Kept as long as enough of the input repeats; needs a fast engine that keeps them."""
    ON = "on"
    OFF = "off"


class MaskTurns(StrEnum):
    """Which assistant turns the mask marks."""

    ALL = "all"
    LAST = "last"


class MediaIds(StrEnum):
    """How media stand in the stored ids."""

    EXPANDED = "expanded"
    """As the model sees them."""
    COLLAPSED = "collapsed"
    """One placeholder an item, for servers that expand by themselves."""


class WorkerRange(NamedTuple):
    """How many workers a run may have."""

    least: int
    most: int


def _read_workers(given: object) -> object:
    """`4` or `2:16`, as people write it."""
    if isinstance(given, bool) or not isinstance(given, (int, str)):
        return given
    least, colon, most = str(given).partition(":")
    try:
        found = WorkerRange(int(least), int(most if colon else least))
    except ValueError:
        raise ValueError("give a number of workers (4) or a range (2:16)") from None
    if not 0 < found.least <= found.most:
        raise ValueError("at least 1 worker, and the second number of a range not below the first")
    return found


def _write_workers(workers: WorkerRange) -> int | str:
    return workers.least if workers.least == workers.most else f"{workers.least}:{workers.most}"


Workers = Annotated[WorkerRange, BeforeValidator(_read_workers), PlainSerializer(_write_workers)]


class JobOptions(BaseModel):
    """Every option of a run. Field names are the option names with underscores."""

    model_config = ConfigDict(frozen=True, extra="forbid", use_attribute_docstrings=True)

    input: Annotated[tuple[str, ...], Field(min_length=1)]
    """Files, folders, globs or URLs; JSONL (.gz, .zst), Parquet, Arrow, saved data sets."""
    output: str
    """The output folder, or a URL of an object store."""
    model: str
    """A local model folder or a hub id."""
    revision: str | None = None
    """Hub revision: branch, tag or commit."""
    tokenizer_mode: str = "auto"
    """auto, hf, mistral, deepseek_v4, ... or a registered name."""
    served_model_name: tuple[str, ...] = ()
    """Names by which rows may call the model; only the DeepSeek modes refuse rows for others."""
    task: Task = Task.GENERATE
    """What the rows are for."""

    max_model_len: Annotated[int, Field(gt=0, le=MOST_TOKENS)] | None = None
    """Context length in ids; derived from the model when not given."""
    truncate_prompt_tokens: Annotated[int, Field(ge=-1, le=MOST_TOKENS)] | None = None
    """Default for rows that give none; -1 is all the context that the task leaves."""
    truncation_side: Side | None = None
    """Default for rows that give none."""
    max_tokens: Annotated[int, Field(ge=0, le=MOST_TOKENS)] | None = None
    """Default output budget for rows that give none."""
    on_overlong: OnOverlong = OnOverlong.ERROR
    """What to do with prompts that do not fit."""

    chat_template: str | None = None
    """A file or a template text that replaces the model's."""
    chat_template_content_format: ContentFormat = ContentFormat.AUTO
    """How list content reaches the template."""
    chat_template_kwargs: JsonObject = Field(default_factory=dict)
    """Template variables for rows; the row's own win."""
    default_chat_template_kwargs: JsonObject = Field(default_factory=dict)
    """The server's defaults for template variables."""
    trust_request_chat_template: bool = False
    """Accept a template that comes with a row."""
    clock: datetime | None = None
    """What strftime_now tells templates; the run's start when not given."""
    render_timeout: Annotated[float, Field(ge=0)] = profile.RENDER_TIMEOUT_SECONDS
    """Seconds one template may take; 0 disables."""
    escape_control_tokens: bool = False
    """Encode control spellings inside message content as plain text."""

    limit_mm_per_prompt: dict[Modality, Annotated[int, Field(ge=0)]] = Field(default_factory=dict)
    """Items that a prompt may have, by modality; 999 where nothing is said."""
    mm_processor_kwargs: JsonObject = Field(default_factory=dict)
    """Arguments for the model's media processor; the row's own win."""
    trust_request_mm_kwargs: bool = False
    """Accept mm_processor_kwargs and media_io_kwargs that come with a row."""
    interleave_mm_strings: bool = False
    """Keep media in their places where content is a string."""
    media_ids: MediaIds = MediaIds.EXPANDED
    """How media stand in the stored ids."""
    media_family: str | None = None
    """A Python file of yours that registers the media rules of a model that has none here."""
    allowed_media_root: str | None = None
    """The folder that local media files may come from."""
    allowed_media_domains: tuple[str, ...] = ()
    """The hosts that media may be fetched from."""
    allowed_media_networks: tuple[str, ...] = ()
    """Networks (CIDR) that are not public and may be reached all the same, by those hosts."""
    check_media: bool = False
    """Decode all media, not only their headers."""

    columns: ColumnNames = ColumnNames.VLLM
    """Column names as vLLM or as Hugging Face has them."""
    with_text: bool = False
    """Store the rendered text."""
    with_offsets: bool = True
    """Store code point offsets per id."""
    with_mask: bool | None = None
    """Store the assistant mask; on by default under --task train."""
    mask: MaskTurns = MaskTurns.ALL
    """Which assistant turns the mask marks."""
    pack: Annotated[int, Field(gt=0, le=MOST_TOKENS)] | None = None
    """After the run, index which rows make up packed sequences of at most so many ids."""
    format: OutputFormat = OutputFormat.PARQUET
    """File format of the parts."""
    compression: str = "zstd"
    """Codec of the parts: zstd, lz4, snappy, gzip or none."""

    text_column: str | None = None
    """The column or key that holds plain documents."""
    id_column: str | None = None
    """The column or key that holds the row's id."""
    append_eos: bool = False
    """Append the EOS id to documents."""

    rows_per_shard: Annotated[int, Field(gt=0)] | None = None
    """Cut shards by rows instead of bytes."""
    shard_bytes: Annotated[int, Field(gt=0)] | None = None
    """Input bytes per shard; when not given, 8 MiB or more, for at most some 4,000 shards."""
    workers: Workers | None = None
    """Worker actors: a number, or MIN:MAX by how much work waits; the cores when not given."""
    local: bool = False
    """Run in this process, without Ray."""
    address: str | None = None
    """Ray address; a Ray of our own when not given."""
    engine: EngineName = EngineName.AUTO
    """What turns text into ids; `tokenizers`: also renders by Jinja alone."""
    segment_cache: SegmentCache = SegmentCache.AUTO
    """Keep the ids of texts between control tokens: sessions repeat their history in every row."""
    on_error: OnError = OnError.RECORD
    """Record rejects and go on, or fail at the first."""
    max_rejects: Annotated[int, Field(ge=0)] | None = None
    """More rejects than this end in exit code 3."""
    report_content: bool = False
    """Show some of the content of example rows in the report."""

    @model_validator(mode="after")
    def _consistent(self) -> JobOptions:
        if self.rows_per_shard is not None and self.shard_bytes is not None:
            raise ValueError("rows_per_shard and shard_bytes exclude each other; give one")
        if self.engine is EngineName.MISTRAL_COMMON:
            raise ValueError("engine mistral-common is taken by itself in tokenizer mode mistral")
        if self.append_eos and self.text_column is None:
            raise ValueError("append_eos is for documents; name their text_column")
        for network in self.allowed_media_networks:
            ip_network(network)
        return self

    def shown(self) -> JsonObject:
        """All of them as people and records see them: URLs without credentials."""
        shown: JsonObject = self.model_dump(mode="json")
        shown["input"] = [redacted(name) for name in self.input]
        shown["output"] = redacted(self.output)
        return shown

    @property
    def mask_wanted(self) -> bool:
        """Whether rows carry a mask."""
        return self.with_mask if self.with_mask is not None else self.task is Task.TRAIN
