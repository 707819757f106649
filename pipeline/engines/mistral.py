"""Mistral's own tokenizers (tekken and SentencePiece files), through mistral-common.

The one module that holds a mistral-common object; what leaves it are ids and text.
"""

from __future__ import annotations

import functools
import logging
import tempfile
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from mistral_common.exceptions import MistralCommonException
from mistral_common.protocol.instruct.chunk import ImageChunk, ImageURLChunk
from mistral_common.protocol.instruct.request import ChatCompletionRequest
from mistral_common.tokens.tokenizers.base import SpecialTokenPolicy, TokenizerVersion
from mistral_common.tokens.tokenizers.image import ImageEncoding
from mistral_common.tokens.tokenizers.mistral import MistralTokenizer
from mistral_common.tokens.tokenizers.tekken import Tekkenizer

from promptmill.pipeline.engines.base import EngineCounts, FlatTokens, row_errors
from promptmill.pipeline.engines.special import AddedIds
from promptmill.pipeline.engines.traits import byte_pieces
from promptmill.schemas.bundle import ModelBundle
from promptmill.schemas.errors import ErrorCode, JobError, RowError, Stage
from promptmill.schemas.json_types import JsonObject
from promptmill.schemas.options import EngineName

logging.getLogger("mistral_common").setLevel(logging.ERROR)

_BYTE_PIECES = byte_pieces()


@dataclass(frozen=True, slots=True)
class OneId:
    """An image encoder that leaves one id for an image and reads nothing: media come later."""

    image_token: int

    def __call__(self, content: ImageChunk | ImageURLChunk) -> ImageEncoding:
        """The placeholder of an image."""
        return ImageEncoding([self.image_token], np.empty(0))


class Mistral:
    """A loaded tokenizer: chats and text to ids, ids to text."""

    name = EngineName.MISTRAL_COMMON
    fallback_reason = None

    def __init__(self, tokenizer: MistralTokenizer[Any, Any, Any, Any, Any]) -> None:
        self.counts = EngineCounts()
        self._chats = tokenizer
        chats: Any = tokenizer.instruct_tokenizer
        self._texts = chats.tokenizer
        if chats.image_encoder is not None:
            chats.image_encoder = OneId(chats.image_encoder.image_token)
        self.takes_reasoning_effort = self._texts.version >= TokenizerVersion.v15
        self.added_ids = AddedIds(np.array([self._texts.bos_id], np.int32), np.empty(0, np.int32))
        """BOS in front of a text, nothing behind it."""

    def encode(self, texts: Sequence[str], *, offsets: bool) -> FlatTokens:
        """Ids of plain text, where control spellings stay text; there are no offsets, as online.

        Raises:
            RowError: a text cannot be encoded.
        """
        with row_errors(texts):
            rows = [self._texts.encode(text, bos=False, eos=False) for text in texts]
        splits = np.cumsum([0, *map(len, rows)], dtype=np.int64)
        ids = np.fromiter((i for row in rows for i in row), np.int32, int(splits[-1]))
        return FlatTokens(ids, splits)

    def encode_chat(
        self,
        messages: list[JsonObject],
        tools: list[JsonObject] | None,
        *,
        continues: bool,
        reasoning_effort: str | None,
    ) -> list[int]:
        """Ids of a chat.

        Args:
            messages: OpenAI messages.
            tools: OpenAI tools, with a description and parameters each.
            continues: the last message, an assistant's, is left open.
            reasoning_effort: for tokenizers that take one.

        Raises:
            RowError: TEMPLATE_ERROR with mistral-common's reason.
        """
        effort = {} if reasoning_effort is None else {"reasoning_effort": reasoning_effort}
        given: Any = messages
        try:
            request: Any = ChatCompletionRequest.from_openai(
                messages=given, tools=tools, continue_final_message=continues, **effort
            )
            return list(self._chats.encode_chat_completion(request).tokens)
        except (MistralCommonException, ValueError, TypeError, LookupError) as error:
            raise RowError(ErrorCode.TEMPLATE_ERROR, str(error), stage=Stage.RENDER) from None

    def decode(self, ids: Iterable[int], *, skip_special_tokens: bool = False) -> str:
        """The text of the ids; special tokens spelled out, or left out."""
        policy = SpecialTokenPolicy.IGNORE if skip_special_tokens else SpecialTokenPolicy.KEEP
        return self._chats.decode([int(i) for i in ids], special_token_policy=policy)

    def pieces(self, ids: Iterable[int]) -> list[bytes | None]:
        """What each id is of a text's bytes; None for ids that the vocabulary lacks."""
        return [self._piece(i) if 0 <= i < self._texts.n_words else None for i in ids]

    def _piece(self, token_id: int) -> bytes:
        if isinstance(self._texts, Tekkenizer):
            return self._texts.id_to_byte_piece(token_id, SpecialTokenPolicy.KEEP)
        spelling: str = self._texts.id_to_piece(token_id)
        byte = _BYTE_PIECES.get(spelling)
        return spelling.encode() if byte is None else bytes((byte,))


def load_mistral(bundle: ModelBundle) -> Mistral:
    """The tokenizer in a bundle's files; one load for each process and file.

    Raises:
        JobError: the bundle holds no single tekken.json or SentencePiece file.
    """
    if len(bundle.files) != 1:
        raise JobError(
            f"{bundle.name}: tokenizer mode mistral needs one tekken.json or tokenizer.model.v* "
            f"file, found {sorted(bundle.files) or 'none'}. Put the right one into the folder, "
            "or give --tokenizer-mode hf."
        )
    name, content = next(iter(bundle.files.items()))
    return _load(name, content)


@functools.lru_cache(maxsize=2)
def _load(name: str, content: bytes) -> Mistral:
    # mistral-common tells the kinds of tokenizer apart by the names of real files.
    with tempfile.TemporaryDirectory(prefix="promptmill-") as folder:
        path = Path(folder) / name
        path.write_bytes(content)
        return Mistral(MistralTokenizer.from_file(path))
