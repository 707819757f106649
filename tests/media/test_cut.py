"""A span is kept whole or the row is refused."""

import pickle
from functools import partial

import pytest
from hypothesis import given
from hypothesis import strategies as st

from promptmill.pipeline.media.cut import cut_spans
from promptmill.schemas.errors import ErrorCode, RowError
from promptmill.schemas.media import MediaSpan, Modality


def span(offset: int, length: int) -> MediaSpan:
    return MediaSpan(Modality.IMAGE, offset, length, 0, "hash")


@given(st.integers(0, 30), st.integers(1, 10), st.integers(0, 50), st.integers(0, 50))
def test_whole_or_refused(offset: int, length: int, start: int, stop: int) -> None:
    total = 45
    bounds = slice(start, stop).indices(total)
    cut = partial(cut_spans, [span(offset, length)], slice(start, stop), length=total, requested=9)
    if bounds[0] <= offset and offset + length <= bounds[1]:
        (kept,) = cut()
        assert (kept.offset, kept.length) == (offset - start, length)
        return
    with pytest.raises(RowError) as caught:
        cut()
    error = caught.value
    assert error.code is ErrorCode.MEDIA_SPLIT
    assert (error.parameter, error.value) == ("truncate_prompt_tokens", 9)
    for fact in ("image", str(offset), str(offset + length), str(total), "=9"):
        assert fact in error.message
    assert pickle.loads(pickle.dumps(error)).message == error.message


def test_nothing_is_left() -> None:
    with pytest.raises(RowError):
        cut_spans([span(0, 1)], slice(0, 0), length=5, requested=0)
    assert cut_spans([], slice(0, 0), length=5, requested=0) == ()


def test_no_cut() -> None:
    assert cut_spans([span(3, 4)], None, length=7, requested=-1) == (span(3, 4),)
