"""A run's progress as metrics of Ray, for Prometheus; `run.json` has the same sums at the end.

The driver counts for all workers: one set of series a run, however many workers there are. Ray
exports each under its name here with `ray_` before it.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from ray.util.metrics import Counter, Gauge

from promptmill.schemas.run import Totals
from promptmill.workers.leases import Snapshot

COUNTERS: Final = {
    "promptmill_rows_total": ("Prompts that are done, by status: ok or rejected.", "status"),
    "promptmill_rejects_total": ("Rejected prompts by error code.", "code"),
    "promptmill_truncated_rows_total": ("Token rows that were cut.", None),
    "promptmill_tokens_total": ("Stored ids.", None),
    "promptmill_media_total": ("Media items by modality.", "modality"),
    "promptmill_read_bytes_total": ("Stored input bytes of shards that are done.", None),
    "promptmill_written_bytes_total": ("Bytes of parts and rejects.", None),
    "promptmill_stage_seconds_total": ("Wall time of workers by step, shards done.", "stage"),
    "promptmill_cpu_seconds_total": ("Processor time of workers, shards done.", None),
}
"""Name -> what it counts, and its label beside `run`."""
GAUGES: Final = {
    "promptmill_workers": "Workers that are ready.",
    "promptmill_shards": "Shards of the run.",
    "promptmill_shards_done": "Shards that are committed.",
    "promptmill_shards_held": "Open shards that a worker has.",
    "promptmill_shards_waiting": "Open shards that no worker has.",
}
RUN: Final = "run"

Sample = tuple[str, str | None]
"""A counter's name and the value of its label."""


class Meter:
    """Counts what a run does.

    A worker's death takes back what its shard had counted; a counter stands still then until the
    shard is that far again.

    Args:
        run: its name.
        before: what earlier starts of the run did.
    """

    def __init__(self, run: str, before: Totals) -> None:
        self._run = {RUN: run}
        self._counters = {
            name: Counter(name, text, (RUN, label) if label else (RUN,))
            for name, (text, label) in COUNTERS.items()
        }
        self._gauges = {name: Gauge(name, text, (RUN,)) for name, text in GAUGES.items()}
        self._counted = dict(_samples(before))

    def update(self, snapshot: Snapshot) -> None:
        """Count what is new."""
        for sample, value in _samples(snapshot.totals):
            more = value - self._counted.get(sample, 0)
            if more > 0:
                name, label = sample
                key = COUNTERS[name][1]
                tags = self._run if key is None or label is None else {**self._run, key: label}
                self._counters[name].inc(more, tags)
                self._counted[sample] = value
        done, waiting = snapshot.shards_done, snapshot.shards_waiting
        values = (
            snapshot.workers,
            snapshot.shards,
            done,
            snapshot.shards - done - waiting,
            waiting,
        )
        for gauge, number in zip(self._gauges.values(), values, strict=True):
            gauge.set(number, self._run)


def _samples(totals: Totals) -> Iterator[tuple[Sample, float]]:
    yield ("promptmill_rows_total", "ok"), totals.rows_ok
    yield ("promptmill_rows_total", "rejected"), totals.rows_rejected
    for code, count in totals.rejects.items():
        yield ("promptmill_rejects_total", code), count
    yield ("promptmill_truncated_rows_total", None), totals.rows_truncated
    yield ("promptmill_tokens_total", None), totals.tokens
    for modality, count in totals.media.items():
        yield ("promptmill_media_total", modality), count
    yield ("promptmill_read_bytes_total", None), totals.bytes_read
    yield ("promptmill_written_bytes_total", None), totals.bytes_written
    for step, seconds in totals.seconds.items():
        yield ("promptmill_stage_seconds_total", step), seconds
    yield ("promptmill_cpu_seconds_total", None), totals.cpu_seconds
