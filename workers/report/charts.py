"""Charts as plain geometry: where the page's template draws which bar. Units are SVG pixels."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from promptmill.pipeline.lengths import bounds
from promptmill.workers.report.figures import clock, compact

WIDTH, HEIGHT = 760.0, 240.0
LEFT, RIGHT, TOP, BOTTOM = 56.0, 28.0, 30.0, 34.0
BARS_TO_A_DOUBLING = 4
TIME_BARS = 60
LIMIT_ROOM = 3
"""Doublings beyond the longest prompt at which a limit is still drawn to scale."""


@dataclass(frozen=True, slots=True)
class Bar:
    """A rectangle and what it says."""

    x: float
    y: float
    width: float
    height: float
    kind: str
    """Names its colour."""
    title: str


@dataclass(frozen=True, slots=True)
class Tick:
    """A mark on an axis."""

    at: float
    label: str


@dataclass(frozen=True, slots=True)
class Line:
    """A marked place on the x axis."""

    x: float
    label: str
    anchor: str
    """SVG's text-anchor of the label."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Chart:
    """What is drawn."""

    bars: Sequence[Bar]
    x_ticks: Sequence[Tick]
    y_ticks: Sequence[Tick]
    lines: Sequence[Line] = ()
    width: float = WIDTH
    height: float = HEIGHT
    left: float = LEFT
    right: float = WIDTH - RIGHT
    bottom: float = HEIGHT - BOTTOM
    top: float = TOP


def length_chart(
    series: Mapping[str, Mapping[int, int]], limits: Mapping[str, int]
) -> Chart | None:
    """Rows by length on a scale of doublings.

    Args:
        series: counts by length bucket; "refused" stands on "before", "after" before both.
        limits: lengths to mark, by what they are called.

    Returns:
        None where there is nothing to draw.
    """
    used = sorted({number for counts in series.values() for number in counts})
    if not used:
        return None
    low = math.floor(_doublings(bounds(used[0])[0]))
    high = math.ceil(_doublings(bounds(used[-1])[1]))
    near = [n for n in limits.values() if _doublings(n) <= high + LIMIT_ROOM]
    high = max([high, low + 2, *(math.ceil(_doublings(n + 1)) for n in near)])
    binned = {name: _binned(counts, low, high) for name, counts in series.items()}
    before, refused = binned.get("before", {}), binned.get("refused", {})
    tallest = max(
        [
            *(before.get(n, 0) + refused.get(n, 0) for n in {*before, *refused}),
            *binned["after"].values(),
        ]
    )
    step = _nice(tallest / 4)
    scale = (HEIGHT - BOTTOM - TOP) / (step * math.ceil(tallest / step))
    unit = (WIDTH - LEFT - RIGHT) / (high - low)
    return Chart(
        bars=list(_length_bars(binned, low, unit, scale)),
        x_ticks=[
            Tick(LEFT + (n - low) * unit, f"{2**n:,}")
            for n in range(low, high + 1, max(1, math.ceil((high - low) / 10)))
        ],
        y_ticks=_y_ticks(step, tallest, scale),
        lines=[_limit(name, n, low, high, unit) for name, n in limits.items()],
    )


def time_chart(spans: Sequence[tuple[float, float, int]]) -> Chart | None:
    """Work done over time, spread evenly over the time of each piece.

    Args:
        spans: begin and end (seconds) of pieces of work, and how much was done.
    """
    if not spans:
        return None
    start = min(begin for begin, _, _ in spans)
    seconds = max(max(end for _, end, _ in spans) - start, 1e-3)
    width = seconds / TIME_BARS
    done = [0.0] * TIME_BARS
    for begin, end, amount in spans:
        first, last = (begin - start) / width, max(end - start, begin - start + 1e-6) / width
        for number in range(int(first), min(TIME_BARS, int(last) + 1)):
            overlap = min(last, number + 1) - max(first, number)
            done[number] += amount * max(0.0, overlap) / (last - first)
    rates = [amount / width for amount in done]
    step = _nice(max(rates) / 4) if max(rates) > 0 else 1.0
    scale = (HEIGHT - BOTTOM - TOP) / (step * max(1, math.ceil(max(rates) / step)))
    unit = (WIDTH - LEFT - RIGHT) / TIME_BARS
    return Chart(
        bars=[
            Bar(
                LEFT + n * unit + 0.5,
                HEIGHT - BOTTOM - rate * scale,
                unit - 1,
                rate * scale,
                "after",
                f"{clock(n * width)} to {clock((n + 1) * width)}: {rate:,.0f} a second",
            )
            for n, rate in enumerate(rates)
            if rate
        ],
        x_ticks=[Tick(LEFT + n * unit * TIME_BARS / 6, clock(n * seconds / 6)) for n in range(7)],
        y_ticks=_y_ticks(step, max(rates), scale),
    )


