"""What a server is asked for one prompt, so that it answers with the prompt's ids.

Profile rule (vLLM 0.33.0): `.../render` answers with the ids that would be prefilled; `/tokenize`
with those of the whole prompt: it knows no truncation, no limit and no offsets.
"""

from __future__ import annotations

import base64
import mimetypes
from dataclasses import dataclass
from enum import StrEnum
from typing import Final

from promptmill.pipeline.media.local_file import local_path, read_local
from promptmill.schemas import profile
from promptmill.schemas.json_types import Json, JsonObject
from promptmill.schemas.options import JobOptions, OnOverlong, Task
from promptmill.schemas.request import (
    Api,
    ApiPrompt,
    ChatPrompt,
    Endpoint,
    Request,
    TextPrompt,
    TokensPrompt,
)


class Path(StrEnum):
    """The endpoints that answer in ids."""

    CHAT = "/v1/chat/completions/render"
    COMPLETION = "/v1/completions/render"
    MESSAGES = "/v1/messages/render"
    RESPONSES = "/v1/responses/render"
    TOKENIZE = "/tokenize"


@dataclass(frozen=True, slots=True)
class Question:
    """One request to a server."""

    path: Path
    body: JsonObject
    whole: bool
    """The answer is not cut, whatever was cut from the stored prompt."""


_APIS: Final = {
    Api.CHAT_COMPLETIONS: Path.CHAT,
    Api.MESSAGES: Path.MESSAGES,
    Api.RESPONSES: Path.RESPONSES,
}

_BUDGET: Final = frozenset(
    {"max_completion_tokens", "max_tokens", "truncate_prompt_tokens", "truncation_side"}
)
_TOKENIZE: Final = frozenset(
    {
        "add_generation_prompt",
        "add_special_tokens",
        "chat_template",
        "chat_template_kwargs",
        "continue_final_message",
        "media_io_kwargs",
        "messages",
        "mm_processor_kwargs",
        "prompt",
        "tools",
    }
)
"""Fields of `/tokenize`."""
_CHAT: Final = _TOKENIZE | {
    "documents",
    "echo",
    "kv_transfer_params",
    "reasoning_effort",
    "tool_choice",
}
_ANSWER_ONLY: Final = frozenset({"stream", "stream_options", "use_beam_search"})
"""Fields that render endpoints have no answer to, and that change no prompt."""
_MEDIA_KEYS: Final = ("image_url", "audio_url", "video_url")


def render_question(request: Request, body: JsonObject, options: JobOptions) -> Question | None:
    """What a render endpoint is asked; None where there is none for such a prompt.

    Fields that decide no prompt stay at home: a server may refuse them for reasons of its own.

    Args:
        request: the prompt.
        body: of the row that it came from.
        options: of the run; what they set for rows that do not say is said.

    Raises:
        RowError: a local media file that cannot be read.
    """
    if isinstance(request.prompt, ApiPrompt):
        asked = {k: v for k, v in body.items() if k not in _ANSWER_ONLY}
        return Question(_APIS[request.prompt.api], asked, whole=False)
    if request.endpoint is Endpoint.EMBEDDING or options.task is Task.POOLING:
        return None
    generates = options.task is Task.GENERATE
    fields = _with_defaults(request, _among(body, _CHAT | _BUDGET), options)
    if not generates:
        # The server would keep room for output and cut the other side.
        fields = {k: v for k, v in fields.items() if k not in _BUDGET}
    if request.endpoint is Endpoint.CHAT:
        fields["return_token_offsets"] = options.with_offsets
        fields["mm_payload"] = "none"
        return Question(Path.CHAT, _with_media(fields, options), whole=not generates)
    fields["prompt"] = _prompt(request)
    fields["return_token_offsets"] = options.with_offsets
    return Question(Path.COMPLETION, fields, whole=not generates)


def tokenize_question(request: Request, body: JsonObject, options: JobOptions) -> Question | None:
    """What `/tokenize` is asked; None for what it does not take.

    Raises:
        RowError: a local media file that cannot be read.
    """
    if isinstance(request.prompt, ApiPrompt | TokensPrompt):
        return None
    fields = _with_defaults(request, _among(body, _TOKENIZE), options)
    if isinstance(request.prompt, TextPrompt):
        fields = _among(fields, frozenset({"add_special_tokens"}))
        return Question(Path.TOKENIZE, {**fields, "prompt": request.prompt.text}, whole=True)
    more = {k: body[k] for k in ("documents", "reasoning_effort") if body.get(k) is not None}
    if more:  # fields that this endpoint knows as template variables only
        given = fields.get("chat_template_kwargs")
        fields["chat_template_kwargs"] = more | (given if isinstance(given, dict) else {})
    return Question(Path.TOKENIZE, _with_media(fields, options), whole=True)


