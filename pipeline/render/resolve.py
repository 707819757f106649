"""Which template a request is rendered with.

Profile rule (vLLM 0.33.0, `resolve_chat_template` of `renderers/hf.py`): the row's, the job's, the
one in the template arguments; else the processor's where no tools are given; else the tokenizer's.
The server's built-in templates for models that ship none are not part of promptmill.
"""

from __future__ import annotations

from pathlib import Path

from promptmill.schemas.bundle import ModelBundle
from promptmill.schemas.errors import ErrorCode, JobError, RowError
from promptmill.schemas.json_types import Json
from promptmill.schemas.options import JobOptions
from promptmill.schemas.request import ChatPrompt


class TemplateResolver:
    """Finds templates for one model and one set of options.

    Raises:
        JobError: `--chat-template` cannot be read.
    """

    def __init__(self, bundle: ModelBundle, options: JobOptions) -> None:
        self._bundle = bundle
        self._trusted = options.trust_request_chat_template
        self._named = bundle.chat_templates if bundle.templates_are_named else {}
        self._given = template_text(options.chat_template, bundle)

    def check_trust(self, prompt: ChatPrompt) -> None:
        """Refuse a template that comes with a row, unless rows are trusted.

        Raises:
            RowError: UNTRUSTED_TEMPLATE.
        """
        in_kwargs = (prompt.chat_template_kwargs or {}).get("chat_template")
        if not self._trusted and (prompt.chat_template is not None or in_kwargs is not None):
            raise RowError(
                ErrorCode.UNTRUSTED_TEMPLATE,
                "Chat template is passed with request, but --trust-request-chat-template is not "
                "set. Refused request with untrusted chat template.",
            )

    def given(self, prompt: ChatPrompt) -> str | None:
        """The template that the row or the job gives, a name or a text."""
        return prompt.chat_template or self._given

    def find(self, given: Json, tools: Json) -> str | None:
        """The text of the template; None where the model has none."""
        if isinstance(given, str):
            return self._named.get(given, given)
        if tools is None and self._bundle.processor_template is not None:
            return self._bundle.processor_template
        templates = self._bundle.chat_templates
        if tools is not None and "tool_use" in templates:
            return templates["tool_use"]
        return templates.get("default")

    def missing(self) -> RowError:
        """The error of a chat row for which there is no template."""
        if self._named:
            reason = (
                f"This model has the chat templates {', '.join(sorted(self._named))}, and none is "
                "the default."
            )
        else:
            reason = "As of transformers v4.44, default chat template is no longer allowed."
        return RowError(
            ErrorCode.NO_CHAT_TEMPLATE,
            f"{reason} You must provide a chat template if the tokenizer does not define one: "
            "give --chat-template with a file, a template text or a name.",
        )


def template_text(given: str | None, bundle: ModelBundle) -> str | None:
    """What `--chat-template` means: a template text, a name of the model's, or a file to read.

    The result means the same again, so that a job resolves it once for workers elsewhere.

    Raises:
        JobError: the file cannot be read, or holds no template.
    """
    named = bundle.templates_are_named and given in bundle.chat_templates
    if given is None or named or _is_template(given):
        return given
    try:
        text = Path(given).read_text(encoding="utf-8")
    except (OSError, ValueError) as error:
        raise JobError(
            f"--chat-template {given} is neither a template text nor a file that can be read "
            f"({error}), nor the name of one of the model's templates. Check the path."
        ) from error
    if not _is_template(text):
        raise JobError(
            f"The file of --chat-template {given} holds no template. Name a file in Jinja."
        )
    return text


def _is_template(value: str) -> bool:
    return any(mark in value for mark in "{}\n")
