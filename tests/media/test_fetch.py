"""Where the bytes of an item may come from."""

from __future__ import annotations

import base64
import os
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from promptmill.pipeline.media.data_url import read_data_url
from promptmill.pipeline.media.fetch import MediaReader
from promptmill.pipeline.media.http_fetch import HttpFetcher
from promptmill.schemas.errors import ErrorCode, RowError
from promptmill.schemas.media import MediaItem, Modality

NOWHERE = HttpFetcher(frozenset())


def read(url: str | None, root: Path | None = None, data: bytes | None = None) -> bytes:
    reader = MediaReader(None if root is None else str(root), NOWHERE)
    return reader.read(MediaItem(Modality.IMAGE, url, data))


def code(url: str, root: Path | None = None) -> ErrorCode:
    with pytest.raises(RowError) as caught:
        read(url, root)
    return caught.value.code


@given(st.binary(max_size=40))
def test_base64_round_trip(data: bytes) -> None:
    payload = base64.b64encode(data).decode()
    assert read(f"DATA:text/plain;charset=utf-8;base64,{payload}") == data


@pytest.mark.parametrize(
    "rest",
    [
        "image/png;base64",
        "image/png,AAAA",
        "image/png;BASE64,AAAA",
        "image/png;base64;x,AAAA",
        "base64,AAAA",
        "image/png;base64,AA A",
        "image/png;base64,AAAA\\n",
        "image/png;base64,AAA",
        "image/png;base64,AAA==",
        "image/png;base64,AAAA=",
        "image/png;base64,AAAA====",
        "image/png;base64,AA==AA==",
        "image/png;base64,AA=A",
        "image/png;base64,=AAA",
        "image/png;base64,AAAA\nAAA",
        "image/png;base64, AAA",
        "image/png;base64,A_-A",
        "image/png;base64,AA%3D%3D",
        "image/png;base64,AAÄ=",
    ],
)
def test_what_is_no_data_url(rest: str) -> None:
    assert code("data:" + rest) is ErrorCode.MEDIA_UNREADABLE


def test_data_urls_are_bounded_before_they_are_decoded() -> None:
    with pytest.raises(RowError) as caught:
        read_data_url("data:;base64," + "AAAA" * 3, max_bytes=6)
    assert caught.value.code is ErrorCode.MEDIA_LIMIT
    assert len(read_data_url("data:;base64," + "AAAA" * 2, max_bytes=6)) == 6


def test_raw_bytes() -> None:
    assert read(None, data=b"abc") == b"abc"


def test_files_under_the_root(tmp_path: Path) -> None:
    file = tmp_path / "a folder" / "é.png"
    file.parent.mkdir()
    file.write_bytes(b"abc")
    (tmp_path / "link").symlink_to(file)
    for url in (str(file), "a folder/é.png", file.as_uri(), f"file://localhost{file}", "link"):
        assert read(url, tmp_path) == b"abc"


def test_files_elsewhere(tmp_path: Path) -> None:
    root, outside = tmp_path / "root", tmp_path / "root-of-another" / "a.png"
    root.mkdir()
    outside.parent.mkdir()
    outside.write_bytes(b"secret")
    (root / "link").symlink_to(outside)
    (root / "folder").symlink_to(outside.parent)
    for url in (
        str(outside),
        outside.as_uri(),
        "../root-of-another/a.png",
        "link",
        "folder/a.png",
        "file:///etc/passwd",
        "file://../root-of-another/a.png",
    ):
        assert code(url, root) is ErrorCode.MEDIA_NOT_ALLOWED
    assert code(str(outside)) is ErrorCode.MEDIA_NOT_ALLOWED


def test_what_is_no_file(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe")
    (tmp_path / "loop").symlink_to("loop")
    assert code("pipe", tmp_path) is ErrorCode.MEDIA_NOT_ALLOWED
    assert code(".", tmp_path) is ErrorCode.MEDIA_NOT_ALLOWED
    for url in ("missing.png", "loop", "a\\0b", "x" * 5000):
        assert code(url, tmp_path) is ErrorCode.MEDIA_FETCH_FAILED


def test_schemes(tmp_path: Path) -> None:
    for url in ("ftp://x/a", "s3://b/a", "http://x/a", "httpfoo://x", " data:;base64,AAAA", ""):
        assert code(url, tmp_path) is ErrorCode.MEDIA_NOT_ALLOWED
