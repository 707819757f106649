"""Ray nodes with addresses of their own on one machine: network namespaces joined by a switch.

Needs root and iproute2. Everything is in namespaces named after this process; nothing of the
machine's own network is touched.
"""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import sys
import time
import uuid
from collections.abc import Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Final

import psutil

from command import Command
from processes import LOOK_SECONDS, below, send

NETWORK: Final = "10.99.7"
PORT: Final = 6379
STORE_BYTES: Final = 80_000_000
"""The least that Ray takes for its object store."""
START_SECONDS: Final = 120.0


def namespaces_work() -> bool:
    """Whether this machine lets us make network namespaces and links."""
    if os.geteuid() or shutil.which("ip") is None:
        return False
    name = f"pmill{os.getpid()}try"
    made = subprocess.run(["ip", "netns", "add", name], capture_output=True, check=False)
    if made.returncode:
        return False
    inside = ["ip", "-n", name, "link", "add", "name", "sw0", "type", "bridge"]
    works = subprocess.run(inside, capture_output=True, check=False).returncode == 0
    _ip("netns", "del", name)
    return works


class Node:
    """One machine of the cluster.

    Args:
        cluster: where it belongs.
        name: of the node.
        number: of its address.
        cpus: what it offers; 0 for the head.
    """

    def __init__(self, cluster: Cluster, name: str, number: int, cpus: int) -> None:
        self._cluster, self.name, self._cpus = cluster, name, cpus
        self.namespace = f"{cluster.prefix}{name}"
        self.address = f"{NETWORK}.{number}"
        self.env: dict[str, str] = {}
        """Of this node alone, from its next start on."""
        self._starts = 0
        self._was_cut = False
        self._ray: Command | None = None
        link, switch = f"v{name}", cluster.switch
        _ip("netns", "add", self.namespace)
        _ip("-n", self.namespace, "link", "set", "lo", "up")
        pair = (
            "link",
            "add",
            "name",
            link,
            "netns",
            switch,
            "type",
            "veth",
            "peer",
            "name",
            "eth0",
        )
        _ip(*pair, "netns", self.namespace)
        _ip("-n", switch, "link", "set", link, "master", "sw0", "up")
        _ip("-n", self.namespace, "addr", "add", f"{self.address}/24", "dev", "eth0")
        _ip("-n", self.namespace, "link", "set", "eth0", "up")
        # Ray learns its own address from the route to the world; nothing is sent there.
        _ip("-n", self.namespace, "route", "add", "default", "dev", "eth0")

    @property
    def lives(self) -> bool:
        """Whether it runs; who was cut off may have been given up and end at any moment."""
        return self._ray is not None and not self._ray.ended and not self._was_cut

    def start(self) -> None:
        """Start Ray, with a temporary folder that is this node's alone; see `ready`."""
        self._starts += 1
        self._was_cut = False
        role = [f"--address={self._cluster.address}"]
        if self.name == Cluster.HEAD:
            role = ["--head", f"--port={PORT}", "--include-dashboard=false"]
        words = [
            *(sys.executable, "-m", "ray.scripts.scripts", "start", "--block", *role),
            f"--node-ip-address={self.address}",
            f"--temp-dir={self._cluster.folder / f'{self.name}{self._starts}'}",
            f"--num-cpus={self._cpus}",
            f"--object-store-memory={STORE_BYTES}",
            "--disable-usage-stats",
        ]
        log = self._cluster.folder / f"{self.name}{self._starts}.log"
        self._ray = Command(self.inside(words), log, {**self._cluster.env, **self.env})

    def wait_ready(self) -> None:
        """Until Ray says that it runs; on a busy machine it may give up and need another start."""
        end = time.monotonic() + START_SECONDS
        while self._ray is None or "Ray runtime started" not in self._ray.text:
            assert time.monotonic() < end, f"{self.name} does not start"
            if self._ray is None or self._ray.ended:
                self.clear()
                self.start()
            time.sleep(LOOK_SECONDS)

    def inside(self, words: Sequence[str]) -> list[str]:
        """A command that runs on this node."""
        return ["ip", "netns", "exec", self.namespace, *words]

    def kill(self) -> None:
        """The node's processes all at once, as when the power fails."""
        if self._ray is None:
            return
        pid = self._ray.process.pid
        found = below(pid)
        send(found, signal.SIGSTOP)  # none may notice that another died
        found = below(pid)
        with suppress(ProcessLookupError):
            os.kill(pid, signal.SIGKILL)
        send(found, signal.SIGKILL)
        self._ray.process.wait()
        self._ray = None

    def cut(self) -> None:
        """Pull the network cable."""
        self._was_cut = True
        _ip("-n", self._cluster.switch, "link", "set", f"v{self.name}", "down")

    def heal(self) -> None:
        """Plug it in again."""
        _ip("-n", self._cluster.switch, "link", "set", f"v{self.name}", "up")

    def processes(self) -> list[psutil.Process]:
        """All that run on it, drivers as well."""
        done = subprocess.run(
            ["ip", "netns", "pids", self.namespace], capture_output=True, text=True, check=False
        )
        found = []
        for pid in done.stdout.split():
            with suppress(psutil.Error):
                found.append(psutil.Process(int(pid)))
        return found

    def clear(self) -> None:
        """End whatever still runs on it."""
        self.kill()
        send(self.processes(), signal.SIGKILL)


