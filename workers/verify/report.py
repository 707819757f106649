"""A verification for people and for programs."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator

from promptmill.pipeline.verify.causes import ADVICE, Cause
from promptmill.schemas.json_types import JsonObject
from promptmill.workers.summary import counted
from promptmill.workers.verify.judge import Difference, Excerpt
from promptmill.workers.verify.run import Finding, Verification
from promptmill.workers.visible import visible


def lines(made: Verification) -> Iterator[str]:
    """What a person reads."""
    facts = made.facts
    said = [f"model {facts.model}"] if facts.model else []
    said += [f"context {facts.max_model_len}"] if facts.max_model_len else []
    said += [f"version {facts.version}"] if facts.version else []
    yield f"server     {made.url} ({', '.join([*said, made.takes.value])})"
    drawn = "all" if made.sampled == made.total else f"drawn with seed {made.seed}"
    yield f"sampled    {made.sampled:,} of {counted(made.total, 'prompt')}, {drawn}"
    yield f"equal      {made.equal:,}"
    if made.refused_by_both:
        yield f"refused    {made.refused_by_both:,} rejects, by the server as well"
    for reason, count in sorted(made.not_asked.items()):
        yield f"not asked  {count:,} {reason}"
    yield f"different  {made.different:,}"
    yield from (f"note: {note}" for note in made.notes)
    for cause, finding in made.findings.items():
        yield ""
        yield from _finding(cause, finding)
    if not made.findings and not made.passed:
        yield "Nothing was compared."


def _finding(cause: Cause, finding: Finding) -> Iterator[str]:
    first, sampled = finding.first, finding.first.sampled
    name = visible(sampled.custom_id)
    place = f"{visible(sampled.source)} row {sampled.row_index}"
    if sampled.prompt_index:
        place += f" prompt {sampled.prompt_index}"
    yield f"{cause}: {counted(finding.count, 'prompt')}, first {name} ({place})"
    if first.index is not None and first.ours is not None and first.theirs is not None:
        yield f"  from id {first.index}; {first.ours.length} ids here, {first.theirs.length} there"
        yield f"  here   {_excerpt(first.ours)}"
        yield f"  there  {_excerpt(first.theirs)}"
    if first.message:
        yield f"  {first.message}"
    yield f"  {ADVICE[cause]}"


def _excerpt(side: Excerpt) -> str:
    return f"{side.ids} {side.text!r}"


def plain(made: Verification) -> JsonObject:
    """The same as JSON has it."""
    return {
        "passed": made.passed,
        "server": {"url": made.url, "takes": made.takes.value, **dataclasses.asdict(made.facts)},
        "seed": made.seed,
        "total": made.total,
        "sampled": made.sampled,
        "equal": made.equal,
        "refused_by_both": made.refused_by_both,
        "not_asked": dict(made.not_asked),
        "different": made.different,
        "notes": [*made.notes],
        "differences": [
            {
                "cause": cause.value,
                "count": finding.count,
                "advice": ADVICE[cause],
                "first": _plain(finding.first),
            }
            for cause, finding in made.findings.items()
        ],
    }


def _plain(first: Difference) -> JsonObject:
    sampled = first.sampled
    return {
        "custom_id": sampled.custom_id,
        "source": sampled.source,
        "row_index": sampled.row_index,
        "prompt_index": sampled.prompt_index,
        "index": first.index,
        "ours": None if first.ours is None else dataclasses.asdict(first.ours),
        "theirs": None if first.theirs is None else dataclasses.asdict(first.theirs),
        "message": first.message,
    }
