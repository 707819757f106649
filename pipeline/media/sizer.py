"""Media items to sizes: read, hash, probe; identical media are probed once."""

from __future__ import annotations

import hashlib
from collections import OrderedDict
from collections.abc import Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor
from copy import copy
from dataclasses import dataclass
from typing import Final

from promptmill.pipeline.media.base import AudioInfo, ImageInfo, MediaInfo, VideoInfo
from promptmill.pipeline.media.fetch import MediaReader
from promptmill.pipeline.media.probe_audio import probe_audio
from promptmill.pipeline.media.probe_image import probe_image
from promptmill.pipeline.media.probe_video import probe_video
from promptmill.schemas import profile
from promptmill.schemas.errors import ErrorCode, RowError, Stage
from promptmill.schemas.media import MediaItem, Modality

CACHED: Final = 65_536
"""Sizes kept; one takes some 200 bytes."""
READERS: Final = 8
"""Items that are fetched from hosts at the same time."""


@dataclass(frozen=True, slots=True)
class Sized:
    """What a header tells, and whose header it is."""

    info: MediaInfo
    hash: str
    """sha256 of the file's bytes, hexadecimal."""
    size: int
    """Bytes of the file."""


class MediaSizer:
    """Sizes the media of rows.

    Args:
        reader: reads the bytes.
        check: decode everything as well (`--check-media`).
    """

    def __init__(self, reader: MediaReader, *, check: bool = False) -> None:
        self._reader = reader
        self._check = check
        self._known: OrderedDict[tuple[Modality, str], MediaInfo] = OrderedDict()
        self._fetched: dict[tuple[Modality, str], Sized | RowError] = {}

    def fetch(self, items: Iterable[MediaItem]) -> None:
        """Fetch and size the items of a batch that lie on hosts, several at a time.

        What comes of it, errors too, is kept for `sizes` until the next batch.
        """
        remote = {(i.modality, i.url or ""): i for i in items if _is_remote(i)}
        if not remote:
            self._fetched = {}
            return
        with ThreadPoolExecutor(READERS) as pool:
            results = dict(zip(remote, pool.map(self._try, remote.values()), strict=True))
        self._fetched = {key: result for key, result in results.items() if result is not None}

    def sizes(self, items: Sequence[MediaItem]) -> list[Sized]:
        """The sizes of a row's items, in order.

        Raises:
            RowError: the first item that cannot be read; MEDIA_LIMIT where all of them together
                are more than the server decodes for one request.
        """
        sized = [self._fetched_or_read(item) for item in items]
        _check_budget([one.info for one in sized])
        return sized

    def _fetched_or_read(self, item: MediaItem) -> Sized:
        # Hashing a data: URL for the look-up would cost as much as reading it.
        found = self._fetched.get((item.modality, item.url or "")) if _is_remote(item) else None
        if isinstance(found, RowError):
            raise copy(found)  # every row gets an error of its own
        return found or self._size(item)

    def _try(self, item: MediaItem) -> Sized | RowError | None:
        try:
            return self._size(item)
        except RowError as error:
            return error
        except Exception:  # its row will meet it again, alone
            return None

    def _size(self, item: MediaItem) -> Sized:
        data = self._reader.read(item)
        digest = hashlib.sha256(data).hexdigest()
        key = (item.modality, digest)
        info = self._known.get(key)
        if info is None:
            info = self._probe(item.modality, data)
            self._known[key] = info
            if len(self._known) > CACHED:
                self._known.popitem(last=False)
        return Sized(info, digest, len(data))

    def _probe(self, modality: Modality, data: bytes) -> MediaInfo:
        match modality:
            case Modality.IMAGE:
                return probe_image(data, decode=self._check)
            case Modality.AUDIO:
                return probe_audio(data, decode=self._check)
            case Modality.VIDEO:
                return probe_video(data, decode=self._check)


def _is_remote(item: MediaItem) -> bool:
    return item.data is None and (item.url or "")[:4].lower() == "http"


def _check_budget(infos: Sequence[MediaInfo]) -> None:
    """Decoded bytes of a request, as the server charges them before it decodes."""
    total = sum(_decoded_bytes(info) for info in infos)
    if total > profile.MEDIA_DECODE_BYTES:
        raise RowError(
            ErrorCode.MEDIA_LIMIT,
            f"The media of this row are {total} bytes once decoded; the server decodes at most "
            f"{profile.MEDIA_DECODE_BYTES} for one request. Use fewer or smaller media.",
            stage=Stage.EXPAND,
        )


def _decoded_bytes(info: MediaInfo) -> int:
    match info:
        case ImageInfo():
            return 4 * info.width * info.height
        case AudioInfo():
            return 4 * info.samples * info.channels
        case VideoInfo():
            return 0  # its frames are charged as they are sampled
