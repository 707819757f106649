"""Sizes from headers are those of Pillow's decoded picture, and broken files are refused."""

from __future__ import annotations

import io
import warnings
import zlib
from pathlib import Path

import pytest
from PIL import Image, ImageOps, PngImagePlugin

from promptmill.pipeline.media.base import ImageInfo
from promptmill.pipeline.media.probe_image import FORMATS, probe_image
from promptmill.schemas.errors import ErrorCode, RowError

BROKEN = {ErrorCode.MEDIA_UNREADABLE, ErrorCode.MEDIA_LIMIT}
XMP = b'<x:xmpmeta xmlns:x="adobe:ns:meta/"><a tiff:Orientation="6"/></x:xmpmeta>'


def encoded(image: Image.Image, format: str, **options: object) -> bytes:
    file = io.BytesIO()
    image.save(file, format, **options)
    return file.getvalue()


def with_orientation(format: str, orientation: int) -> bytes:
    exif = Image.Exif()
    exif[0x0112] = orientation
    return encoded(Image.new("RGB", (30, 20)), format, exif=exif.tobytes())


def decoded_size(data: bytes) -> tuple[int, int] | None:
    """What the server sees: decoded, then turned; None for what it cannot decode."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        try:
            with Image.open(io.BytesIO(data), formats=FORMATS) as image:
                image.load()
                return ImageOps.exif_transpose(image).size
        except Exception:
            return None


def code(data: bytes, *, decode: bool = False) -> ErrorCode:
    with pytest.raises(RowError) as caught:
        probe_image(data, decode=decode)
    return caught.value.code


@pytest.mark.parametrize("format", ["JPEG", "PNG", "WEBP", "TIFF"])
@pytest.mark.parametrize("orientation", [0, 1, 2, 3, 4, 5, 6, 7, 8, 9])
def test_orientation(format: str, orientation: int) -> None:
    data = with_orientation(format, orientation)
    info = probe_image(data)
    assert (info.width, info.height) == decoded_size(data)
    assert (info.width, info.height) == ((20, 30) if 5 <= orientation <= 8 else (30, 20))


def test_an_orientation_in_xmp() -> None:
    text = PngImagePlugin.PngInfo()
    text.add_itxt("XML:com.adobe.xmp", XMP.decode())
    data = encoded(Image.new("RGB", (30, 20)), "PNG", pnginfo=text)
    assert probe_image(data) == ImageInfo(20, 30, rotated=True)
    assert decoded_size(data) == (20, 30)


def test_an_orientation_behind_the_pixels() -> None:
    data = with_orientation("PNG", 6)
    start = data.index(b"eXIf") - 4
    stop = start + 12 + int.from_bytes(data[start : start + 4], "big")
    end = data.index(b"IEND") - 4
    moved = data[:start] + data[stop:end] + data[start:stop] + data[end:]
    assert (probe_image(moved).width, probe_image(moved).height) == decoded_size(moved) == (20, 30)


def test_pixels_are_not_decoded() -> None:
    data = bytearray(encoded(Image.new("RGB", (30, 20)), "PNG"))
    start = data.index(b"IDAT") + 4
    data[start : start + 4] = b"\0\0\0\0"
    assert probe_image(bytes(data)) == ImageInfo(30, 20)
    with pytest.raises(RowError):
        probe_image(bytes(data), decode=True)


@pytest.mark.parametrize("format", ["BMP", "TIFF", "PPM", "TGA"])
def test_raw_pixels_that_broke_off(format: str) -> None:
    data = encoded(Image.new("RGB", (30, 20)), format)
    assert (probe_image(data).width, probe_image(data).height) == (30, 20)
    assert code(data[: len(data) // 2]) is ErrorCode.MEDIA_UNREADABLE


@pytest.mark.parametrize("data", [b"", b"<html>", b"%PDF-1.4", b"%!PS-Adobe-3.0 EPSF", b"\x89PNG"])
def test_what_is_no_image(data: bytes) -> None:
    assert code(data) is ErrorCode.MEDIA_UNREADABLE


def test_too_many_pixels() -> None:
    header = encoded(Image.new("1", (1, 1)), "PNG")
    for side in (13_378, 20_000):
        size = side.to_bytes(4, "big")
        chunk = b"IHDR" + size + size + header[24:29]
        crc = zlib.crc32(chunk).to_bytes(4, "big")
        data = header[:12] + chunk + crc + header[33:]
        with pytest.raises(RowError) as caught:
            probe_image(data)
        assert caught.value.code is ErrorCode.MEDIA_LIMIT
        assert caught.value.message == (
            f"The image has {side * side} pixels, and the server decodes 178956970 at most. "
            "Scale it down."
        )


def test_files_that_tools_stumble_over(shared: Path) -> None:
    files = [f for f in (shared / "data" / "images").rglob("*") if f.is_file()]
    assert len(files) > 10
    for file in (file for file in files if file.suffix != ".tsv"):
        data = file.read_bytes()
        wanted = decoded_size(data)
        if wanted is None:  # some are broken in their pixels only
            assert code(data, decode=True) in BROKEN, file
        else:
            info = probe_image(data)
            assert (info.width, info.height) == wanted, file
