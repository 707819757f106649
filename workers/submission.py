"""A job on a cluster through Ray's job server: submitted once an output folder, followed, ended.

A job's submission id is made of its output folder and its options, so that the same command
finds it again: one that works is followed, one that failed is submitted anew under the next
number, which continues the run.
"""

from __future__ import annotations

import os
import re
import tempfile
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Final

import requests
from ray.exceptions import AuthenticationError
from ray.job_submission import JobDetails, JobStatus, JobSubmissionClient

from promptmill.schemas.errors import JobError
from promptmill.schemas.redact import redacted
from promptmill.workers.environment import TOKEN_HELP
from promptmill.workers.ray_entry import last_line
from promptmill.workers.shipping import Shipped, check_output, read_runtime_env
from promptmill.workers.wheel import pack_wheel

ID: Final = re.compile(r"promptmill-(?P<output>[0-9a-f]{12})-(?P<job>[0-9a-f]{12})-(?P<turn>\d+)")
LONGEST_COMMAND: Final = 120_000
"""Characters: it is one argument of a shell on the cluster, and Linux takes no longer ones."""
POLL_SECONDS: Final = 1.0
SLOWEST_POLL_SECONDS: Final = 15.0
POLL_GROWTH: Final = 0.02
"""A pause is this part of the time so far: each poll fetches the whole log."""
PATIENCE_SECONDS: Final = 180.0
"""So long the cluster may be out of reach before a follower gives up."""
DONE_CODES: Final = (0, 3)
"""Of a run that did all of its rows, with or without too many rejects."""
STOPPED_CODE: Final = 143
"""What a run that was stopped ends with, where Ray does not say."""


@dataclass(frozen=True, slots=True)
class Started:
    """The job that works on an output."""

    id: str
    attached: bool
    """It was at work already."""


