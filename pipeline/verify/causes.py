"""Why two prompts differ: a guess from the ids and from the texts that they decode to."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass
from enum import StrEnum
from typing import Final

from promptmill.pipeline.verify.compare import MOST_ADDED, Mismatch, Stored

_MONTH: Final = r"(?:Jan|Feb|Mar|Apr|May|Jun|Jul|Aug|Sep|Oct|Nov|Dec)[a-z]*\.?"
_DATE: Final = re.compile(
    rf"\d{{4}}[-/.]\d{{1,2}}[-/.]\d{{1,2}}|\d{{1,2}} {_MONTH},? \d{{4}}"
    rf"|{_MONTH} \d{{1,2}},? \d{{4}}|\b\d{{1,2}}:\d{{2}}(?::\d{{2}})?\b"
)
_NULL: Final = re.compile(r',?\s*"[^"\\]*"\s*:\s*null|,?\s*"strict"\s*:\s*(?:true|false)')
_THINKING: Final = re.compile(
    r"<think>\s*(?:</think>)?\s*|/(?:no_)?think\b|reasoning[ _]effort\W+\w+", re.IGNORECASE
)
_SPACE: Final = re.compile(r"\s+")
_SHORT_END: Final = 12
"""Ids that a generation prompt has at most."""
_PROBE: Final = 8
"""Ids by which a piece of one prompt is found in another."""


class Cause(StrEnum):
    """What is likely behind a difference."""

    BOS = "bos"
    MEDIA_NOT_EXPANDED = "media_not_expanded"
    MEDIA_SIZE = "media_size"
    TRUNCATION = "truncation"
    GENERATION_PROMPT = "generation_prompt"
    DATE = "date"
    TOOLS = "tools"
    THINKING = "thinking"
    SPACE = "space"
    TEMPLATE = "template"
    TOKENIZER = "tokenizer"
    OFFSETS = "offsets"
    REFUSED = "refused"
    ACCEPTED = "accepted"
    SERVER_ERROR = "server_error"


ADVICE: Final = {
    Cause.BOS: "One side has one id more in front, as a BOS is: compare add_special_tokens of the "
    "row with what the template writes by itself (double_bos in warnings), and the tokenizer's own "
    "setting.",
    Cause.MEDIA_NOT_EXPANDED: "The server left one placeholder for each media item; apart from "
    "that the ids are the same. Give such a server collapsed ids: run with --media-ids collapsed, "
    "or readback.collapse().",
    Cause.MEDIA_SIZE: "Only the number of ids of media differs: compare the server's media "
    "processor arguments with --mm-processor-kwargs, and its preprocessor files.",
    Cause.TRUNCATION: "One side is a piece of the other: compare --max-model-len, "
    "--truncate-prompt-tokens and --truncation-side with what the server does.",
    Cause.GENERATION_PROMPT: "Only the end differs, by a few ids: compare add_generation_prompt, "
    "continue_final_message and --task.",
    Cause.DATE: "Only a date or a time differs: the template asks for the clock. Run with --clock.",
    Cause.TOOLS: "Only null or strict fields of JSON differ: tools are written with explicit nulls "
    "by this rules profile; the server is of another release.",
    Cause.THINKING: "Only marks of thinking differ: compare chat_template_kwargs and "
    "reasoning_effort with the server's --default-chat-template-kwargs.",
    Cause.SPACE: "Only white space differs: compare --chat-template-content-format and the "
    "template's release.",
    Cause.TEMPLATE: "The texts differ: another chat template or other template variables. Compare "
    "the template's hash in run.json with the server's, --chat-template and "
    "--chat-template-kwargs.",
    Cause.TOKENIZER: "The same text became other ids: another tokenizer, or another release of it "
    "or of transformers. (With --escape-control-tokens this is meant.)",
    Cause.OFFSETS: "The ids are the same and the offsets are not: please report it.",
    Cause.REFUSED: "The server refuses a prompt that the run made.",
    Cause.ACCEPTED: "The server takes a row that the run rejected.",
    Cause.SERVER_ERROR: "The server failed on the row, several times: look at its log.",
}
"""What to look at."""


@dataclass(frozen=True, slots=True)
class _Texts:
    ours: str
    theirs: str

    def same_without(self, pattern: re.Pattern[str]) -> bool:
        """Whether nothing differs once what matches is taken out of both."""
        return pattern.sub("", self.ours) == pattern.sub("", self.theirs)


def likely_cause(
    stored: Stored, found: Mismatch, *, bos: int | None, decode: Callable[[list[int]], str]
) -> Cause:
    """The first cause that explains the whole difference, else the nearest guess.

    Args:
        stored: the prompt.
        found: how the answer differs.
        bos: the tokenizer's BOS id, if it has one.
        decode: ids to text, special ones kept.
    """
    if found.only_offsets:
        return Cause.OFFSETS
    ours, theirs = stored.ids, found.answer.ids
    cut = stored.truncated_left or stored.truncated_right
    short, long = sorted((ours, theirs), key=len)
    # What a template writes first need not be the tokenizer's BOS: it is one more all the same.
    if short == long[1:] and (long[0] == bos or not cut):
        return Cause.BOS
    if stored.spans:
        if theirs == stored.collapsed:
            return Cause.MEDIA_NOT_EXPANDED
        if _without_media(stored, ours) == _without_media(stored, theirs):
            return Cause.MEDIA_SIZE
    texts = _Texts(decode(ours), decode(theirs))
    return _by_text(texts) or _by_length(stored, found) or _at_last(texts)


def _without_media(stored: Stored, ids: list[int]) -> list[int]:
    media = {i for s in stored.spans for i in stored.ids[s["offset"] : s["offset"] + s["length"]]}
    return [i for i in ids if i not in media]


def _by_length(stored: Stored, found: Mismatch) -> Cause | None:
    ours, theirs = stored.ids, found.answer.ids
    short, long = sorted((ours, theirs), key=len)
    starts, ends = long[: len(short)] == short, long[len(long) - len(short) :] == short
    cut = bool(stored.truncated_left or stored.truncated_right)
    if starts and not cut and len(long) - len(short) <= _SHORT_END:
        return Cause.GENERATION_PROMPT
    # A prompt that was not cut may start as another template's does, somewhere within.
    if starts or (ends and (cut or (len(theirs) < len(ours) and theirs[:1] != ours[:1]))):
        return Cause.TRUNCATION
    # Cut on another side, or by another number of ids: they differ from the start on (but for
    # special ids that were kept), and one stretch is in both.
    if cut and found.index <= MOST_ADDED and _overlap(ours, theirs):
        return Cause.TRUNCATION
    return None


def _overlap(ours: list[int], theirs: list[int]) -> bool:
    """Whether the start or the end of one lies elsewhere in the other."""
    size = min(_PROBE, len(ours), len(theirs))
    if not size:
        return False
    found = {tuple(theirs[n : n + size]) for n in range(1, len(theirs) - size)}
    return tuple(ours[:size]) in found or tuple(ours[-size:]) in found


def _by_text(texts: _Texts) -> Cause | None:
    """What one kind of text explains alone."""
    if texts.ours == texts.theirs:
        return Cause.TOKENIZER
    kinds = ((_DATE, Cause.DATE), (_NULL, Cause.TOOLS), (_THINKING, Cause.THINKING))
    return next((cause for kind, cause in kinds if texts.same_without(kind)), None)


def _at_last(texts: _Texts) -> Cause:
    if texts.same_without(_SPACE):
        return Cause.SPACE
    return Cause.TEMPLATE if _alike(texts) else Cause.TOKENIZER


def _alike(texts: _Texts) -> bool:
    """Whether the texts share words: ids of another vocabulary decode to something else."""
    ours, theirs = set(texts.ours.split()), set(texts.theirs.split())
    return 4 * len(ours & theirs) >= min(len(ours), len(theirs))
