from __future__ import annotations

import io
from dataclasses import replace

import pytest

from clock import Clock
from promptmill.schemas.run import Totals
from promptmill.workers.leases import Snapshot
from promptmill.workers.pace import Pacer, duration
from promptmill.workers.progress import BarReporter, LineReporter, progress_line

START = Snapshot(
    totals=Totals(lines=100, tokens=1000),
    shards=10,
    shards_done=1,
    workers=2,
    failure=None,
    silent=(),
    notes=(),
    held=(),
)


def test_the_pace_leaves_out_what_was_done_before() -> None:
    clock = Clock()
    pacer = Pacer(1100, clock)
    clock.seconds = 5
    pacer.pace(START)
    clock.seconds = 15
    totals = Totals(lines=600, tokens=6000, rows_rejected=3, rows_truncated=4)
    snapshot = replace(START, totals=totals, shards_done=5)
    pace = pacer.pace(snapshot)
    assert (pace.rows_per_second, pace.tokens_per_second, pace.seconds_left) == (50, 500, 10)
    assert progress_line(snapshot, pace) == (
        "54 % 600 of 1,100 rows, 50 rows/s, 500 tokens/s, 5 of 10 shards, 3 rejected, "
        "4 truncated, 10 s left"
    )


def test_no_rate_before_there_is_time_to_measure() -> None:
    clock = Clock()
    pacer = Pacer(1100, clock)
    nobody = replace(START, workers=0)
    clock.seconds = 100
    assert pacer.pace(nobody).rows_per_second is None
    done = replace(START, totals=Totals(lines=1100, tokens=9000), shards_done=10)
    for clock.seconds in (100, 100.1, 101.9):
        pace = pacer.pace(done if clock.seconds > 100 else START)
        assert (pace.rows_per_second, pace.tokens_per_second, pace.seconds_left) == (None,) * 3
    assert progress_line(done, pace) == (
        "100 % 1,100 of 1,100 rows, 10 of 10 shards, 0 rejected, 0 truncated"
    )
    clock.seconds = 102
    assert pacer.pace(done).rows_per_second == 500
    assert pacer.pace(replace(START, totals=Totals())).rows_per_second == 0, "taken back"


def test_a_hundred_percent_only_at_the_end() -> None:
    pacer = Pacer(1000, Clock())
    whole = replace(START, totals=Totals(lines=1000))
    assert pacer.pace(whole).percent == 99
    assert pacer.pace(replace(whole, shards_done=10)).percent == 100
    nothing = replace(START, totals=Totals(), shards=0, shards_done=0)
    assert Pacer(0, Clock()).pace(nothing).percent == 100


@pytest.mark.parametrize("days", [0.01, 1, 30])
def test_the_log_of_any_run_is_short_and_plain(days: float) -> None:
    clock, stream = Clock(), io.StringIO()
    reporter = LineReporter(stream, clock)
    pacer = Pacer(10**9, clock)
    step = max(0.2, days)
    while clock.seconds < days * 86400:
        clock.seconds += step
        reporter.show(START, pacer.pace(START))
    lines = stream.getvalue().splitlines()
    assert 3 < len(lines) < 240
    assert "\r" not in stream.getvalue()
    assert "\x1b" not in stream.getvalue()


def test_the_bar_draws_and_leaves(capsys: pytest.CaptureFixture[str]) -> None:
    reporter = BarReporter()
    pace = Pacer(1000, Clock()).pace(START)
    reporter.say("before")
    reporter.show(START, pace)
    reporter.say("above [bold]the bar[/bold]")
    reporter.finish(START, pace)
    reporter.close()
    shown = capsys.readouterr().err
    assert "before" in shown
    assert "above [bold]the bar[/bold]" in shown


@pytest.mark.parametrize(
    ("seconds", "text"), [(0.4, "0 s"), (61, "1 min 1 s"), (7320, "2 h 2 min")]
)
def test_duration(seconds: float, text: str) -> None:
    assert duration(seconds) == text