class Cluster:
    """The job server of a cluster.

    Args:
        address: of its dashboard, as `http://HOST:8265`; None: what Ray's variables say.

    Raises:
        JobError: there is none, or it refuses access.
    """

    def __init__(self, address: str | None) -> None:
        if address is not None:
            for name in ("RAY_API_SERVER_ADDRESS", "RAY_ADDRESS"):
                os.environ.pop(name, None)  # Ray would prefer them to what was asked for
        try:
            self._client = JobSubmissionClient(address)
        except AuthenticationError as error:
            raise JobError(
                f"The Ray job server at {address or 'the default address'} refuses access: "
                f"{redacted(error.message.splitlines()[0].rstrip('.'))}. {TOKEN_HELP}"
            ) from error
        except (ConnectionError, RuntimeError, ValueError, OSError) as error:
            raise JobError(
                f"There is no Ray job server at {address or 'the default address'}: "
                f"{redacted(last_line(error))}. Name the dashboard's address: --address "
                "http://HOST:8265; from another machine it is reached if the head was started with "
                "ray start --dashboard-host 0.0.0.0"
            ) from error
        self.address = self._client.get_address()

    def start(self, job: Shipped, command: str, runtime_env: Path | None) -> Started:
        """Submit a job, unless it is at work already.

        Args:
            job: what its id is made of.
            command: its entry point.
            runtime_env: a file of what else the job needs on the cluster.

        Raises:
            JobError: another job works on the output, or the cluster does not take this one.
        """
        if len(command) > LONGEST_COMMAND:
            raise JobError(
                f"The job's command has {len(command):,} characters, and a cluster takes "
                f"{LONGEST_COMMAND:,}. Name folders or globs instead of files, and put a long "
                "template where the cluster sees it."
            )
        while True:
            turns = self._turns(job)
            if (working := self._working(turns)) is not None:
                return self._attach(working, job)
            check_output(job)
            mine = [int(m["turn"]) for m in turns if m["job"] == job.job_key]
            turn = max(mine, default=0) + 1
            name = f"promptmill-{job.output_key}-{job.job_key}-{turn}"
            if self._submit(name, command, runtime_env, job):
                return Started(name, attached=False)

    def follow(self, name: str, show: Callable[[str], None]) -> int:
        """Show a job's log until it ends.

        Returns:
            Its exit code.

        Raises:
            JobError: the cluster was out of reach for too long, or does not know the job any more.
        """
        begun = reached = time.monotonic()
        shown = 0
        while True:
            try:
                info = self._client.get_job_info(name)
                text = self._log(name, info)
            except (requests.RequestException, RuntimeError) as error:
                self._bear(error, name, time.monotonic() - reached)
            else:
                reached = time.monotonic()
                show(text[shown:])
                shown = max(shown, len(text))
                if info.status.is_terminal():
                    return _exit_code(info, show)
            pause = POLL_GROWTH * (time.monotonic() - begun)
            time.sleep(min(max(pause, POLL_SECONDS), SLOWEST_POLL_SECONDS))

    def finished(self, job: Shipped) -> str | None:
        """The id of the latest job of the same output and options, if it did all of its work."""
        turns = [match for match in self._turns(job) if match["job"] == job.job_key]
        if not turns:
            return None
        latest = max(turns, key=lambda match: int(match["turn"]))[0]
        done = self._client.get_job_info(latest).driver_exit_code in DONE_CODES
        return latest if done else None

    def _turns(self, job: Shipped) -> list[re.Match[str]]:
        """Ids of all jobs of the same output."""
        found = (ID.fullmatch(known.submission_id or "") for known in self._client.list_jobs())
        return [match for match in found if match and match["output"] == job.output_key]

    def _working(self, turns: list[re.Match[str]]) -> re.Match[str] | None:
        for match in turns:
            if not self._client.get_job_status(match[0]).is_terminal():
                return match
        return None

    def _attach(self, working: re.Match[str], job: Shipped) -> Started:
        if working["job"] != job.job_key:
            raise JobError(
                f"Job {working[0]} works on {job.options.output} with other options. Wait for it, "
                f"stop it (ray job stop --address {self.address} {working[0]}), or name another "
                "output folder."
            )
        return Started(working[0], attached=True)

    def _submit(self, name: str, command: str, runtime_env: Path | None, job: Shipped) -> bool:
        """False where someone else took the id in the meantime."""
        with tempfile.TemporaryDirectory() as folder:
            env = read_runtime_env(runtime_env, pack_wheel(Path(folder)))
            try:
                self._client.submit_job(
                    entrypoint=command,
                    submission_id=name,
                    runtime_env=env,
                    metadata={"promptmill_output": job.options.output},
                )
            except (RuntimeError, ValueError) as error:
                if "already exists" in str(error):
                    return False
                raise JobError(
                    f"The cluster does not take the job: {redacted(last_line(error))}"
                ) from error
        return True

    def _log(self, name: str, info: JobDetails) -> str:
        """What the job has said; nothing while it has not started."""
        if info.status is JobStatus.PENDING:
            return ""
        try:
            return self._client.get_job_logs(name)
        except RuntimeError:
            if info.status.is_terminal():
                return ""  # its node is gone, and the log with it
            raise

    def _bear(self, error: Exception, name: str, seconds: float) -> None:
        """Wait for a cluster that is out of reach, but not for ever."""
        if "does not exist" in str(error):
            raise JobError(
                f"The cluster does not know job {name} any more; its head was started anew. The "
                "same command submits it again and continues the run."
            ) from error
        if seconds > PATIENCE_SECONDS:
            raise JobError(
                f"The cluster at {self.address} is out of reach since {seconds:.0f} s: "
                f"{redacted(last_line(error))}. The job may go on; the same command follows it."
            ) from error


def _exit_code(info: JobDetails, show: Callable[[str], None]) -> int:
    code = info.driver_exit_code
    if code is not None:
        return code if code >= 0 else 128 - code
    if info.status is JobStatus.SUCCEEDED:
        return 0
    show(f"{redacted(info.message or 'the job failed')}\n")
    return STOPPED_CODE if info.status is JobStatus.STOPPED else 1
