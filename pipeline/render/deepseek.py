"""The official library for DeepSeek's prompts, deepseek-recipe, behind one door.

Nothing of it leaves this module: neither its objects nor its exceptions pickle. It is imported
when the first model needs it, so that everything else works without it.
"""

from __future__ import annotations

import importlib
import json
import re
from collections.abc import Collection
from dataclasses import dataclass
from types import ModuleType
from typing import TYPE_CHECKING, Final

import numpy as np

from promptmill.pipeline.model.deepseek_tokens import V41
from promptmill.schemas.errors import ErrorCode, JobError, RowError, Stage
from promptmill.schemas.json_types import JsonObject
from promptmill.schemas.media import MediaItem, Modality
from promptmill.schemas.request import Answer, Api, CharSpan

if TYPE_CHECKING:
    import deepseek_recipe as library

V4_NAME: Final = "DeepSeek-V4-Pro"
V41_NAME: Final = "DeepSeek-V4.1-Flash"
"""The names that the library itself knows models by."""

_REQUESTS: Final = {
    Api.CHAT_COMPLETIONS: "ChatCompletionRequest",
    Api.MESSAGES: "MessagesRequest",
    Api.RESPONSES: "ResponsesRequest",
}
_DEFAULT_OUTPUT: Final = 8192
_THINKING_OUTPUT: Final = 65_536
_MAX_EFFORT_OUTPUT: Final = 131_072
_OTHER_MODEL: Final = "The row is for {}, and this run renders prompts of {}: run it on its own."
_NAME_IT: Final = " Give --served-model-name for every name that rows call this model by."
_TOO_DEEP: Final = "recursion limit exceeded"
"""What the library's JSON reader says of more than 127 levels."""
_QUOTED: Final = re.compile(r'"(?:[^"\\]|\\.){41,}"|`[^`]{41,}`')
"""Content of the row, which the library repeats where it has the wrong type."""
_SHOWN: Final = 500
"""Characters of a refusal that are kept."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Converted:
    """A request as the library converted and rendered it."""

    text: str
    special_ranges: tuple[CharSpan, ...]
    """What of the text are control tokens, in code points."""
    images: tuple[MediaItem, ...]
    """In the order of their placeholders."""
    answer: Answer


def load_library() -> ModuleType:
    """The library.

    Raises:
        JobError: it is not installed.
    """
    try:
        return importlib.import_module("deepseek_recipe")
    except ImportError as error:
        raise JobError(
            "DeepSeek V4 and V4.1 need the official library deepseek-recipe "
            f"({error}): pip install 'promptmill[deepseek]', on the workers' machines too."
        ) from error


def library_version() -> str:
    """The library's version, which may change prompts.

    Raises:
        JobError: it is not installed.
    """
    return str(load_library().__version__)


class Recipe:
    """Converts and renders requests of one model.

    Args:
        mode: the tokenizer mode.
        names: what rows may call the model, beside the library's own name for it.
        image: how an image is spelled in the tokenizer; None: as by default.

    Raises:
        JobError: the library is not installed.
    """

    def __init__(self, mode: str, names: Collection[str], image: str | None) -> None:
        self._library = lib = load_library()
        if mode == V41:
            self._name, encoding = V41_NAME, lib.DeepseekV41Encoding()
            self._version = lib.ModelVersion.DeepseekV41Flash
        else:
            self._name, encoding = V4_NAME, lib.DeepseekV4Encoding()
            self._version = lib.ModelVersion.DeepseekV4Pro
        spellings = lib.SpecialTokens(image=image)
        self._encoding = encoding.with_special_tokens(spellings)
        options = lib.ConversionOptions().with_special_tokens(spellings)
        self._names = {*names}
        self._options = {
            thinking: options.with_default_thinking_mode(thinking) for thinking in (True, False)
        }

    def convert(self, api: Api, body: JsonObject, *, thinking: bool) -> Converted:
        """One request; a body without a model name means this model.

        Args:
            api: whose body it is.
            body: as it came.
            thinking: whether the model thinks where the body does not say.

        Raises:
            RowError: INVALID_REQUEST with the library's reason; NESTING_TOO_DEEP.
        """
        name = body.get("model")
        is_ours = name is None or (isinstance(name, str) and name in self._names)
        named = {**body, "model": self._name} if is_ours else body
        try:
            made = getattr(self._library, _REQUESTS[api])(json.dumps(named))
            request: library.ConversationRequest = made.convert(self._options[thinking])
            if request.model_version != self._version:
                raise _refused(_OTHER_MODEL.format(name, self._name))
            rendered = self._encoding.render_conversation(request.conversation)
        except (ValueError, self._library.ConversionError) as error:
            hint = "" if named["model"] in (V4_NAME, V41_NAME) else _NAME_IT
            raise _refused(f"{error}{hint}") from None
        return Converted(
            text=rendered.prompt,
            special_ranges=tuple(rendered.special_ranges),
            images=tuple(_item(source) for source in rendered.image_sources),
            answer=_answer(request),
        )


def _item(source: library.ImageSource) -> MediaItem:
    url = source.data_url or source.url
    return MediaItem(Modality.IMAGE, url=url, data=source.data, detail=source.detail)


def _answer(request: library.ConversationRequest) -> Answer:
    conversation, inference = request.conversation, request.inference_options
    default = _DEFAULT_OUTPUT
    if conversation.thinking_mode:
        most = conversation.reasoning_effort == "max"
        default = _MAX_EFFORT_OUTPUT if most else _THINKING_OUTPUT
    fields: JsonObject = {
        "temperature": _decimal(inference.temperature),
        "top_p": _decimal(inference.top_p),
        "seed": inference.seed,
        "logprobs": inference.logprobs or None,
        "top_logprobs": inference.top_logprobs,
        "stop": [*request.parsing_options.stop_sequences] or None,
        "answer_parsing": _parsing(request.parsing_options),
    }
    return Answer(
        max_tokens=inference.max_tokens,
        default_max_tokens=default,
        fields={name: value for name, value in fields.items() if value is not None},
    )


def _parsing(options: library.ParsingOptions) -> JsonObject:
    """How `promptmill decode` is to read the answer."""
    stage = options.thinking_initial_stage
    return {
        "thinking_initial_stage": None if stage is None else str(stage).rpartition(".")[2],
        "parse_tool_calls": options.parse_tool_calls,
        "starts_in_tool_calls": options.starts_in_tool_calls,
        "parse_json_output": options.parse_json_output,
    }


def _decimal(value: float | None) -> float | None:
    """The shortest decimal of a number that the library holds in single precision."""
    return None if value is None else float(str(np.float32(value)))


def _refused(reason: str) -> RowError:
    code = ErrorCode.NESTING_TOO_DEEP if _TOO_DEEP in reason else ErrorCode.INVALID_REQUEST
    return RowError(code, _QUOTED.sub("...", reason)[:_SHOWN], stage=Stage.RENDER)
