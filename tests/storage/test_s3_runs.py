"""Whole runs from a real S3 server to it: the bytes of a local run, whatever goes wrong."""

from __future__ import annotations

import json
import signal
import time
from pathlib import Path

import pytest

from command import CLI, Command
from s3_server import Bucket, S3Server

ROWS, SHARDS = 600, 12


class Bench:
    """An input in a bucket, and what a local run makes of it."""

    def __init__(self, folder: Path, model: Path, s3: S3Server, bucket: Bucket, calm: Path) -> None:
        self.folder, self.model, self.s3, self.bucket, self.calm = folder, model, s3, bucket, calm
        self.out = f"s3://{bucket.name}/runs/out"
        bucket.put("in/rows.jsonl", rows())

    def start(self, *options: str, **environment: str) -> Command:
        return promptmill(self.folder, *self.arguments(*options), **environment)

    def arguments(self, *options: str) -> list[str]:
        source = f"s3://{self.bucket.name}/in/rows.jsonl"
        return ["run", "-i", source, "-o", self.out, *job(self.model), *options]

    def promptmill(self, *arguments: str) -> str:
        command = promptmill(self.folder, *arguments)
        assert command.wait() == 0, command.text
        return command.text

    def receipts(self) -> int:
        listing = self.s3.direct(
            "GET", f"/{self.bucket.name}?list-type=2&prefix=runs/out/_promptmill/receipts/"
        )
        return listing.count(b"<Key>")

    def check_whole(self) -> None:
        """The parts and rejects of a local run, and nothing else."""
        found = {
            key.removeprefix("runs/out/"): content
            for key, content in self.bucket.objects("runs/").items()
        }
        wanted = {
            path.relative_to(self.calm).as_posix(): path.read_bytes()
            for path in self.calm.rglob("*")
            if path.is_file()
        }
        assert found.keys() == wanted.keys()
        parts = [name for name in wanted if name.endswith((".parquet", ".jsonl"))]
        assert len(parts) == SHARDS + 1
        assert all(found[name] == wanted[name] for name in parts)
        totals = [json.loads(each["_promptmill/run.json"])["totals"] for each in (found, wanted)]
        counts = ("rows_in", "rows_ok", "rejects", "tokens", "duplicate_ids")
        assert [totals[0][name] for name in counts] == [totals[1][name] for name in counts]
        assert self.bucket.uploads() == []


def promptmill(folder: Path, *arguments: str, **environment: str) -> Command:
    scratch = folder / "tmp"
    scratch.mkdir(exist_ok=True)
    log = folder / f"log-{time.monotonic_ns()}"
    return Command([*CLI, *arguments], log, {"TMPDIR": str(scratch)} | environment)


