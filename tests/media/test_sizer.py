"""Media are read once, sized once, and fetched side by side."""

from __future__ import annotations

import hashlib
import threading
from collections.abc import Callable

import pytest

from promptmill.pipeline.media.base import ImageInfo
from promptmill.pipeline.media.fetch import MediaReader
from promptmill.pipeline.media.http_fetch import HttpFetcher
from promptmill.pipeline.media.sizer import READERS, MediaSizer
from promptmill.schemas.errors import ErrorCode, RowError
from promptmill.schemas.media import MediaItem, Modality


class Host(HttpFetcher):
    """Answers from memory, and only once as many ask at the same time as may."""

    def __init__(self, files: dict[str, bytes]) -> None:
        super().__init__(frozenset())
        self.files = files
        self.asked: list[str] = []
        self.together = threading.Barrier(min(READERS, len(files)))

    def fetch(self, url: str, *, max_bytes: int, timeout: float) -> bytes:
        self.asked.append(url)
        self.together.wait(10)
        if url not in self.files:
            raise RowError(ErrorCode.MEDIA_FETCH_FAILED, "missing")
        return self.files[url]


def at(url: str) -> MediaItem:
    return MediaItem(Modality.IMAGE, url)


def test_a_size_and_its_hash(picture: Callable[..., MediaItem]) -> None:
    item = picture(7, 5)
    sizer = MediaSizer(MediaReader(None, HttpFetcher(frozenset())))
    (first,), (second,) = sizer.sizes([item]), sizer.sizes([item])
    assert first == second
    assert first.info == ImageInfo(7, 5)
    assert first.hash == hashlib.sha256(item.data or b"").hexdigest()
    assert first.info is second.info


def test_a_batch_is_fetched_side_by_side(picture: Callable[..., MediaItem]) -> None:
    pictures = {f"http://host/{n}": picture(n, 2).data or b"" for n in range(1, 5)}
    host = Host(pictures)
    sizer = MediaSizer(MediaReader(None, host))
    items = [at(url) for url in pictures]
    sizer.fetch([*items, *items, picture(9)])
    assert sorted(host.asked) == sorted(pictures)
    assert [one.info for one in sizer.sizes(items)] == [ImageInfo(n, 2) for n in range(1, 5)]
    assert sorted(host.asked) == sorted(pictures)


def test_what_cannot_be_fetched_fails_its_own_rows(picture: Callable[..., MediaItem]) -> None:
    host = Host({"http://host/good": picture(3).data or b""})
    sizer = MediaSizer(MediaReader(None, host))
    good, bad = at("http://host/good"), at("http://host/bad")
    sizer.fetch([good, bad])
    errors = []
    for _ in range(2):
        with pytest.raises(RowError) as caught:
            sizer.sizes([bad])
        errors.append(caught.value)
    assert [one.code for one in errors] == [ErrorCode.MEDIA_FETCH_FAILED] * 2
    assert errors[0] is not errors[1]
    assert sizer.sizes([good])[0].info == ImageInfo(3, 1)


def test_media_of_a_row_are_bounded_together(picture: Callable[..., MediaItem]) -> None:
    sizer = MediaSizer(MediaReader(None, HttpFetcher(frozenset())))
    large = picture(12_000, 12_000)
    sizer.sizes([large])
    with pytest.raises(RowError) as caught:
        sizer.sizes([large, large])
    assert caught.value.code is ErrorCode.MEDIA_LIMIT
