"""Files that broke off are known by their structure; whole ones pass."""

from __future__ import annotations

import io
from collections.abc import Callable

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from PIL import Image, features

from promptmill.pipeline.media.structure import cut_short

FORMATS = ["JPEG", "PNG", "GIF", "WEBP", *(["AVIF"] if features.check("avif") else []), "JPEG2000"]


def encoded(format: str, **options: object) -> bytes:
    """A noisy picture, so that every format has something to lose."""
    noise = np.random.default_rng(7).integers(0, 255, (40, 60, 3), np.uint8)
    file = io.BytesIO()
    Image.fromarray(noise).save(file, format, **options)
    return file.getvalue()


@pytest.mark.parametrize("format", FORMATS)
def test_whole_files_pass(format: str) -> None:
    data = encoded(format)
    assert cut_short(data) is None
    assert cut_short(data + b"trailing bytes") is None or format in ("AVIF", "JPEG2000")


@pytest.mark.parametrize("format", FORMATS)
def test_cut_files_do_not(format: str) -> None:
    data = encoded(format)
    for length in {len(data) - 1, len(data) * 3 // 4, len(data) // 2, 40}:
        assert cut_short(data[:length]) is not None


@pytest.mark.parametrize("options", [{"progressive": True}, {"restart_marker_rows": 1}])
def test_kinds_of_jpeg(options: dict[str, object]) -> None:
    data = encoded("JPEG", **options)
    assert cut_short(data) is None
    assert cut_short(data[:-2]) is not None


def test_a_thumbnail_does_not_end_its_jpeg() -> None:
    exif = Image.Exif()
    exif[0x010E] = "thumbnail: \xff\xd9" + encoded("JPEG").decode("latin-1")[:200] + "\xff\xd9"
    data = encoded("JPEG", exif=b"Exif\0\0" + exif.tobytes() + b"\xff\xd9")
    assert cut_short(data) is None
    assert cut_short(data[:-2]) is not None


@given(
    st.sampled_from([b"\xff\xd8", b"\x89PNG\r\n\x1a\n", b"GIF89a", b"RIFF", b"\0\0\0\x20ftyp"]),
    st.binary(max_size=80),
)
def test_nonsense_never_raises(start: bytes, rest: bytes) -> None:
    cut_short(start + rest)


@pytest.fixture(scope="session")
def wav() -> Callable[[int], bytes]:
    def make(samples: int) -> bytes:
        import wave

        file = io.BytesIO()
        with wave.open(file, "wb") as out:
            out.setnchannels(1)
            out.setsampwidth(2)
            out.setframerate(16_000)
            out.writeframes(bytes(2 * samples))
        return file.getvalue()

    return make


def test_riff_sounds(wav: Callable[[int], bytes]) -> None:
    assert cut_short(wav(100)) is None
    assert cut_short(wav(100)[:-1]) is not None
