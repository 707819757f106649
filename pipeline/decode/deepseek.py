"""Answers of DeepSeek V4 and V4.1, taken apart by the official library's stream processor.

The second door to deepseek-recipe, beside `render/deepseek.py`: nothing of it leaves this module.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Final

from promptmill.pipeline.decode.base import LENGTH, STOP, Reply, end_ids, without_end
from promptmill.pipeline.decode.characters import pending_bytes
from promptmill.pipeline.decode.stops import stop_strings
from promptmill.pipeline.engines.decode import Decoder
from promptmill.pipeline.engines.pool import backend_of
from promptmill.pipeline.model.deepseek_tokens import V41, added_ids, check_tokens, image_spelling
from promptmill.pipeline.render.deepseek import load_library
from promptmill.schemas.bundle import ModelBundle
from promptmill.schemas.errors import ErrorCode, RowError
from promptmill.schemas.json_types import JsonObject
from promptmill.schemas.outputs import EngineOutput, TokenLogprob

if TYPE_CHECKING:
    import deepseek_recipe as library

_FINISH: Final = {STOP: "Stop", LENGTH: "Length", "content_filter": "ContentFilter"}
_STAGE: Final = "ReasoningStart"
"""Where an answer begins when it thinks and its row says nothing else."""


class DeepseekReader:
    """Reads outputs of a DeepSeek model.

    Args:
        bundle: the model.
        created: Unix time of the answers.
        thinking: whether an answer begins with reasoning where its row does not say.
        tool_calls: whether tool calls are looked for where its row does not say.

    Raises:
        JobError: the library is not installed, or the tokenizer is not that of the mode.
    """

    def __init__(
        self, bundle: ModelBundle, created: int, *, thinking: bool, tool_calls: bool
    ) -> None:
        self._library = lib = load_library()
        backend, mode = backend_of(bundle), bundle.tokenizer_mode
        check_tokens(bundle.name, mode, backend)
        is_v41 = mode == V41
        versions = lib.ModelVersion
        self._version = versions.DeepseekV41Flash if is_v41 else versions.DeepseekV4Pro
        image = image_spelling(added_ids(backend)) if is_v41 else None
        self._spellings = lib.SpecialTokens(image=image)
        self._tokenizer = lib.Tokenizer.from_str(backend)
        self._decoder = Decoder(bundle)
        self._name, self._created = bundle.name, created
        self._defaults: JsonObject = {
            "thinking_initial_stage": _STAGE if thinking else None,
            "parse_tool_calls": tool_calls,
        }
        self._ends = end_ids(bundle)

    def read(self, output: EngineOutput) -> Reply:
        """The answer; see `ReplyReader`."""
        output = without_end(output, self._ends)
        pieces = self._decoder.pieces(output.token_ids)
        known = [piece for piece in pieces if piece is not None]
        try:
            body = self._body(output)
        except (RuntimeError, ValueError) as error:
            raise RowError(
                ErrorCode.INVALID_REQUEST, f"The output cannot be read: {error}"
            ) from None
        return Reply(
            body=body,
            unknown_ids=len(pieces) - len(known),
            incomplete=pending_bytes(b"".join(known[-4:])) > 0,
        )

    def _body(self, output: EngineOutput) -> JsonObject:
        lib = self._library
        options = self._options(output.request)
        thinks = options.thinking_initial_stage is not None
        asked = lib.ConversationRequest(
            lib.Conversation([lib.UserMessage("")], thinking_mode=thinks), self._version
        )
        reply_id, model = f"chatcmpl-{output.custom_id}", output.request.get("model") or self._name
        generator = lib.ChatCompletionRequest.chunk_generator(asked, reply_id, str(model))
        processor = lib.StreamProcessor(generator, options, self._tokenizer)
        response = lib.ChatCompletionResponse(reply_id, str(model), self._created, 0, 0)
        for chunk in self._chunks(output):
            for part in processor.push(chunk):
                response.accumulate(part)
            if processor.finished:  # by its end, or by a stop sequence
                break
        body: JsonObject = json.loads(response.to_json())
        _name_calls(body, output.custom_id)
        if output.prompt_tokens is None:
            body["usage"] = None
        return body

    def _options(self, request: JsonObject) -> library.ParsingOptions:
        lib = self._library
        given = request.get("answer_parsing")
        settings = {**self._defaults, **(given if isinstance(given, dict) else {})}
        stage = settings.get("thinking_initial_stage")
        options: library.ParsingOptions = lib.ParsingOptions(
            parse_tool_calls=settings.get("parse_tool_calls") is True,
            starts_in_tool_calls=settings.get("starts_in_tool_calls") is True,
            parse_json_output=settings.get("parse_json_output") is True,
            thinking_initial_stage=getattr(lib.ThinkingInitialStage, str(stage), None),
            stop_sequences=stop_strings(request),
            special_tokens=self._spellings,
        )
        return options

    def _chunks(self, output: EngineOutput) -> Iterator[library.InferenceChunk]:
        """One id after the other: of a chunk that ends inside a character nothing would be kept.

        What is no id at all is left out.
        """
        lib = self._library
        chunk = lib.InferenceChunk
        yield chunk.ready(prompt_usage=lib.PromptUsage(prompt_tokens=output.prompt_tokens or 0))
        logprobs: Sequence[TokenLogprob | None] = output.logprobs or [None] * len(output.token_ids)
        for token_id, found in zip(output.token_ids, logprobs, strict=True):
            if _fits(token_id):
                yield chunk.tokens([token_id], None if found is None else [_pair(found)])
        yield chunk.finish(
            getattr(lib.InferenceFinishReason, _FINISH[output.finish_reason or STOP])
        )


def _pair(found: TokenLogprob) -> tuple[float, list[tuple[int, float]]]:
    return found.logprob, [(i, logprob) for i, logprob in found.top if _fits(i)]


def _fits(token_id: int) -> bool:
    return 0 <= token_id < 1 << 32


def _name_calls(body: JsonObject, custom_id: str) -> None:
    """Ids of tool calls that the same input gives again; the library's are random."""
    choices = body.get("choices")
    for choice in choices if isinstance(choices, list) else ():
        message = choice.get("message") if isinstance(choice, dict) else None
        calls = message.get("tool_calls") if isinstance(message, dict) else None
        for number, call in enumerate(calls if isinstance(calls, list) else ()):
            if isinstance(call, dict):
                digest = hashlib.sha256(f"{custom_id}\0{number}".encode()).hexdigest()
                call["id"] = f"call_{number:02}_{digest[:24]}"
