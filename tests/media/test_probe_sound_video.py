"""Lengths of sounds and videos are those of their decoded selves."""

from __future__ import annotations

import io
from fractions import Fraction
from pathlib import Path
from typing import Any

import av
import numpy as np
import pytest
import soundfile

from promptmill.pipeline.media.base import AudioInfo, VideoInfo
from promptmill.pipeline.media.probe_audio import probe_audio
from promptmill.pipeline.media.probe_video import probe_video
from promptmill.pipeline.media.resample import samples_at
from promptmill.schemas import profile
from promptmill.schemas.errors import ErrorCode, RowError


def sound(format: str, seconds: float = 1.5, rate: int = 16_000, channels: int = 1) -> bytes:
    wave = np.sin(np.arange(round(seconds * rate)) / 9) * 0.2
    file = io.BytesIO()
    soundfile.write(file, np.repeat(wave[:, None], channels, axis=1), rate, format=format)
    return file.getvalue()


def video(frames: int, width: int, height: int, rate: Fraction, turned: int = 0) -> bytes:
    file = io.BytesIO()
    with av.open(file, "w", format="mp4") as container:
        stream: Any = container.add_stream("mpeg4", rate=rate)
        stream.width, stream.height, stream.pix_fmt = width, height, "yuv420p"
        if turned:
            stream.set_display_rotation(turned)
        for n in range(frames):
            pixels = np.full((height, width, 3), n % 256, np.uint8)
            container.mux(stream.encode(av.VideoFrame.from_ndarray(pixels)))
        container.mux(stream.encode())
    return file.getvalue()


def code(error: pytest.ExceptionInfo[RowError]) -> ErrorCode:
    return error.value.code


@pytest.mark.parametrize("format", ["WAV", "FLAC", "OGG", "AIFF", "MP3", "W64"])
@pytest.mark.parametrize("channels", [1, 2])
def test_lengths_of_sounds(format: str, channels: int) -> None:
    data = sound(format, channels=channels)
    decoded, rate = soundfile.read(io.BytesIO(data))
    info = probe_audio(data)
    assert info == AudioInfo(len(decoded), rate, channels)
    assert info == probe_audio(data, decode=True)


def test_sounds_that_tools_stumble_over(shared: Path) -> None:
    files = list(filter(Path.is_file, (shared / "data" / "audio").rglob("*")))
    assert files
    for file in files:
        data = file.read_bytes()
        with av.open(io.BytesIO(data)) as container:
            samples = sum(frame.samples for frame in container.decode(audio=0))
        if samples:
            assert probe_audio(data).samples == samples, file
        else:
            with pytest.raises(RowError):
                probe_audio(data)


@pytest.mark.parametrize("format", ["WAV", "FLAC"])
def test_sounds_that_broke_off(format: str) -> None:
    data = sound(format)
    with pytest.raises(RowError) as caught:
        probe_audio(data[: len(data) // 2])
    assert code(caught) is ErrorCode.MEDIA_UNREADABLE


def test_sounds_of_a_pipe() -> None:
    """What is written without seeking back has no length in front."""
    data = bytearray(sound("WAV"))
    data[4:8] = b"\xff\xff\xff\xff"
    assert probe_audio(bytes(data)).samples == 24_000


def test_sounds_at_the_limit() -> None:
    rate, seconds = 100, profile.AUDIO_MAX_SECONDS
    assert probe_audio(sound("WAV", seconds, rate)).samples == seconds * rate
    with pytest.raises(RowError) as caught:
        probe_audio(sound("WAV", seconds + 1 / rate, rate))
    assert code(caught) is ErrorCode.MEDIA_LIMIT


def test_the_sound_of_a_video_without_one() -> None:
    with pytest.raises(RowError, match="no audio stream"):
        probe_audio(video(3, 32, 32, Fraction(10)))


@pytest.mark.parametrize("data", [b"", b"\0\0\0", b"<html>", b"RIFF\4\0\0\0WAVE"])
def test_what_is_neither(data: bytes) -> None:
    for probe in (probe_audio, probe_video):
        with pytest.raises(RowError) as caught:
            probe(data)
        assert code(caught) is ErrorCode.MEDIA_UNREADABLE


@pytest.mark.parametrize(
    ("info", "rate", "samples"),
    [
        (AudioInfo(24_000, 16_000), 16_000, 24_000),
        (AudioInfo(44_101, 44_100), 16_000, 16_001),
        (AudioInfo(1, 8_000), 16_000, 2),
        (AudioInfo(3, 48_000), 16_000, 1),
        (AudioInfo(2**25 + 2, 32_000), 16_000, 2**24),
    ],
)
def test_resampled_lengths(info: AudioInfo, rate: int, samples: int) -> None:
    assert samples_at(info, rate) == samples


@pytest.mark.parametrize("rate", [Fraction(30), Fraction(30_000, 1_001), Fraction(5, 2)])
@pytest.mark.parametrize("frames", [1, 2, 31])
def test_videos(frames: int, rate: Fraction) -> None:
    data = video(frames, 48, 32, rate)
    info = probe_video(data)
    assert info == VideoInfo(48, 32, frames, float(rate))
    assert info == probe_video(data, decode=True)


def test_turned_videos() -> None:
    for turned, size in ((90, (32, 48)), (-90, (32, 48)), (180, (48, 32))):
        info = probe_video(video(3, 48, 32, Fraction(10), turned))
        assert (info.width, info.height) == size


def test_videos_that_broke_off() -> None:
    data = video(31, 48, 32, Fraction(30))
    for length in (len(data) - 1, len(data) // 2, 20):
        with pytest.raises(RowError) as caught:
            probe_video(data[:length])
        assert code(caught) is ErrorCode.MEDIA_UNREADABLE


def test_videos_of_others(shared: Path) -> None:
    files = list(filter(Path.is_file, (shared / "data" / "video").rglob("*")))
    assert files
    for file in files:
        data = file.read_bytes()
        with av.open(io.BytesIO(data)) as container:
            frames = list(container.decode(video=0))
        info = probe_video(data)
        assert (info.frames, info.width, info.height) == (
            len(frames),
            frames[0].width,
            frames[0].height,
        )