class Cluster:
    """A head without CPUs, where drivers run, and worker nodes.

    Args:
        folder: for logs and the nodes' temporary folders; a short path, Ray puts sockets there.
        workers: how many nodes.
        cpus: of each of them.
        env: for Ray's processes.
    """

    HEAD: Final = "head"

    def __init__(
        self, folder: Path, *, workers: int = 2, cpus: int = 1, env: Mapping[str, str] | None = None
    ) -> None:
        self.folder = folder
        token = {"RAY_AUTH_MODE": "token", "RAY_AUTH_TOKEN": uuid.uuid4().hex}
        self.env = {**token, "RAY_USAGE_STATS_ENABLED": "0", **(env or {})}
        """Drivers need it, too."""
        self.prefix = f"pmill{os.getpid()}"
        self.switch = f"{self.prefix}switch"
        self._workers, self._cpus = workers, cpus
        self.nodes: dict[str, Node] = {}

    @property
    def address(self) -> str:
        return f"{NETWORK}.1:{PORT}"

    @property
    def head(self) -> Node:
        return self.nodes[self.HEAD]

    @property
    def workers(self) -> list[Node]:
        return [node for name, node in self.nodes.items() if name != self.HEAD]

    def __enter__(self) -> Cluster:
        self.folder.mkdir(parents=True, exist_ok=True)
        try:
            _ip("netns", "add", self.switch)
            _ip("-n", self.switch, "link", "add", "name", "sw0", "type", "bridge")
            _ip("-n", self.switch, "link", "set", "sw0", "up")
            for number in range(self._workers + 1):
                name = f"n{number}" if number else self.HEAD
                cpus = self._cpus if number else 0
                self.nodes[name] = Node(self, name, number + 1, cpus)
            self.mend()
        except BaseException:
            self.__exit__(None, None, None)
            raise
        return self

    def __exit__(self, *_: object) -> None:
        for node in self.nodes.values():
            node.clear()
        for name in (*(node.namespace for node in self.nodes.values()), self.switch):
            subprocess.run(["ip", "netns", "del", name], capture_output=True, check=False)

    def mend(self) -> None:
        """Plug in what is cut and start what is dead; a new head needs new nodes."""
        for node in self.nodes.values():
            node.heal()
        if not self.head.lives:
            for node in self.nodes.values():
                node.clear()
            self.head.start()
            self.head.wait_ready()
        dead = [node for node in self.workers if not node.lives]
        for node in dead:
            node.clear()
            node.start()
        for node in dead:
            node.wait_ready()


def _ip(*words: str) -> None:
    done = subprocess.run(["ip", *words], capture_output=True, text=True, check=False)
    if done.returncode:
        raise OSError(f"ip {' '.join(words)}: {done.stderr.strip()}")
