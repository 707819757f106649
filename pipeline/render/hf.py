"""Chats through the model's chat template, as the server's Hugging Face renderer does."""

from __future__ import annotations

from datetime import datetime
from typing import Final

from promptmill.pipeline.render.base import MediaRules, as_given, chat_prompt
from promptmill.pipeline.render.chat import Chat
from promptmill.pipeline.render.controls import ControlSpellings
from promptmill.pipeline.render.conversation import Conversation, ConversationBuilder
from promptmill.pipeline.render.developer import FOLDED, fold_developer, has_developer
from promptmill.pipeline.render.environment import TemplateEnvironment
from promptmill.pipeline.render.escape import UNTRACKED, ContentTracker
from promptmill.pipeline.render.masks import GENERATION_MARKS, AssistantSpans
from promptmill.pipeline.render.resolve import TemplateResolver
from promptmill.pipeline.render.shadow import shadow_join
from promptmill.pipeline.render.variables import check_arguments, merged_kwargs
from promptmill.schemas.bundle import ModelBundle
from promptmill.schemas.errors import ErrorCode, RowError
from promptmill.schemas.json_types import JsonObject
from promptmill.schemas.options import ContentFormat, EngineName, JobOptions
from promptmill.schemas.request import (
    NO_TURN,
    CharSpan,
    ChatPrompt,
    Rendered,
    Request,
)

_EMPTY: Final = "Cannot apply chat template to an empty conversation. Provide at least one message."


class HfRenderer:
    """Renders requests with Jinja chat templates.

    Args:
        bundle: the model.
        options: the job's.
        clock: what `strftime_now` tells.
        media: the model's media rules; None: it takes text only.

    Raises:
        JobError: `--chat-template` names no file.
    """

    def __init__(
        self,
        bundle: ModelBundle,
        options: JobOptions,
        clock: datetime,
        media: MediaRules | None = None,
    ) -> None:
        self._bundle = bundle
        self._options = options
        self._media = media
        self._resolver = TemplateResolver(bundle, options)
        direct = options.engine is not EngineName.TOKENIZERS
        self._templates = TemplateEnvironment(clock, direct=direct)
        self._controls = ControlSpellings(bundle)
        tracking = TemplateEnvironment(clock, concat=shadow_join)
        self._tracker = ContentTracker(self._controls, tracking)
        marking = TemplateEnvironment(clock, generation_marks=GENERATION_MARKS)
        self._spans = AssistantSpans(options.mask, self._controls, marking)

    def admit(self, request: Request) -> None:
        """Refuse a template that comes with an untrusted row; see `Renderer`."""
        if isinstance(request.prompt, ChatPrompt):
            self._resolver.check_trust(request.prompt)

    def render(self, request: Request) -> Rendered:
        """The prompt of one request; see `Renderer`."""
        given = as_given(request, mask_wanted=self._options.mask_wanted)
        if given is not None:
            return given
        prompt = chat_prompt(request)
        self._resolver.check_trust(prompt)  # for callers that do not ask `admit` first
        return self._render_chat(request, prompt)

    def conversation(self, prompt: ChatPrompt, merged: JsonObject) -> Conversation:
        """The messages as the template sees them, developers still among them.

        Args:
            prompt: the chat.
            merged: from `merged_kwargs`.

        Raises:
            RowError: from the messages, from their media, or from a template that Jinja cannot
                read.
        """
        builder = ConversationBuilder(
            self._content_format(prompt, merged),
            model=self._bundle.name,
            media=self._media,
            interleave=self._options.interleave_mm_strings,
        )
        conversation = builder.build(prompt.messages)
        if self._media is not None and conversation.media:
            self._media.check_items(conversation.media)
            self._media.check_typed([*prompt.messages, merged.get("tools")], conversation.media)
        return conversation

    def _render_chat(self, request: Request, prompt: ChatPrompt) -> Rendered:
        merged = merged_kwargs(request, prompt, self._options)
        conversation = self.conversation(prompt, merged)
        chat = self._chat(prompt, merged, conversation)
        text = chat.render()
        warnings = conversation.warnings
        return Rendered(
            text=text,
            hide_text=chat.arguments.tokenize,
            special_ranges=self._special_ranges(chat, text, warnings),
            assistant_spans=self._assistant_spans(chat, text, warnings),
            media=tuple(conversation.media),
            warnings=tuple(warnings),
        )

    def _content_format(self, prompt: ChatPrompt, merged: JsonObject) -> ContentFormat:
        """As asked for, else as the template wants it. A template from the arguments does not
        count here: the server looks at the one that would be taken without it."""
        asked = self._options.chat_template_content_format
        if asked is not ContentFormat.AUTO:
            return asked
        source = self._resolver.find(self._resolver.given(prompt), merged.get("tools"))
        if source is None:
            return ContentFormat.STRING
        return self._templates.compile(source).content_format

    def _chat(self, prompt: ChatPrompt, merged: JsonObject, conversation: Conversation) -> Chat:
        given = self._resolver.given(prompt) or merged.get("chat_template")
        source = self._resolver.find(given, merged.get("tools"))
        if source is None:
            raise self._resolver.missing()
        template = self._templates.compile(source)
        messages = conversation.messages
        if has_developer(messages) and not template.knows_developer:
            messages = fold_developer(messages)
            conversation.warnings.append(FOLDED)
        arguments = check_arguments(merged, template.variables)
        if not messages:
            raise RowError(ErrorCode.INVALID_REQUEST, _EMPTY)
        return Chat(
            template=template,
            messages=messages,
            arguments=arguments,
            special_tokens=self._bundle.special_tokens_map,
        )

    def _special_ranges(
        self, chat: Chat, text: str, warnings: list[str]
    ) -> tuple[CharSpan, ...] | None:
        """What the template wrote of control tokens, where content is to be kept from writing any.

        transformers' `sanitize_control_tokens` is taken for the same wish.
        """
        given, controls = chat.arguments, self._controls
        escape = self._options.escape_control_tokens or given.sanitize_control_tokens
        typed = controls.count([*chat.said, given.documents])
        typed += controls.count_in_tools(given.tools)
        if typed:
            fate = ", encoded as plain text" if escape else ""
            warnings.append(f"{typed} control token{'s' if typed > 1 else ''} in content{fate}")
        if not escape:
            return None
        escaped = self._tracker.escape(chat, text)
        if not escaped.tracked:
            warnings.append(UNTRACKED)
        return escaped.ranges

    def _assistant_spans(
        self, chat: Chat, text: str, warnings: list[str]
    ) -> tuple[CharSpan, ...] | None:
        """What assistant turns wrote, where a mask is wanted."""
        if not self._options.mask_wanted:
            return None
        spans = self._spans.find(chat, text)
        if not spans:
            warnings.append(NO_TURN)
        return spans
