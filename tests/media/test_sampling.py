"""Which frames of a video are used."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from promptmill.pipeline.media.base import MediaKwargs, Site, VideoInfo
from promptmill.pipeline.media.sampling import (
    LOADERS,
    evenly,
    qwen2_vl,
    qwen3_vl,
    resample_evenly,
    sample,
)
from promptmill.pipeline.media.values import Values
from promptmill.schemas.errors import ErrorCode, RowError

NOTHING = Values((), "media_io_kwargs", of_row=True)
VIDEOS = st.builds(VideoInfo, st.just(8), st.just(8), st.integers(1, 3000), st.floats(0.5, 120))


def asked(**io: object) -> Values:
    return Values((io,), "media_io_kwargs", of_row=True)  # type: ignore[arg-type] # any JSON


@given(VIDEOS, st.sampled_from(sorted(LOADERS)))
def test_frames_rise_within_the_video(info: VideoInfo, loader: str) -> None:
    try:
        taken = list(LOADERS[loader](info, NOTHING))
    except RowError:
        assert loader == "qwen2_vl"
        assert info.frames < 2
        return
    assert taken == sorted(taken)
    assert all(0 <= index < info.frames for index in taken)


@given(VIDEOS)
def test_how_many(info: VideoInfo) -> None:
    assert len(evenly(info, NOTHING)) == min(32, info.frames)
    assert len(evenly(info, asked(num_frames=-1))) == info.frames
    assert min(4, info.frames) <= len(qwen3_vl(info, NOTHING)) <= min(768, info.frames)
    if info.frames > 1:
        assert len(qwen2_vl(info, NOTHING)) <= min(768, info.frames) + 1


def test_the_processor_samples_again_what_was_taken_whole() -> None:
    info, half = VideoInfo(8, 8, 10, 10.0), Site(kwargs=MediaKwargs({"num_frames": 5}))
    assert sample(info, half, evenly, resample_evenly).indices == (0, 2, 4, 6, 8)
    assert len(sample(info, half, evenly, None)) == 10
    longer = VideoInfo(8, 8, 40, 10.0)
    assert len(sample(longer, half, evenly, resample_evenly)) == 32
    insisting = Site(kwargs=MediaKwargs({"do_sample_frames": True}))
    with pytest.raises(RowError, match="do_sample_frames"):
        sample(longer, insisting, evenly, resample_evenly)
    assert len(sample(longer, insisting, evenly, resample_evenly, obeys=False)) == 32


def test_another_loader_by_name() -> None:
    io = {"video": {"video_backend": "qwen3_vl"}}
    site = Site(kwargs=MediaKwargs({}, io))  # type: ignore[arg-type] # nested JSON
    assert len(sample(VideoInfo(8, 8, 300, 30.0), site, evenly, None)) == 20


def test_decoded_bytes_are_bounded() -> None:
    with pytest.raises(RowError) as caught:
        sample(VideoInfo(3840, 2160, 900, 30.0), Site(), evenly, None)
    assert caught.value.code is ErrorCode.MEDIA_LIMIT


def test_times_of_frames() -> None:
    frames = sample(VideoInfo(8, 8, 4, 0.0), Site(), evenly, None)
    assert frames.seconds() == [0.0, 1 / 24, 2 / 24, 3 / 24]
