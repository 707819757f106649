"""A finished run held against a live server: draw, read again, ask, add up."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from itertools import islice
from typing import Final

from promptmill.pipeline.encoder import Encoder
from promptmill.pipeline.model.bundle_cache import load_bundle_cached
from promptmill.pipeline.verify.causes import Cause
from promptmill.pipeline.verify.questions import Path, Question
from promptmill.schemas.errors import JobError
from promptmill.schemas.json_types import Json, JsonObject
from promptmill.schemas.options import EngineName
from promptmill.workers.finished_run import FinishedRun
from promptmill.workers.verify.client import Facts, NoAnswer, Refusal, Server
from promptmill.workers.verify.judge import Difference, Equal, Judge, NotAsked, Takes, Verdict
from promptmill.workers.verify.sample import draw, read_sample

_START: Final = (
    "vLLM has both when started by `vllm launch render MODEL`, or by `vllm serve MODEL "
    "--enable-scale-out`."
)
_SILENT: Final = 3
"""Prompts without any answer, none before, after which the server is given up."""
_LINE_SECONDS: Final = 10.0
_AT_ONCE: Final = 16
"""Prompts a connection that are under way or waiting."""


@dataclass(slots=True)
class Finding:
    """All differences of one cause."""

    first: Difference
    count: int = 1


@dataclass(slots=True, kw_only=True)
class Verification:
    """What came of it."""

    url: str
    facts: Facts
    takes: Takes
    seed: int
    total: int
    """Prompts of the run, rejects among them."""
    notes: list[str]
    sampled: int = 0
    equal: int = 0
    refused_by_both: int = 0
    not_asked: Counter[str] = field(default_factory=Counter)
    """Prompts that nothing could be compared of, by reason."""
    findings: dict[Cause, Finding] = field(default_factory=dict)

    @property
    def passed(self) -> bool:
        """Whether something was compared, and all of it is the same."""
        return not self.findings and self.equal + self.refused_by_both > 0

    @property
    def different(self) -> int:
        """Prompts that differ, whatever the cause."""
        return sum(finding.count for finding in self.findings.values())


def verify(
    run: FinishedRun,
    server: Server,
    *,
    size: int | None,
    seed: int,
    model: str | None,
    connections: int,
    tell: Callable[[str], None] = lambda _: None,
) -> Verification:
    """Send prompts of a run to a server, and compare what it makes of them.

    Args:
        run: the run; its input is read again.
        server: where to send them.
        size: how many are drawn; None: all.
        seed: of the draw.
        model: by which the server knows the model; None: as it says itself.
        connections: prompts that are asked at the same time.
        tell: is told now and then how far it is.

    Raises:
        JobError: the server or the input cannot be used.
    """
    facts = server.facts(model)
    takes = _finds_endpoints(server, facts.model)
    options = run.options.model_copy(update={"engine": EngineName.TOKENIZERS})
    encoder = Encoder(load_bundle_cached(options), options, run.clock)
    judge = Judge(encoder, server, facts.model, takes)
    made = Verification(
        url=server.url,
        facts=facts,
        takes=takes,
        seed=seed,
        total=sum(totals.rows_in for _, totals in run.committed()),
        notes=_notes(run, encoder, facts, takes),
    )
    sample = read_sample(run, run.plan(), draw(run, size, seed))
    next_line = time.monotonic() + _LINE_SECONDS
    with ThreadPoolExecutor(connections) as pool:
        while batch := list(islice(sample, _AT_ONCE * connections)):
            _count(made, pool.map(judge.judge, batch))
            if time.monotonic() > next_line:
                tell(f"{made.sampled:,} prompts compared, {made.different:,} different")
                next_line = time.monotonic() + _LINE_SECONDS
    return made


def _finds_endpoints(server: Server, model: str | None) -> Takes:
    named: JsonObject = {} if model is None else {"model": model}
    render = Question(Path.COMPLETION, {**named, "prompt": "a", "max_tokens": 1}, whole=False)
    text = Question(Path.TOKENIZE, {**named, "prompt": "a"}, whole=True)
    messages: Json = [{"role": "user", "content": "a"}]
    chat = Question(Path.TOKENIZE, {**named, "messages": messages}, whole=True)
    try:
        if server.has(render):
            return Takes.REQUESTS
        if not server.has(text):
            raise JobError(
                f"{server.url} has neither {Path.COMPLETION} nor {Path.TOKENIZE}. {_START}"
            )
        refused = isinstance(server.ask(chat), Refusal)
        return Takes.TEXTS if refused else Takes.CONVERSATIONS
    except NoAnswer as error:
        raise JobError(f"{server.url}: {error}. Try later, or with a longer --timeout.") from None


def _notes(run: FinishedRun, encoder: Encoder, facts: Facts, takes: Takes) -> list[str]:
    notes = []
    if takes is not Takes.REQUESTS:
        notes.append(
            f"The server has no render endpoints, so {Path.TOKENIZE} was asked: limits, rejects "
            f"and offsets are not compared, and cuts are made here. {_START}"
        )
    if takes is Takes.TEXTS:
        notes.append(
            f"Its {Path.TOKENIZE} takes no conversations, so it was sent the text rendered here: "
            "its chat template is not compared."
        )
    length = encoder.max_model_len
    if facts.max_model_len is not None and facts.max_model_len != length:
        notes.append(
            f"The server's context is {facts.max_model_len} ids and the run's {length}: "
            "truncations to -1 and refusals for length will differ."
        )
    if run.options.escape_control_tokens:
        notes.append("The run escaped control tokens in contents, and no server does.")
    return notes


def _count(made: Verification, verdicts: Iterator[Verdict]) -> None:
    for verdict in verdicts:
        made.sampled += 1
        match verdict:
            case Equal(was_reject):
                made.refused_by_both += was_reject
                made.equal += not was_reject
            case NotAsked(reason):
                made.not_asked[reason] += 1
            case Difference(cause=cause):
                finding = made.findings.setdefault(cause, Finding(verdict, 0))
                finding.count += 1
        failed = made.findings.get(Cause.SERVER_ERROR)
        if failed is not None and failed.count == _SILENT == made.sampled:
            raise JobError(f"{made.url} answers nothing: {failed.first.message}")
