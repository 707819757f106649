"""Into Ray: one of our own, or a cluster's."""

from __future__ import annotations

import logging
import os
import socket
from collections.abc import Iterable
from contextlib import suppress
from threading import Thread
from typing import Final

import psutil
import ray
from ray.exceptions import AuthenticationError
from ray.job_config import JobConfig

from promptmill.schemas.errors import JobError
from promptmill.workers.environment import ONE_THREAD, TOKEN_HELP

_HEAD: Final = "node:__internal_head__"
_LITTLE: Final = 0.001
"""Of a node's own resource, of which it has 1."""
CONNECT_SECONDS: Final = 5.0
"""For a cluster's head to take a connection."""
END_SECONDS: Final = 30.0
"""For Ray to end by itself."""
OBJECT_STORE_BYTES: Final = 128 << 20
"""Rows never pass through it; only the model does."""


def start_ray(cpus: int) -> None:
    """Start a Ray of our own.

    Raises:
        JobError: it does not start.
    """
    os.environ.update(ONE_THREAD)  # workers inherit it before they load anything
    try:
        ray.init(
            address="local",
            num_cpus=cpus,
            num_gpus=0,
            include_dashboard=False,
            log_to_driver=False,
            logging_level=logging.ERROR,
            object_store_memory=OBJECT_STORE_BYTES,
            job_config=_job_config(),
        )
    except (ConnectionError, RuntimeError, ValueError, OSError) as error:
        raise JobError(f"Ray cannot be started here: {last_line(error)}") from error


def join_ray(address: str) -> None:
    """Join a cluster.

    Raises:
        JobError: there is none, or it refuses access.
    """
    host, colon, port = address.rpartition(":")
    named = bool(colon) and "/" not in host
    try:
        if named:  # Ray itself would try for minutes
            socket.create_connection((host, int(port)), CONNECT_SECONDS).close()
    except (ValueError, OSError) as error:
        raise _none_there(address, error) from error
    try:
        ray.init(
            address=address,
            log_to_driver=False,
            logging_level=logging.ERROR,
            job_config=_job_config(),
        )
    except AuthenticationError as error:
        raise JobError(f"No access to Ray at {address}: {error.message}. {TOKEN_HELP}") from error
    except (ConnectionError, RuntimeError, ValueError, OSError) as error:
        if named and isinstance(error, ConnectionError):
            raise JobError(
                f"What listens at {address} refuses access, or is no Ray head. {TOKEN_HELP}"
            ) from error
        raise _none_there(address, error) from error


def this_node() -> dict[str, float]:
    """What an actor asks for that is to run on the driver's node.

    Ray's node affinity fails, or takes another node, where a node has not heard of this one yet;
    who asks for what only this node has waits until it has.
    """
    here = ray.get_runtime_context().get_node_id()
    nodes = ray.nodes()  # type: ignore[no-untyped-call]
    (node,) = (node for node in nodes if node["NodeID"] == here)
    names = (name for name in node["Resources"] if name.startswith("node:"))
    return {name: _LITTLE for name in names if name != _HEAD}


class _NoFolders(list[str]):
    """Folders that workers import from; stays empty."""

    def extend(self, folders: Iterable[str]) -> None:
        """Take none."""


def _job_config() -> JobConfig:
    """Of a job whose workers import what is installed.

    Ray would put the current folder in front of it: one with data in it, where a file that someone
    named `numpy.py` would be run.
    """
    config = JobConfig()
    config._py_driver_sys_path = _NoFolders()
    return config


def shut_down() -> None:
    """Leave Ray; one of our own ends, also if a part of it does not move any more."""
    leaving = Thread(target=ray.shutdown, name="shut down", daemon=True)
    leaving.start()
    leaving.join(END_SECONDS)
    if leaving.is_alive():
        for process in psutil.Process().children(recursive=True):
            with suppress(psutil.NoSuchProcess):
                process.kill()
        leaving.join(END_SECONDS)


def _none_there(address: str, error: Exception) -> JobError:
    return JobError(f"There is no Ray at {address}: {last_line(error)}. Check the address.")


def last_line(error: Exception) -> str:
    """The last line of what an error says: Ray's are long."""
    lines = [line.strip() for line in str(error).splitlines() if line.strip()]
    return lines[-1].rstrip(".") if lines else type(error).__name__