def share_bar(parts: Mapping[str, float], *, width: float = WIDTH, height: float = 28) -> list[Bar]:
    """One bar of parts side by side; kinds are part-0, part-1, ..."""
    whole, x, bars = sum(parts.values()) or 1.0, 0.0, []
    for number, (name, part) in enumerate(parts.items()):
        share = part / whole
        title = f"{name}: {share:.1%}"
        bars.append(Bar(x, 0, share * width, height, f"part-{number % 7}", title))
        x += share * width
    return bars


def _doublings(length: float) -> float:
    return math.log2(max(1.0, length))


def _binned(counts: Mapping[int, int], low: int, high: int) -> dict[int, float]:
    """Counts by bar; a bucket that several bars share is split by their lengths."""
    bars: dict[int, float] = {}
    for number, count in counts.items():
        first, stop = bounds(number)
        bar = max(0, math.floor((_doublings(first) - low) * BARS_TO_A_DOUBLING + 1e-9))
        while True:
            begin, end = _bar_lengths(bar, low)
            share = (min(stop, end) - max(first, begin)) / (stop - first) if first else 1.0
            bars[bar] = bars.get(bar, 0.0) + count * max(0.0, share)
            bar += 1
            if stop <= end + 1e-9 or not first or bar >= (high - low) * BARS_TO_A_DOUBLING:
                break
    return {bar: count for bar, count in bars.items() if count > 1e-9}


def _bar_lengths(bar: int, low: int) -> tuple[float, float]:
    return 2 ** (low + bar / BARS_TO_A_DOUBLING), 2 ** (low + (bar + 1) / BARS_TO_A_DOUBLING)


def _length_bars(
    binned: Mapping[str, Mapping[int, float]], low: int, unit: float, scale: float
) -> Iterator[Bar]:
    width = unit / BARS_TO_A_DOUBLING
    words = {"before": "before the cut", "after": "as stored", "refused": "refused as too long"}
    for name in ("before", "refused", "after"):
        for bar, count in sorted(binned.get(name, {}).items()):
            below = binned.get("before", {}).get(bar, 0.0) if name == "refused" else 0.0
            inset = 0.28 * width if name == "after" else 0.06 * width
            begin, end = _bar_lengths(bar, low)
            yield Bar(
                x=LEFT + bar * width + inset,
                y=HEIGHT - BOTTOM - (below + count) * scale,
                width=width - 2 * inset,
                height=count * scale,
                kind=name,
                title=f"{begin:,.0f} to {end:,.0f} ids: about {count:,.0f} {words[name]}",
            )


def _limit(name: str, length: int, low: int, high: int, unit: float) -> Line:
    place = _doublings(length) - low
    if place > high - low:
        return Line(WIDTH - RIGHT, f"{name} {length:,} →", "end")
    x = LEFT + max(0.0, place) * unit
    return Line(x, f"{name} {length:,}", "end" if x > WIDTH / 2 else "start")


def _y_ticks(step: float, highest: float, scale: float) -> list[Tick]:
    count = max(1, math.ceil(highest / step))
    return [Tick(HEIGHT - BOTTOM - n * step * scale, compact(n * step)) for n in range(count + 1)]


def _nice(value: float) -> float:
    """The next larger of 1, 2, 5, 10, ...; counts have no smaller steps than 1."""
    if value <= 1:
        return 1.0
    power = 10.0 ** math.floor(math.log10(value))
    return next(power * n for n in (1, 2, 5, 10) if power * n >= value - 1e-9)
