"""Numbers as people read them."""

from __future__ import annotations


def clock(seconds: float) -> str:
    """A time span as people read it: `12 s`, `3:05 min`, `2:00:00 h`."""
    if seconds < 10:
        return f"{seconds:.2g} s"
    if seconds < 120:
        return f"{seconds:.0f} s"
    minutes, rest = divmod(round(seconds), 60)
    if minutes < 60:
        return f"{minutes}:{rest:02} min"
    return f"{minutes // 60}:{minutes % 60:02}:{rest:02} h"


def compact(number: float) -> str:
    """A count in few characters: `1,234`, `12.3 k`, `4.56 M`."""
    for limit, unit in ((1e12, "T"), (1e9, "G"), (1e6, "M"), (1e4, "k")):
        if number >= limit:
            value = number / (1e3 if unit == "k" else limit)
            return f"{value:.3g} {unit}" if value < 1000 else f"{value:,.0f} {unit}"
    return f"{number:,.0f}" if number >= 10 or number == int(number) else f"{number:.2g}"


def size(number: int) -> str:
    """Bytes: `12.3 MB`."""
    shown = compact(number)
    return f"{shown}B" if shown[-1].isalpha() else f"{shown} B"


def share(part: float, whole: float) -> str:
    """A part of a whole: `12.3 %`."""
    if not whole:
        return "0 %"
    found = 100 * part / whole
    return f"{found:.1f} %" if found == 0 or found >= 0.1 else "< 0.1 %"
