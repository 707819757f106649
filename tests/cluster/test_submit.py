"""`promptmill submit` to a real Ray head: once an output folder, followed to the end."""

from __future__ import annotations

import json
import re
import shlex
import signal
import subprocess
import time
from pathlib import Path

import psutil
import pytest
from ray.job_submission import JobSubmissionClient

from command import CLI
from promptmill.workers.output_folder import OutputFolder
from promptmill.workers.shipping import read_runtime_env
from promptmill.workers.wheel import pack_wheel
from tests.conftest import BIN, ROOT, Head

pytestmark = pytest.mark.ray


class Bench:
    """Rows, a tiny model and a cluster."""

    def __init__(self, head: Head, folder: Path, model: Path) -> None:
        self.head, self.folder, self.model = head, folder, model
        self.out = folder / "out"
        self.source = folder / "in.jsonl"

    def write(self, rows: int, *, bad: int = 0, text: str = "hello") -> None:
        with self.source.open("w") as file:
            for i in range(rows):
                row = {"id": f"g{i}", "messages": [{"role": "user", "content": f"{text} {i}"}]}
                file.write(json.dumps(row) + "\n")
            for i in range(bad):
                file.write(json.dumps({"id": f"b{i}", "messages": 1}) + "\n")

    def command(self, name: str, *options: str) -> list[str]:
        command = [*CLI, name, "-i", str(self.source)]
        command += ["-o", str(self.out), "--model", str(self.model), "--workers", "1", *options]
        return [*command, *(["--address", self.head.dashboard] if name == "submit" else [])]

    def submit(self, *options: str) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            self.command("submit", *options),
            cwd=self.folder,
            check=False,
            capture_output=True,
            text=True,
            timeout=600,
            env=self.head.environment,
        )

    def jobs(self) -> list[str]:
        found = JobSubmissionClient(self.head.dashboard, headers=self.head.headers).list_jobs()
        mine = [
            job for job in found if (job.metadata or {}).get("promptmill_output") == str(self.out)
        ]
        return sorted(str(job.submission_id) for job in mine)

    def freeze_driver(self) -> None:
        """Stop the process of the job that works on the output, once it is there."""
        option = f"--output={self.out}"
        while True:
            for process in psutil.process_iter(["cmdline"]):
                if option in (process.info["cmdline"] or ()):
                    return process.suspend()
            time.sleep(0.1)

    def parts(self, out: Path) -> dict[str, bytes]:
        return {path.name: path.read_bytes() for path in out.glob("part-*")}


@pytest.fixture
def bench(ray_head: Head, tmp_path: Path) -> Bench:
    return Bench(ray_head, tmp_path, ROOT / "static" / "demo" / "model")


def test_a_job_is_followed_to_its_end_and_then_finished(bench: Bench, tmp_path: Path) -> None:
    bench.write(200, bad=2)
    done = bench.submit("--rows-per-shard", "50", "--max-rejects", "1")
    assert done.returncode == 3, done.stdout + done.stderr
    assert "submitted promptmill-" in done.stderr
    assert "nothing is copied there" in done.stderr
    assert "202 prompts in, 200 rows out" in done.stdout
    assert done.stdout.count("100 %") == 1

    again = bench.submit("--rows-per-shard", "50", "--max-rejects", "2", "-o", bench.out.name)
    assert again.returncode == 0, again.stderr
    assert "finished already" in again.stderr
    assert f"output: {bench.out}" in again.stdout
    assert "202 prompts in" in again.stdout
    other = bench.submit("--rows-per-shard", "50", "--with-text")
    assert other.returncode == 1
    assert "belongs to another job" in other.stderr
    assert "options.with_text: false -> true" in other.stderr
    assert len(bench.jobs()) == 1

    cluster, bench.out = bench.parts(bench.out), tmp_path / "here"
    here = bench.command("run", "--rows-per-shard", "50", "--local")
    subprocess.run(here, check=True, capture_output=True)
    assert cluster == bench.parts(bench.out)


