"""What can go wrong while a command works: each fault takes the scene and disturbs it."""

from __future__ import annotations

import errno
import os
import random
import signal
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Final

from command import Command
from nodes import Cluster
from processes import below, send, titled
from promptmill.workers.queue_actor import QueueActor
from promptmill.workers.render_worker import RenderWorker

if TYPE_CHECKING:
    from s3_server import S3Server

BLOCK: Final = 1 << 16


@dataclass(slots=True)
class Disk:
    """The disk of the output folder."""

    root: Path

    @property
    def _ballast(self) -> Path:
        return self.root / "ballast"

    def fill(self) -> None:
        """To the last byte."""
        with self._ballast.open("ab", buffering=0) as file:
            size = BLOCK
            while size:
                try:
                    file.write(bytes(size))
                except OSError as error:
                    if error.errno != errno.ENOSPC:
                        raise
                    size //= 2

    def free(self) -> None:
        """As it was."""
        self._ballast.unlink(missing_ok=True)


@dataclass(slots=True)
class Scene:
    """A command at work, and what may be done to it."""

    chance: random.Random
    command: Command
    lease_seconds: float
    disk: Disk | None = None
    cluster: Cluster | None = None
    store: S3Server | None = None
    later: list[tuple[float, Callable[[], None]]] = field(default_factory=list)
    """What ends a fault, and when."""

    def after(self, seconds: float, action: Callable[[], None]) -> None:
        """Do something later; at the latest when the command has ended."""
        self.later.append((time.monotonic() + seconds, action))

    def do_due(self, *, all_of_it: bool = False) -> None:
        """What is to be done by now."""
        due = [one for one in self.later if all_of_it or one[0] <= time.monotonic()]
        for one in due:
            self.later.remove(one)
            one[1]()

    def hit(self, number: signal.Signals, *starts: str) -> bool:
        """A signal for one process, of all below this one, that is so titled; if there is one."""
        chosen = titled(below(os.getpid()), *starts)
        if not chosen:
            return False
        process = self.chance.choice(chosen)
        send([process], number)
        if number is signal.SIGSTOP:
            seconds = self.chance.choice((0.3, 1.7)) * self.lease_seconds
            self.after(seconds, lambda: send([process], signal.SIGCONT))
        return True


Fault = Callable[[Scene], bool]
"""Whether there was something to hit."""

WORKER: Final = f"ray::{RenderWorker.__name__}"
QUEUE: Final = f"ray::{QueueActor.__name__}"


def kill_worker(scene: Scene) -> bool:
    return scene.hit(signal.SIGKILL, WORKER)


def freeze_worker(scene: Scene) -> bool:
    """For less than its lease or for more, then it goes on: a zombie."""
    return scene.hit(signal.SIGSTOP, WORKER)


def kill_queue(scene: Scene) -> bool:
    return scene.hit(signal.SIGKILL, QUEUE)


def freeze_queue(scene: Scene) -> bool:
    return scene.hit(signal.SIGSTOP, QUEUE)


def kill_driver(scene: Scene) -> bool:
    scene.command.process.kill()
    return True


def stop_driver(scene: Scene) -> bool:
    scene.command.process.send_signal(scene.chance.choice((signal.SIGINT, signal.SIGTERM)))
    return True


def freeze_driver(scene: Scene) -> bool:
    scene.command.process.send_signal(signal.SIGSTOP)
    resume = scene.command.process.send_signal
    scene.after(scene.chance.uniform(1, 5), lambda: resume(signal.SIGCONT))
    return True


def kill_own_ray(scene: Scene) -> bool:
    """The one node of a run that has no cluster."""
    return scene.hit(signal.SIGKILL, scene.chance.choice(("raylet", "gcs_server")))


def fill_disk(scene: Scene) -> bool:
    """For a moment, or until the command has ended."""
    if scene.disk is None:
        return False
    scene.disk.fill()
    scene.after(scene.chance.choice((0.5, 3.0, 1000.0)), scene.disk.free)
    return True


def kill_node(scene: Scene) -> bool:
    """It comes back a little later, as another node."""
    assert scene.cluster is not None
    node = scene.chance.choice(scene.cluster.workers)
    node.kill()
    scene.after(1.0, node.start)
    return True


def cut_node(scene: Scene) -> bool:
    """For less than a lease or for more; where Ray has given it up by then, it dies."""
    assert scene.cluster is not None
    node = scene.chance.choice(scene.cluster.workers)
    node.cut()
    scene.after(scene.chance.choice((0.5, 1.5, 3.0)) * scene.lease_seconds, node.heal)
    return True


def store_errs(scene: Scene) -> bool:
    """Answers of the object store: busy, broken, late, cut off, or lost after the deed."""
    assert scene.store is not None
    chance = scene.chance
    method = chance.choice(("GET", "PUT", "POST"))
    kind, value = chance.choice(
        (("status", 429), ("status", 500), ("status", 503), ("slow", 1.0), ("cut", 0), ("lost", 0))
    )
    scene.store.trouble(method, ".", kind, value, chance.randint(1, 20), chance.choice((1, 3)))
    return True


def store_fails(scene: Scene) -> bool:
    """For a moment, or until the command has ended."""
    assert scene.store is not None
    for method in ("GET", "PUT", "POST", "HEAD"):
        scene.store.trouble(method, ".", "status", 503)
    scene.after(scene.chance.choice((0.5, 2.0, 1000.0)), scene.store.troubles.clear)
    return True


def kill_head(scene: Scene) -> bool:
    """The cluster is lost."""
    assert scene.cluster is not None
    scene.cluster.head.kill()
    return True


ANYWHERE: Final[tuple[Fault, ...]] = (kill_driver, stop_driver, freeze_driver, fill_disk)
ON_RAY: Final[tuple[Fault, ...]] = (
    kill_worker,
    kill_worker,
    freeze_worker,
    kill_queue,
    freeze_queue,
)
ON_OWN_RAY: Final[tuple[Fault, ...]] = (kill_own_ray,)
ON_STORE: Final[tuple[Fault, ...]] = (store_errs, store_errs, store_errs, store_fails)
ON_CLUSTER: Final[tuple[Fault, ...]] = (kill_node, cut_node, cut_node, kill_head)