def reject_question(body: JsonObject, endpoint: Endpoint, options: JobOptions) -> Question:
    """A rejected row as its client would have sent it, with what the run sets for all rows."""
    fields = {k: v for k, v in body.items() if k not in _ANSWER_ONLY}
    if endpoint is Endpoint.CHAT:
        fields.setdefault("mm_payload", "none")
    if options.task is Task.GENERATE:
        fields |= _budget(fields, options)
    path = Path.CHAT if endpoint is Endpoint.CHAT else Path.COMPLETION
    return Question(path, fields, whole=False)


def _among(body: JsonObject, names: frozenset[str]) -> JsonObject:
    return {name: value for name, value in body.items() if name in names and value is not None}


def _prompt(request: Request) -> Json:
    match request.prompt:
        case TextPrompt(text):
            return text
        case TokensPrompt(token_ids):
            return [*token_ids]
    raise TypeError("a conversation is no completion")


def _with_defaults(request: Request, fields: JsonObject, options: JobOptions) -> JsonObject:
    """The row's fields, and for those that it lacks what the run takes."""
    fields = {**fields, **_budget(fields, options)}
    if isinstance(request.prompt, ChatPrompt):
        if options.chat_template_kwargs:
            own = fields.get("chat_template_kwargs")
            own = own if isinstance(own, dict) else {}
            fields["chat_template_kwargs"] = {**options.chat_template_kwargs, **own}
        if options.task is not Task.GENERATE:
            fields.setdefault("add_generation_prompt", False)
    return _as_embedded(request, fields) if request.endpoint is Endpoint.EMBEDDING else fields


def _as_embedded(request: Request, fields: JsonObject) -> JsonObject:
    """With the defaults of the embeddings endpoint, which knows no tools."""
    special = request.budget.add_special_tokens
    if not isinstance(request.prompt, ChatPrompt):
        return {**fields, "add_special_tokens": special is not False}
    fields = {name: value for name, value in fields.items() if name != "tools"}
    return {
        **fields,
        "messages": [*request.prompt.messages],
        "add_special_tokens": bool(special),
    }


def _budget(fields: JsonObject, options: JobOptions) -> JsonObject:
    """The budget fields that a run sets for rows that give none."""
    found: JsonObject = {}
    keep = options.truncate_prompt_tokens
    if keep is None and options.on_overlong is OnOverlong.TRUNCATE:
        keep = -1
    if keep is not None and fields.get("truncate_prompt_tokens") is None:
        found["truncate_prompt_tokens"] = keep
    if options.truncation_side is not None and fields.get("truncation_side") is None:
        found["truncation_side"] = options.truncation_side.value
    asked = (fields.get("max_tokens"), fields.get("max_completion_tokens"))
    if options.max_tokens is not None and asked == (None, None):
        found["max_tokens"] = options.max_tokens
    return found


def _with_media(fields: JsonObject, options: JobOptions) -> JsonObject:
    """The same with local media files as data URLs: the server may be on another machine."""
    messages = fields.get("messages")
    return {**fields, "messages": _inlined(messages, options.allowed_media_root)}


def _inlined(value: Json, root: str | None) -> Json:
    if isinstance(value, list):
        return [_inlined(item, root) for item in value]
    if not isinstance(value, dict):
        return value
    found: JsonObject = {}
    for key, item in value.items():
        if key in _MEDIA_KEYS and isinstance(item, str):
            found[key] = _data_url(item, root)
        elif key in _MEDIA_KEYS and isinstance(item, dict) and isinstance(item.get("url"), str):
            found[key] = {**item, "url": _data_url(str(item["url"]), root)}
        else:
            found[key] = _inlined(item, root)
    return found


def _data_url(url: str, root: str | None) -> str:
    path = local_path(url)
    if path is None:
        return url
    data = read_local(path, root, max_bytes=profile.MEDIA_MAX_BYTES)
    kind = mimetypes.guess_type(path)[0] or "application/octet-stream"
    return f"data:{kind};base64,{base64.b64encode(data).decode()}"