def test_a_second_submit_attaches_and_leaving_does_not_stop_the_job(bench: Bench) -> None:
    bench.write(2_000)
    first = bench.submit("--no-wait", "--quiet")
    assert first.returncode == 0, first.stderr
    bench.freeze_driver()  # else it might be done before the test is
    follower = subprocess.Popen(
        bench.command("submit"),
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        env=bench.head.environment,
    )
    assert follower.stderr is not None
    attached = next(line for line in follower.stderr if "attached to" in line)
    other = bench.submit("--max-model-len", "7777")
    assert other.returncode == 1
    assert "with other options" in other.stderr
    follower.send_signal(signal.SIGINT)
    left = follower.communicate(timeout=120)[1]
    assert follower.returncode == 130
    assert "goes on" in left
    (job,) = bench.jobs()
    assert first.stdout == f"{job}\n"
    assert job in attached
    assert f"ray job stop --address {bench.head.dashboard} {job}" in left

    stop = [str(BIN / "ray"), "job", "stop", "--address", bench.head.dashboard, job]
    subprocess.run(stop, check=True, capture_output=True, env=bench.head.environment)
    continued = bench.submit()
    assert continued.returncode == 0, continued.stdout + continued.stderr
    assert len(bench.jobs()) == 2, continued.stdout + continued.stderr
    record = OutputFolder(bench.out).read_record()
    assert record is not None
    assert record.totals is not None
    assert record.totals.rows_ok == 2_000


def test_driver_and_workers_run_the_code_that_was_shipped(bench: Bench, tmp_path: Path) -> None:
    code = (
        "import ray, promptmill.workers.cli.app as app\n"
        "ray.init('auto', log_to_driver=False)\n"
        "def where():\n"
        "    import promptmill.pipeline.encoder as encoder\n"
        "    return encoder.__file__\n"
        "print('CODE', app.__file__, ray.get(ray.remote(where).remote()))\n"
    )
    client = JobSubmissionClient(bench.head.dashboard, headers=bench.head.headers)
    job = client.submit_job(
        entrypoint=shlex.join(["python", "-c", code]),
        runtime_env=read_runtime_env(None, pack_wheel(tmp_path)),
    )
    while not client.get_job_status(job).is_terminal():
        time.sleep(0.5)
    (line,) = re.findall(r"^CODE .*", client.get_job_logs(job), re.MULTILINE)
    assert line.count("py_modules_files") == 2


def test_a_job_that_cannot_start_says_why(bench: Bench) -> None:
    bench.write(3)
    broken = bench.folder / "runtime_env.yaml"
    broken.write_text("py_modules: [gcs://no-such-package.zip]\n")
    done = bench.submit("--runtime-env", str(broken))
    assert done.returncode == 1
    assert "no-such-package" in done.stdout
    assert bench.submit().returncode == 0
    assert [job[-2:] for job in bench.jobs()] == ["-1", "-2"]


def test_no_cluster_is_said_without_a_traceback(tmp_path: Path) -> None:
    command = [*CLI, "submit", "-i", "a.jsonl", "-o", "o"]
    done = subprocess.run(
        [*command, "--model", "m", "--address", "http://127.0.0.1:9"],
        check=False,
        capture_output=True,
        text=True,
        cwd=tmp_path,
    )
    assert done.returncode == 1
    assert "promptmill: There is no Ray job server at http://127.0.0.1:9: " in done.stderr
    assert "--dashboard-host 0.0.0.0" in done.stderr
    assert "Traceback" not in done.stderr


@pytest.mark.parametrize("command", ["submit", "run"])
@pytest.mark.parametrize(
    "environment",
    [{}, {"RAY_AUTH_MODE": "token"}, {"RAY_AUTH_MODE": "token", "RAY_AUTH_TOKEN": "wrong"}],
)
def test_refused_access_names_the_token(
    bench: Bench, command: str, environment: dict[str, str]
) -> None:
    bench.write(1)
    address = [] if command == "submit" else ["--address", bench.head.gcs]
    others = {name: v for name, v in bench.head.environment.items() if "RAY_AUTH" not in name}
    done = subprocess.run(
        bench.command(command, *address),
        check=False,
        capture_output=True,
        text=True,
        env=others | environment | {"HOME": str(bench.folder)},
    )
    assert done.returncode == 1
    wrong, way_out = done.stderr.splitlines()[-2:]
    assert re.search("refuses access|No access to Ray", wrong), done.stderr
    assert way_out.startswith("A cluster that asks for a token needs RAY_AUTH_MODE=token")
    assert "RAY_AUTH_TOKEN (or ~/.ray/auth_token)" in way_out
