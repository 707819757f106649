"""What the side of the cut costs a serving engine, in words; see `pipeline/reuse.py`."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from promptmill.pipeline.reuse import Reuse
from promptmill.workers.report.gather import Sums


@dataclass(frozen=True, slots=True)
class Side:
    """What a prefix cache gives under one way of cutting."""

    name: str
    share: float
    text: str


def sides(sums: Sums) -> Iterator[Side]:
    """As the rows were cut, and with the other side cut; all rows, then the cut ones alone."""
    if not sums.as_stored.rows:
        return
    stored, other = sums.as_stored.reuse(), sums.other_way.reuse()
    if not sums.cut.rows:
        yield _side("As stored; no row was cut", stored)
        return
    left, right = (sums.cuts.get(name) for name in ("left", "right"))
    taken = "left" if right is None else "right" if left is None else "left or right"
    instead = {"left": "right", "right": "left"}.get(taken, "other side")
    yield _side(f"All rows, cut as they are: {taken}", stored)
    yield _side(f"All rows, had the {instead} been cut", other)
    yield _side(f"Cut rows alone: {taken}", sums.cut.reuse())
    yield _side(f"Cut rows alone, had the {instead} been cut", sums.other.reuse())


def _side(name: str, reuse: Reuse) -> Side:
    share = max(0.0, reuse.share)
    error = 2 * reuse.share_error
    about = f" ± {100 * error:.1f}" if error >= 0.0005 else ""
    return Side(name, share, f"{100 * share:.1f}{about} %")


def notes(sums: Sums) -> Iterator[str]:
    """What the shares mean, and what was counted."""
    if sums.as_stored.rows:
        yield from _counted(sums)
    else:
        yield "There is no row to count."
    if sums.not_compared:
        yield (
            f"{sums.not_compared:,} cut rows are left out: what the other side would have kept is "
            "not known (the text was cut before it was tokenized, or media would have to be "
            "expanded anew)."
        )
    if sums.cut.rows:
        yield (
            "The other side keeps as many ids of the same prompt. Whether such a cut would split "
            "a media item is not looked at."
        )


def _counted(sums: Sums) -> Iterator[str]:
    reuse = sums.as_stored.reuse()
    yield (
        f"Share of {reuse.tokens:,} prompt ids that need no computing again in a prefix cache "
        "without end, in blocks of 16 ids from a prompt's start, as vLLM counts them: media and "
        "cache salts tell blocks apart, and a prompt's last id is always computed. A real cache "
        "evicts, so it gives less."
    )
    if reuse.error:
        yield (
            f"All {sums.as_stored.rows:,} rows and their {reuse.blocks:,} blocks are counted; how "
            "many of the blocks differ is estimated from the smallest of their hashes (± is two "
            "standard deviations)."
        )
    else:
        yield f"Counted exactly, over all {reuse.blocks:,} blocks of {sums.as_stored.rows:,} rows."
