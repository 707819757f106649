"""The template variables of a request: who gives what, who wins, what is dropped.

Profile rule (vLLM 0.33.0, `renderers/hf.py`, over transformers 5.20).
"""

from __future__ import annotations

from collections.abc import Set
from typing import Final

import msgspec

from promptmill.schemas.errors import ErrorCode, RowError
from promptmill.schemas.json_types import Json, JsonObject
from promptmill.schemas.options import JobOptions, Task
from promptmill.schemas.request import ChatPrompt, Endpoint, Request

_CALL_ONLY: Final = frozenset(
    {
        "add_generation_prompt",
        "chat_template",
        "continue_final_message",
        "documents",
        "max_length",
        "padding",
        "return_assistant_tokens_mask",
        "return_dict",
        "return_tensors",
        "sanitize_control_tokens",
        "tokenize",
        "tokenizer_kwargs",
        "tools",
        "truncation",
    }
)
"""Parameters of `apply_chat_template`: a template never sees a variable of these names from
`chat_template_kwargs` (tools, documents and the generation prompt reach it by another way)."""

_TAKEN: Final = {
    "conversation": "safe_apply_chat_template()",
    "model_config": "safe_apply_chat_template()",
    "tokenizer": "safe_apply_chat_template()",
    "self": "apply_chat_template()",
}
"""Names that the server itself passes, and the function that refuses a second value."""

_TAKEN_IN_TEMPLATE: Final = {
    "conversations": "transformers.utils.chat_template_utils.render_jinja_template()",
    "messages": "jinja2.environment.Template.render()",
}
"""The same for names that get so far only where the template reads them."""

_ALL_TAKEN: Final = frozenset({*_TAKEN, *_TAKEN_IN_TEMPLATE})

_TOKENIZER_ARGUMENTS: Final = (
    "max_length",
    "padding",
    "return_tensors",
    "tokenizer_kwargs",
    "truncation",
)
"""Without effect as long as the call does not tokenize."""

_BAD_TOOLS: Final = (
    "Tools should either be a JSON schema, or a callable function with type hints and a docstring "
    "suitable for auto-conversion to a schema."
)
_BAD_DOCUMENTS: Final = "Documents should be a list of dicts with 'title' and 'text' keys!"
_BAD_MASK: Final = (
    "`return_assistant_tokens_mask=True` requires `return_dict=True` and `tokenize=True`. Leave it "
    "out; --with-mask gives masks."
)
_BAD_SANITIZE: Final = (
    "`sanitize_control_tokens=True` requires `tokenize=True` and is not compatible with "
    "`return_assistant_tokens_mask=True`."
)
_BAD_CONTINUE: Final = (
    "continue_final_message and add_generation_prompt are not compatible. Use "
    "continue_final_message when you want the model to continue the final message, and "
    "add_generation_prompt when you want to add a header that will prompt it to start a new "
    "assistant message instead."
)


class Arguments(msgspec.Struct, frozen=True, kw_only=True):
    """The arguments of one rendering, checked."""

    tools: Json = None
    documents: Json = None
    add_generation_prompt: bool = False
    continue_final_message: bool = False
    tokenize: bool = False
    """The server would answer in ids, without text."""
    sanitize_control_tokens: bool = False
    extra: JsonObject
    """All other variables of the template."""


def merged_kwargs(request: Request, prompt: ChatPrompt, options: JobOptions) -> JsonObject:
    """All arguments of the server's `apply_chat_template` call, before any is dropped.

    Later ones win: the server's defaults, tools, the job's, the row's, the fields of the row.
    A value of None or "auto" never replaces another.
    """
    given = prompt.chat_template_kwargs or {}
    merged = {**options.default_chat_template_kwargs}
    if prompt.tools is not None:
        merged["tools"] = [*prompt.tools]
    merged["tokenize"] = False
    for kwargs in (options.chat_template_kwargs, given):
        if kwargs:
            _update(merged, kwargs)
    merged["add_generation_prompt"] = _generation_prompt(request, prompt, options)
    merged["continue_final_message"] = prompt.continue_final_message
    if prompt.documents is not None:
        merged["documents"] = [*prompt.documents]
    if prompt.reasoning_effort is not None:
        merged["reasoning_effort"] = prompt.reasoning_effort
        if given.get("enable_thinking") is None:
            merged["enable_thinking"] = prompt.reasoning_effort != "none"
    return merged


def check_arguments(merged: JsonObject, variables: Set[str]) -> Arguments:
    """The merged arguments as transformers takes them; what a template does not read is dropped.

    Args:
        merged: from `merged_kwargs`.
        variables: the names that the template reads.

    Raises:
        RowError: INVALID_REQUEST in the words of the server; UNSUPPORTED_REQUEST for arguments of
            the tokenizer call together with `tokenize`.
    """
    if not merged.keys().isdisjoint(_ALL_TAKEN):
        _check_taken(merged, variables)
    tokenize = bool(merged.get("tokenize"))
    arguments = Arguments(
        tools=_objects(merged.get("tools"), _BAD_TOOLS),
        documents=_objects(merged.get("documents"), _BAD_DOCUMENTS),
        add_generation_prompt=bool(merged.get("add_generation_prompt")),
        continue_final_message=bool(merged.get("continue_final_message")),
        tokenize=tokenize,
        sanitize_control_tokens=bool(merged.get("sanitize_control_tokens")),
        extra={k: v for k, v in merged.items() if k in variables and k not in _CALL_ONLY},
    )
    if merged.get("return_assistant_tokens_mask"):
        raise _invalid(_BAD_MASK)
    if arguments.continue_final_message and arguments.add_generation_prompt:
        raise _invalid(_BAD_CONTINUE)
    if arguments.sanitize_control_tokens and not tokenize:
        raise _invalid(_BAD_SANITIZE)
    used = [name for name in _TOKENIZER_ARGUMENTS if merged.get(name)] if tokenize else []
    if used:
        raise RowError(
            ErrorCode.UNSUPPORTED_REQUEST,
            f"chat_template_kwargs {', '.join(used)} together with tokenize are not supported. "
            "Leave tokenize out and use the row's budget fields.",
            parameter="chat_template_kwargs",
        )
    return arguments


def _check_taken(merged: JsonObject, variables: Set[str]) -> None:
    for name in _TAKEN.keys() & merged:
        raise _invalid(f"{_TAKEN[name]} got multiple values for argument '{name}'")
    for name in _TAKEN_IN_TEMPLATE.keys() & merged & variables:
        function = _TAKEN_IN_TEMPLATE[name]
        raise _invalid(f"{function} got multiple values for keyword argument '{name}'")


def _update(merged: JsonObject, given: JsonObject) -> None:
    merged |= {key: value for key, value in given.items() if value is not None and value != "auto"}


def _generation_prompt(request: Request, prompt: ChatPrompt, options: JobOptions) -> bool:
    if prompt.add_generation_prompt is not None:
        return prompt.add_generation_prompt
    return options.task is Task.GENERATE and request.endpoint is not Endpoint.EMBEDDING


def _objects(value: Json, problem: str) -> Json:
    """Tools or documents: objects, if any."""
    if value is None:
        return None
    if not isinstance(value, (list, dict, str)):
        raise _invalid(f"'{type(value).__name__}' object is not iterable")
    if not all(isinstance(item, dict) for item in value):
        raise _invalid(problem)
    return value


def _invalid(message: str) -> RowError:
    return RowError(ErrorCode.INVALID_REQUEST, message)