def rows() -> bytes:
    made = [
        {"id": f"g{i}", "messages": [{"role": "user", "content": f"hello world {i} " * 20}]}
        for i in range(ROWS)
    ]
    made[ROWS // 2] = {"id": "bad", "messages": []}
    return b"".join(json.dumps(row).encode() + b"\n" for row in made)


def job(model: Path) -> list[str]:
    return ["--model", str(model), "--rows-per-shard", str(ROWS // SHARDS)]


@pytest.fixture(scope="module")
def calm(tmp_path_factory: pytest.TempPathFactory, tiny_models: Path) -> Path:
    """A run on this machine's disk."""
    folder = tmp_path_factory.mktemp("calm")
    source, out = folder / "rows.jsonl", folder / "out"
    source.write_bytes(rows())
    options = ["run", "-i", str(source), "-o", str(out), *job(tiny_models / "chatml"), "--local"]
    command = promptmill(folder, *options)
    assert command.wait() == 0, command.text
    return out


@pytest.fixture
def bench(tmp_path: Path, tiny_models: Path, s3: S3Server, bucket: Bucket, calm: Path) -> Bench:
    return Bench(tmp_path, tiny_models / "chatml", s3, bucket, calm)


def test_a_run_in_a_bucket_is_that_of_a_folder(bench: Bench) -> None:
    run = bench.start("--local")
    assert run.wait() == 0, run.text
    assert f"output: {bench.out}" in run.text
    bench.check_whole()
    assert list((bench.folder / "tmp").iterdir()) == []
    assert "finished already" in bench.promptmill(*bench.arguments("--local"))
    status = bench.promptmill("status", bench.out)
    assert "100 %" in status
    assert f"{ROWS} prompts in, {ROWS - 1} rows out" in status
    assert "hello world 7 " in bench.promptmill("inspect", bench.out, "--id", "g7")
    refused = bench.start("--local", "--max-model-len", "100")
    assert refused.wait() == 1
    assert "belongs to another job" in refused.text


def test_a_run_goes_through_trouble(bench: Bench) -> None:
    for method in ("GET", "PUT"):
        for status in (429, 500, 503):
            bench.s3.trouble(method, "/", "status", status, times=4, every=7)
        bench.s3.trouble(method, "/", "lost", times=4, every=7)
    bench.s3.trouble("GET", "/", "cut", times=4, every=7)
    run = bench.start("--local")
    assert run.wait() == 0, run.text
    assert all(trouble.met for trouble in bench.s3.troubles)
    bench.check_whole()


@pytest.mark.ray
def test_a_killed_run_of_two_workers_continues(bench: Bench) -> None:
    killed = bench.start("--workers", "2", TMPDIR="/tmp")  # paths of Ray's sockets must be short
    killed.until(lambda: bench.receipts() >= 2)
    killed.process.kill()
    killed.wait()
    run = bench.start("--workers", "2", TMPDIR="/tmp")
    assert run.wait() == 0, run.text
    assert "taking over" in run.text
    assert "resumed: " in run.text
    bench.check_whole()


def test_a_stopped_run_gives_the_bucket_back(bench: Bench) -> None:
    run = bench.start("--local")
    run.until(lambda: bench.receipts() >= 1)
    run.process.terminate()
    assert run.wait() == 128 + signal.SIGTERM, run.text
    names = bench.bucket.objects("runs/out/_promptmill/driver")
    assert names == {}
    assert list((bench.folder / "tmp").iterdir()) == []


def test_a_store_that_fails_for_good_ends_the_run(bench: Bench) -> None:
    bench.s3.trouble("PUT", "part-", "status", 403)
    run = bench.start("--local")
    assert run.wait() == 1
    assert f"{bench.out}/part-00000-of-00012.parquet: write failed, access denied" in run.text
    assert "Traceback" not in run.text
    bench.s3.troubles.clear()
    assert bench.start("--local").wait() == 0
    bench.check_whole()


@pytest.mark.parametrize(
    ("options", "said"),
    [
        (["-o", "s3://no-such-bucket/out"], "Create the bucket no-such-bucket first"),
        (["-o", "s3://me:S3cr3t@bucket/out"], "leave them out"),
        (["-o", "hf://datasets/me/out"], "Name a folder, or a URL with s3://, gs://."),
        (["-o", "memory://out"], "for --local only"),
        (["--pack", "64"], "--pack needs an output folder of a file system"),
    ],
)
def test_outputs_that_cannot_be(bench: Bench, options: list[str], said: str) -> None:
    run = bench.start(*options)
    assert run.wait() == 1, run.text
    assert said in run.text
    assert "S3cr3t" not in run.text


def test_foreign_objects_are_left_alone(bench: Bench) -> None:
    bench.bucket.put("runs/out/keep.parquet", b"mine")
    run = bench.start("--local")
    assert run.wait() == 1
    assert "keep.parquet" in run.text
    assert bench.bucket.objects("runs/") == {"runs/out/keep.parquet": b"mine"}
    inside = bench.start("-o", f"s3://{bench.bucket.name}/in/rows.jsonl/out")
    assert inside.wait() == 1
    assert "lies in the input" in inside.text
