"""A file appears whole, once, under its final name, and nothing of an attempt stays behind."""

import errno
import threading
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from promptmill.pipeline.write.names import (
    new_attempt,
    part_name,
    receipt_name,
    rejects_name,
    temporary_name,
)
from promptmill.pipeline.write.publish import claim_and_rename, publish
from promptmill.schemas.options import OutputFormat

FINAL = part_name(7, 32, OutputFormat.PARQUET)


def finished(folder: Path, content: str = "content") -> Path:
    path = folder / temporary_name(FINAL, new_attempt())
    path.write_text(content)
    return path


def test_names() -> None:
    assert FINAL == "part-00007-of-00032.parquet"
    assert part_name(0, 1, OutputFormat.ARROW) == "part-00000-of-00001.arrow"
    assert part_name(7, 100_000, OutputFormat.PARQUET) == "part-000007-of-100000.parquet"
    assert receipt_name(7) == "00007.json"
    assert rejects_name(123_456) == "123456.jsonl"


@pytest.mark.parametrize("final", [FINAL, receipt_name(1), rejects_name(1)])
def test_a_temporary_name_is_hidden_and_names_its_attempt(final: str) -> None:
    attempt = new_attempt()
    name = temporary_name(final, attempt)
    assert name.startswith(".")
    assert attempt in name
    assert name != temporary_name(final, new_attempt())


def test_the_first_wins_and_the_second_disappears(tmp_path: Path) -> None:
    assert publish(finished(tmp_path, "first"), tmp_path / FINAL)
    assert not publish(finished(tmp_path, "second"), tmp_path / FINAL)
    assert [path.name for path in tmp_path.iterdir()] == [FINAL]
    assert (tmp_path / FINAL).read_text() == "first"


def test_of_many_at_once_one_wins(tmp_path: Path) -> None:
    for number in range(20):
        final = tmp_path / part_name(number, 20, OutputFormat.PARQUET)
        contents = [str(n) * 1000 for n in range(8)]
        files = [finished(tmp_path, content) for content in contents]
        start = threading.Barrier(len(files))

        def attempt(file: Path, start: threading.Barrier = start, final: Path = final) -> bool:
            start.wait()
            return publish(file, final)

        with ThreadPoolExecutor(len(files)) as pool:
            won = list(pool.map(attempt, files))
        assert won.count(True) == 1
        assert final.read_text() == contents[won.index(True)]
    assert len(list(tmp_path.iterdir())) == 20


def test_a_link_that_was_made_without_telling_is_a_win(tmp_path: Path) -> None:
    file = finished(tmp_path)
    (tmp_path / FINAL).hardlink_to(file)
    assert publish(file, tmp_path / FINAL)
    assert [path.name for path in tmp_path.iterdir()] == [FINAL]


def test_file_systems_without_links(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(self: Path, target: Path) -> None:
        raise PermissionError(errno.EPERM, "Operation not permitted")

    monkeypatch.setattr(Path, "hardlink_to", refuse)
    test_the_first_wins_and_the_second_disappears(tmp_path)


def test_a_claim_of_a_dead_attempt_is_taken_over(tmp_path: Path) -> None:
    (tmp_path / FINAL).touch()
    assert claim_and_rename(finished(tmp_path), tmp_path / FINAL)
    assert (tmp_path / FINAL).read_text() == "content"


def test_other_failures_are_errors_and_publish_nothing(tmp_path: Path) -> None:
    file = finished(tmp_path)
    with pytest.raises(FileNotFoundError):
        publish(file, tmp_path / "gone" / FINAL)
    with pytest.raises(FileNotFoundError):
        publish(tmp_path / "gone", tmp_path / FINAL)
    assert [path.name for path in tmp_path.iterdir()] == [file.name]
