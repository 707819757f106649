"""The bytes of a media item, wherever they lie: in the row, in a file, on a host."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from promptmill.pipeline.media.data_url import is_data_url, read_data_url
from promptmill.pipeline.media.http_fetch import HttpFetcher
from promptmill.pipeline.media.local_file import local_path, read_local
from promptmill.schemas import profile
from promptmill.schemas.errors import ErrorCode, RowError, Stage
from promptmill.schemas.media import MediaItem, Modality

MAX_BYTES: Final = {
    Modality.IMAGE: profile.MEDIA_MAX_BYTES,
    Modality.AUDIO: profile.AUDIO_MAX_BYTES,
    Modality.VIDEO: profile.MEDIA_MAX_BYTES,
}
TIMEOUTS: Final = {Modality.IMAGE: 5.0, Modality.AUDIO: 10.0, Modality.VIDEO: 30.0}
"""Profile rule: seconds for one attempt."""


@dataclass(frozen=True, slots=True)
class MediaReader:
    """Reads media items, from where a job allows.

    Args:
        root: folder of local files; None: there are none.
        http: for URLs.
    """

    root: str | None
    http: HttpFetcher

    def read(self, item: MediaItem) -> bytes:
        """The bytes of an item.

        Raises:
            RowError: with a code that says what stands in the way.
        """
        limit = MAX_BYTES[item.modality]
        if item.data is not None:
            return _bounded(item.data, limit)
        url = item.url or ""
        if is_data_url(url):
            return read_data_url(url, max_bytes=limit)
        path = local_path(url)
        if path is not None:
            return read_local(path, self.root, max_bytes=limit)
        return self.http.fetch(url, max_bytes=limit, timeout=TIMEOUTS[item.modality])


def _bounded(data: bytes, limit: int) -> bytes:
    if len(data) > limit:
        raise RowError(
            ErrorCode.MEDIA_LIMIT,
            f"A media file of {len(data)} bytes is over the limit of {limit} bytes. "
            "Use a smaller file.",
            stage=Stage.EXPAND,
        )
    return data
