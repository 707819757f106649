"""Watching a run until it is over, on a terminal, in a log and as a page."""

from __future__ import annotations

import io
import json
import subprocess
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest

from command import CLI
from promptmill.schemas.errors import JobError
from promptmill.schemas.run import RunState, Totals
from promptmill.workers.driver_lock import DriverLock
from promptmill.workers.leases import Snapshot
from promptmill.workers.ledger import read_ledger
from promptmill.workers.output_folder import OutputFolder
from promptmill.workers.pace import Pacer
from promptmill.workers.report.gather import gather
from promptmill.workers.report.view import view
from promptmill.workers.status import Look, look
from promptmill.workers.watch import PlainScreen, screen, watch, write_page

DEMO = Path(__file__).resolve().parents[2] / "static" / "demo"
REFRESH = 'http-equiv="refresh"'


@pytest.fixture
def going(reported: Path, tmp_path: Path) -> tuple[OutputFolder, DriverLock]:
    """A run that this process drives, two of its four shards committed."""
    root = tmp_path / "out"
    subprocess.run(["cp", "-r", str(reported), str(root)], check=True)
    folder = OutputFolder(root, 4)
    record = folder.read_record()
    assert record is not None
    folder.write_record(replace(record, state=RunState.RUNNING, totals=None, finished=None))
    for shard in (1, 3):
        folder.receipt(shard).unlink()
    lock = DriverLock(folder, print)
    lock.acquire()
    snapshot = Snapshot(
        totals=read_ledger(folder).totals,
        shards=4,
        shards_done=2,
        workers=3,
        failure=None,
        silent=(),
        notes=(),
        held=("worker 2 has shard 3",),
    )
    pace = Pacer(79).pace(snapshot)
    lock.beat(snapshot, pace)
    return folder, lock


def test_until_it_is_over(going: tuple[OutputFolder, DriverLock], tmp_path: Path) -> None:
    folder, lock = going
    html, seen, pages = tmp_path / "status.html", list[Look](), list[str]()

    def show(found: Look) -> None:
        seen.append(found)
        pages.append(html.read_text())
        if len(seen) == 2:
            lock.release()

    watch(folder.root, html, show, interval=0)
    assert [one.goes_on for one in seen] == [True, True, False]
    assert 0 < seen[0].percent < 100
    assert [REFRESH in page for page in pages] == [True, True, False]
    assert "worker 2 has shard 3" in pages[0]
    assert "3 workers" in pages[0]
    assert "2 of 4 shards committed" in pages[0]
    assert "stopped" in pages[2]


def test_a_page_that_is_no_longer_renewed_does_not_reload_itself(
    going: tuple[OutputFolder, DriverLock], tmp_path: Path
) -> None:
    def interrupt(_: Look) -> None:
        raise KeyboardInterrupt

    html = tmp_path / "status.html"
    with pytest.raises(KeyboardInterrupt):
        watch(going[0].root, html, interrupt)
    assert REFRESH not in html.read_text()
    assert [path.name for path in tmp_path.glob("*status*")] == ["status.html"]


def test_nothing_of_it_goes_into_the_output_folder(
    going: tuple[OutputFolder, DriverLock],
) -> None:
    root = going[0].root
    with pytest.raises(JobError, match="lies in the output folder"):
        watch(root, root / "status.html", print)
    with pytest.raises(JobError, match="lies in the output folder"):
        write_page(going[0], root / "_promptmill" / "status.html")


def test_a_run_that_never_begins(tmp_path: Path) -> None:
    seen: list[Look] = []
    with pytest.raises(JobError, match="none began"):
        watch(tmp_path / "out", None, seen.append, start=0)
    (said,) = seen
    assert "holds no promptmill run yet" in said.lines[0]


def test_what_is_committed_is_never_more_than_what_is_done(
    going: tuple[OutputFolder, DriverLock], monkeypatch: pytest.MonkeyPatch
) -> None:
    folder, lock = going
    monkeypatch.setattr("promptmill.workers.driver_lock.BEAT_SECONDS", 0.0)
    snapshot = Snapshot(
        totals=Totals(lines=1),
        shards=4,
        shards_done=0,
        workers=1,
        failure=None,
        silent=(),
        notes=(),
        held=(),
    )
    lock.beat(snapshot, Pacer(79).pace(snapshot))
    lines = read_ledger(folder).totals.lines
    seen = look(folder.root)
    assert f"{seen.percent} % {lines:,} of 79 rows" in seen.lines
    assert [line for line in seen.lines if " of 4 shards" in line] == [seen.lines[-1]]
    assert seen.lines[-1].startswith("committed: 2 of 4 shards")
    assert gather(folder).driver is not None
    assert view(gather(folder)).progress == seen.percent


def test_a_log_gets_only_what_is_new() -> None:
    log, clock = io.StringIO(), [0.0]
    plain = PlainScreen(log, lambda: clock[0])
    for second in range(60):
        clock[0] = float(second)
        plain.show(Look(("job", f"{second} %"), second, goes_on=True))
    plain.show(Look(("job", "done"), 100, goes_on=False))
    said = log.getvalue().splitlines()
    assert said[:3] == ["job", "0 %", "5 %"]
    assert said[-1] == "done"
    assert said.count("job") == 1
    assert len(said) < 15


def test_a_terminal_shows_it_in_one_place(going: tuple[OutputFolder, DriverLock]) -> None:
    class Terminal(io.StringIO):
        def isatty(self) -> bool:
            return True

    terminal = Terminal()
    with screen(terminal) as show:
        show(look(going[0].root))
    assert "committed: 2 of 4 shards" in terminal.getvalue()


def test_a_real_run_is_watched(
    tmp_path: Path, promptmill: Callable[..., subprocess.CompletedProcess[str]]
) -> None:
    rows = ({"id": str(n), "prompt": "hello mill " * 50} for n in range(3000))
    (tmp_path / "in.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    command = [*CLI, "run", "--local"]
    command += ["-i", str(tmp_path / "in.jsonl"), "-o", str(tmp_path / "out")]
    command += ["--model", str(DEMO / "model"), "--rows-per-shard", "100"]
    with (tmp_path / "log").open("w") as log, subprocess.Popen(command, stderr=log, stdout=log):
        html = str(tmp_path / "status.html")
        said = promptmill("status", str(tmp_path / "out"), "--watch", "--html", html).stdout
    assert "3,000 prompts in, 3,000 rows out" in said
    assert "100 %, finished" in said
    page = (tmp_path / "status.html").read_text()
    assert REFRESH not in page
    assert "30 of 30 shards committed" in page
