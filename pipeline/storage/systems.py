"""The file systems of URLs, set up for what we do with them.

Endpoints and credentials come from where the client libraries look themselves: the environment
(AWS_ENDPOINT_URL, AWS_PROFILE, GOOGLE_APPLICATION_CREDENTIALS, HF_TOKEN, ...) and fsspec's own
configuration files. None of it is an option, so that none of it can be stored.
"""

from __future__ import annotations

from typing import Final

import fsspec
from fsspec import AbstractFileSystem
from fsspec.core import url_to_fs

from promptmill.schemas.errors import JobError

BLOCK_BYTES: Final = 4 << 20
"""Read ahead of an input: a shard's last read goes so far beyond its end."""
UPLOAD_BYTES: Final = 16 << 20
"""One piece of a multipart upload; up to twice as much goes in one request."""

_SETTINGS: Final[dict[str, dict[str, object]]] = {"s3": {"max_concurrency": 4}}
"""Pieces that are on their way at the same time, each in memory."""
_SAME: Final = {"s3a": "s3", "gcs": "gs"}
_STORES: Final = {"s3", "gs", "hf"}
"""Protocols of object stores whose clients find their credentials themselves."""
_EXTRAS: Final = {"s3": "s3", "gs": "gcs"}
"""What brings a client that is not always installed."""


def protocol_of(url: str) -> str | None:
    """`s3` for `s3://bucket/key`; None for a path."""
    name, found, _ = url.partition("://")
    return _SAME.get(name, name) if found else None


def check_url(url: str) -> None:
    """Refuse credentials where the store's own client would not understand them.

    Raises:
        JobError: the URL of an object store has a user or a password in it.
    """
    protocol, bucket = protocol_of(url), url.partition("://")[2].partition("/")[0]
    if protocol in _STORES and not {":", "@"}.isdisjoint(bucket):
        raise JobError(
            f"A {protocol}:// URL has a user or a key in front of its bucket. Credentials are "
            "taken from the environment or the client's own configuration; leave them out."
        )


def file_system(protocol: str) -> AbstractFileSystem:
    """The file system of a protocol, one a process; listings are never remembered.

    Raises:
        JobError: there is no client for it here.
    """
    settings = _SETTINGS.get(protocol, {})
    try:
        return fsspec.filesystem(protocol, use_listings_cache=False, **settings)
    except (ImportError, ValueError) as error:
        extra = _EXTRAS.get(protocol)
        way_out = f" Install it: pip install 'promptmill[{extra}]'." if extra else ""
        raise JobError(f"There is no client for {protocol}:// here ({error}).{way_out}") from error


def system_of(url: str) -> tuple[AbstractFileSystem, str]:
    """The file system of a URL or path, and what it is called there.

    Raises:
        JobError: the URL has credentials, or no client knows it.
        ImportError, ValueError: as fsspec.
    """
    check_url(url)
    protocol = protocol_of(url)
    if protocol is None or protocol not in _STORES:
        system, path = url_to_fs(url)
        return system, path
    system = file_system(protocol)
    return system, system._strip_protocol(url)
