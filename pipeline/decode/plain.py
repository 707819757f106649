"""Answers of models without a library of their own: the tokenizer's text up to a stop string."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import TypeAlias

from promptmill.pipeline.decode.base import (
    STOP,
    Reply,
    chat_completion,
    end_ids,
    stop_ids,
    without_end,
)
from promptmill.pipeline.decode.characters import TextStream, whole_text
from promptmill.pipeline.decode.stops import find_stop
from promptmill.pipeline.engines.decode import Decoder
from promptmill.pipeline.engines.mistral import load_mistral
from promptmill.schemas.bundle import ModelBundle
from promptmill.schemas.json_types import JsonObject
from promptmill.schemas.outputs import EngineOutput

Decode: TypeAlias = Callable[[Sequence[int]], str]


class PlainReader:
    """Reads outputs by the tokenizer's decode, special tokens left out unless a row wants them.

    Nothing is taken apart: reasoning and tool calls stay in the text.

    Args:
        bundle: the model.
        created: Unix time of the answers.

    Raises:
        JobError: the model's tokenizer cannot decode here.
    """

    def __init__(self, bundle: ModelBundle, created: int) -> None:
        self._name, self._created = bundle.name, created
        is_mistral = bundle.tokenizer_mode == "mistral"
        self._decoder = load_mistral(bundle) if is_mistral else Decoder(bundle)
        self._ends, self._stops = end_ids(bundle), stop_ids(bundle)

    def read(self, output: EngineOutput) -> Reply:
        """The answer; see `ReplyReader`."""
        given, output = output.token_ids, without_end(output, self._ends)
        end = given[len(output.token_ids) :][:1]  # padding may stand behind it
        pieces = self._decoder.pieces(output.token_ids)
        known = [i for i, piece in zip(output.token_ids, pieces, strict=True) if piece is not None]
        skips = output.request.get("skip_special_tokens") is not False

        def decode(ids: Sequence[int]) -> str:
            return self._decoder.decode(ids, skip_special_tokens=skips)

        text, incomplete = whole_text(decode, known, [p for p in pieces if p is not None])
        stop = find_stop(output.request, text, known, decode)
        if stop is not None:
            text, incomplete = text[:stop], False
            output = replace(output, finish_reason=STOP)
        body = chat_completion(
            output,
            {"role": "assistant", "content": text},
            model=self._name,
            created=self._created,
            completion_tokens=len(output.token_ids) + (not self._stops.isdisjoint(end)),
            logprobs=self._logprobs(output, pieces, decode),
        )
        return Reply(body=body, unknown_ids=len(pieces) - len(known), incomplete=incomplete)

    def _logprobs(
        self, output: EngineOutput, pieces: Sequence[bytes | None], decode: Decode
    ) -> list[JsonObject] | None:
        """One entry an id; the ids of a shared character have no text but the last."""
        if output.logprobs is None:
            return None
        stream = TextStream(decode)
        entries: list[JsonObject] = []
        for token_id, piece, found in zip(output.token_ids, pieces, output.logprobs, strict=True):
            text = "" if piece is None else stream.push(token_id)
            top = [self._entry(found_id, logprob) for found_id, logprob in found.top]
            entries.append({**_entry(text, piece, found.logprob), "top_logprobs": [*top]})
        return entries

    def _entry(self, token_id: int, logprob: float) -> JsonObject:
        (piece,) = self._decoder.pieces([token_id])
        text = "" if piece is None else self._decoder.decode([token_id])
        return _entry(text, piece, logprob)


def _entry(text: str, piece: bytes | None, logprob: float) -> JsonObject:
    return {"token": text, "logprob": logprob, "bytes": [*(piece or b"")]}
