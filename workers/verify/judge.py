"""One prompt held against a server's answer."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from enum import StrEnum
from typing import Final, TypeAlias, cast

import numpy as np

from promptmill.pipeline.encoder import Encoder
from promptmill.pipeline.media import Expanded
from promptmill.pipeline.parse.rows import parse_row, row_body
from promptmill.pipeline.steps import Job
from promptmill.pipeline.verify.causes import Cause, likely_cause
from promptmill.pipeline.verify.compare import Answer, Mismatch, Pair, Stored, compare
from promptmill.pipeline.verify.questions import (
    Path,
    Question,
    reject_question,
    render_question,
    tokenize_question,
)
from promptmill.pipeline.write.readback import StoredSpan
from promptmill.schemas.errors import ErrorCode, RowError, Stage
from promptmill.schemas.json_types import JsonObject
from promptmill.schemas.media import MediaSpan, Modality
from promptmill.schemas.options import MediaIds, Task
from promptmill.schemas.request import ChatPrompt, Endpoint, Reject, Request
from promptmill.workers.verify.client import NoAnswer, Refusal, Server
from promptmill.workers.verify.rejects import why_not_asked
from promptmill.workers.verify.sample import Sampled

AROUND: Final = 8
"""Ids that are shown on each side of a difference."""


class Takes(StrEnum):
    """What a server makes ids of."""

    REQUESTS = "render endpoints"
    CONVERSATIONS = "/tokenize"
    TEXTS = "/tokenize, texts only"


@dataclass(frozen=True, slots=True)
class Excerpt:
    """One side of a difference."""

    length: int
    start: int
    """Index of the first id shown."""
    ids: list[int]
    text: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Difference:
    """A prompt that is not what the server has."""

    cause: Cause
    sampled: Sampled
    index: int | None = None
    """Of the first id (or pair of offsets) that differs."""
    ours: Excerpt | None = None
    theirs: Excerpt | None = None
    message: str = ""
    """What was answered, where that is no prompt."""


@dataclass(frozen=True, slots=True)
class Equal:
    """The same prompt, or refused by both."""

    was_reject: bool = False


@dataclass(frozen=True, slots=True)
class NotAsked:
    """Nothing to compare; says why."""

    reason: str


Verdict: TypeAlias = Equal | Difference | NotAsked


@dataclass(frozen=True, slots=True)
class Judge:
    """Judges the prompts of one run by one server. Safe to use from several threads."""

    encoder: Encoder
    server: Server
    model: str | None
    """By which the server knows the model."""
    takes: Takes

    def judge(self, sampled: Sampled) -> Verdict:
        """Ask the server for one prompt, and compare.

        Raises:
            JobError: the server cannot be asked any longer.
        """
        try:
            return self._row(sampled) if sampled.reject is None else self._reject(sampled)
        except NoAnswer as error:
            return Difference(cause=Cause.SERVER_ERROR, sampled=sampled, message=f"{error}.")
        except RowError as error:
            return NotAsked(f"rows that cannot be made again here ({error.code})")

    def _row(self, sampled: Sampled) -> Verdict:
        request = self._request(sampled)
        if request is None:
            return NotAsked("rows that cannot be parsed again")
        body, options = row_body(sampled.raw, self.encoder.options), self.encoder.options
        question = None
        if self.takes is Takes.REQUESTS and not self._was_cut_otherwise(sampled):
            question = render_question(request, body, options)
        if question is None:
            question = tokenize_question(request, body, options)
        if self.takes is Takes.TEXTS and isinstance(request.prompt, ChatPrompt):
            question = self._as_text(sampled, request)
        if question is None:
            return NotAsked("prompts that this server has no endpoint for")
        answer = self._ask(question)
        if isinstance(answer, Refusal) and answer.no_endpoint:
            return NotAsked("prompts that this server has no endpoint for")
        if isinstance(answer, Refusal):
            cause = Cause.SERVER_ERROR if answer.of_server else Cause.REFUSED
            return Difference(
                cause=cause, sampled=sampled, message=f"{answer.status}: {answer.message}"
            )
        stored = self._stored(sampled, request)
        found = compare(stored, answer)
        return Equal() if found is None else self._difference(sampled, stored, found)

    def _was_cut_otherwise(self, sampled: Sampled) -> bool:
        """Whether the run cut as no server does, so that the whole prompt must be asked for."""
        cut = sampled.stored is not None and bool(sampled.stored["truncated"])
        return cut and self.encoder.options.task is not Task.GENERATE

    def _reject(self, sampled: Sampled) -> Verdict:
        error = cast(JsonObject, (sampled.reject or {})["error"])
        code = ErrorCode(str(error["code"]))
        reason = why_not_asked(code, error.get("value"), self.encoder.max_model_len)
        if reason is not None:
            return NotAsked(reason)
        if self.takes is not Takes.REQUESTS:
            return NotAsked("rejects: /tokenize has no limits to refuse them by")
        question = self._reject_question(sampled)
        if question is None:
            return NotAsked("rejects that are no request")
        answer = self._ask(question, patient=False)
        if isinstance(answer, Refusal) and answer.no_endpoint:
            return NotAsked("rejects that this server has no endpoint for")
        if isinstance(answer, Refusal):
            return Equal(was_reject=True)
        message = f"rejected as {code}; the server made {len(answer.ids)} ids of it"
        return Difference(cause=Cause.ACCEPTED, sampled=sampled, message=message)

    def _reject_question(self, sampled: Sampled) -> Question | None:
        body, options = row_body(sampled.raw, self.encoder.options), self.encoder.options
        request = self._request(sampled)
        if request is not None:
            return render_question(request, body, options)
        if "messages" in body:
            return reject_question(body, Endpoint.CHAT, options)
        return reject_question(body, Endpoint.COMPLETION, options) if "prompt" in body else None

    def _request(self, sampled: Sampled) -> Request | None:
        for item in parse_row(sampled.raw, self.encoder.options):
            if isinstance(item, Reject):
                return None
            if item.place.prompt_index == sampled.prompt_index:
                return item
        return None

    def _ask(self, question: Question, *, patient: bool = True) -> Answer | Refusal:
        if self.model is not None:
            question = replace(question, body={**question.body, "model": self.model})
        answer = self.server.ask(question, patient=patient)
        if isinstance(answer, Refusal) and _lacks_tool_parser(question, answer):
            # The prompt does not depend on the choice; the server's refusal does.
            question = replace(question, body={**question.body, "tool_choice": "none"})
            return self.server.ask(question, patient=patient)
        return answer

    def _as_text(self, sampled: Sampled, request: Request) -> Question | None:
        """The conversation as it is rendered here, its control tokens in it."""
        if sampled.stored is not None and sampled.stored["mm_placeholders"]:
            return None  # the server would take the placeholder for text
        job = Job(sampled.raw, request, self.encoder.admit(request))
        (rendered,) = self.encoder.render([job], _unexpected)
        if rendered.rendered.text is None:
            return None
        special = bool(request.budget.add_special_tokens)
        body: JsonObject = {"prompt": rendered.rendered.text, "add_special_tokens": special}
        return Question(Path.TOKENIZE, body, whole=True)

    def _stored(self, sampled: Sampled, request: Request) -> Stored:
        row = cast(dict[str, object], sampled.stored)
        ids = cast(list[int], row["prompt_token_ids"])
        offsets = cast("list[Pair] | None", row.get("prompt_token_offsets"))
        spans = cast("list[dict[str, object]]", row["mm_placeholders"])
        options = self.encoder.options
        is_collapsed = options.media_ids is MediaIds.COLLAPSED
        appends = options.append_eos and request.endpoint is Endpoint.DOCUMENT
        return Stored(
            ids=ids,
            offsets=None if offsets is None else [(start, end) for start, end in offsets],
            spans=cast(tuple[StoredSpan, ...], tuple(spans)),
            is_collapsed=is_collapsed,
            collapsed=self._collapsed(ids, spans) if spans and not is_collapsed else None,
            truncated_left=cast(int, row["truncated_left"]),
            truncated_right=cast(int, row["truncated_right"]),
            appended_eos=self.encoder.bundle.facts.eos_token_id if appends else None,
        )

    def _collapsed(self, ids: list[int], spans: Sequence[dict[str, object]]) -> list[int] | None:
        expander = self.encoder.media.expander
        if expander is None:
            return None
        found = tuple(
            MediaSpan(
                modality=Modality(str(span["modality"])),
                offset=cast(int, span["offset"]),
                length=cast(int, span["length"]),
                index=cast(int, span["index"]),
                hash="",
            )
            for span in spans
        )
        made = expander.collapse(Expanded(np.array(ids, np.int32), spans=found))
        return cast(list[int], made.ids.tolist())

    def _difference(self, sampled: Sampled, stored: Stored, found: Mismatch) -> Difference:
        decode = self.encoder.tokenizer.decode
        cause = likely_cause(
            stored, found, bos=self.encoder.bundle.facts.bos_token_id, decode=decode
        )
        return Difference(
            cause=cause,
            sampled=sampled,
            index=found.index,
            ours=self._excerpt(stored.ids, found.index),
            theirs=self._excerpt(found.answer.ids, found.index),
            message=_offsets(stored, found) if found.only_offsets else "",
        )

    def _excerpt(self, ids: list[int], index: int) -> Excerpt:
        start = max(0, index - AROUND)
        shown = ids[start : index + AROUND]
        return Excerpt(len(ids), start, shown, self.encoder.tokenizer.decode(shown))


def _unexpected(job: Job, error: RowError, stage: Stage) -> None:
    raise error


def _offsets(stored: Stored, found: Mismatch) -> str:
    ours, theirs = stored.offsets or [], found.answer.offsets or []
    pairs = [side[found.index] if found.index < len(side) else None for side in (ours, theirs)]
    return f"offsets of id {found.index}: {pairs[0]} here, {pairs[1]} there"


def _lacks_tool_parser(question: Question, answer: Refusal) -> bool:
    message = answer.message.lower().replace("_", " ").replace("-", " ")
    asks = question.body.get("tools") and question.body.get("tool_choice") != "none"
    return bool(asks) and ("tool choice" in message or "tool call parser" in message)
