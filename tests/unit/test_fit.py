"""The first cut: one slice for ids, offsets and mask; padding; the length check."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from promptmill.pipeline.fit import Fitter, cut
from promptmill.pipeline.params import TokenizeParams
from promptmill.pipeline.tokenize import Tokens
from promptmill.schemas.errors import ErrorCode, RowError


def tokens(length: int) -> Tokens:
    ids = np.arange(length, dtype=np.int32)
    return Tokens(
        ids=ids,
        offsets=np.stack([ids, ids + 1], axis=1),
        mask=(ids % 2).astype(np.int8),
        text="x" * length,
        fitted_text="x" * length,
        original_num_tokens=length,
    )


@given(st.integers(0, 30), st.integers(0, 30), st.sampled_from(["left", "right"]))
def test_everything_parallel_is_cut_alike(length: int, keep: int, side: str) -> None:
    rules = TokenizeParams(max_total_tokens=40, truncate_prompt_tokens=keep, truncation_side=side)
    found = Fitter("left", None).first_cut(tokens(length), rules)
    assert len(found.ids) == min(length, keep)
    assert found.offsets is not None
    assert found.mask is not None
    assert found.offsets[:, 0].tolist() == found.ids.tolist()
    assert found.mask.tolist() == (found.ids % 2).tolist()
    assert found.cut_left + len(found.ids) + found.cut_right == length
    assert (found.cut_right if side == "left" else found.cut_left) == 0 or keep == 0


def test_cuts_add_up() -> None:
    twice = cut(cut(tokens(10), slice(2, 9)), slice(1, 4))
    assert twice.ids.tolist() == [3, 4, 5]
    assert (twice.cut_left, twice.cut_right) == (3, 4)


def test_padding_lengthens_the_ids_only() -> None:
    rules = TokenizeParams(max_total_tokens=20, pad_prompt_tokens=5)
    found = Fitter("left", 0).first_cut(tokens(3), rules)
    assert found.ids.tolist() == [0, 1, 2, 0, 0]
    assert found.offsets is not None
    assert len(found.offsets) == 3


def test_padding_without_a_pad_token_is_refused() -> None:
    rules = TokenizeParams(max_total_tokens=20, pad_prompt_tokens=5)
    with pytest.raises(RowError) as caught:
        Fitter("left", None).first_cut(tokens(3), rules)
    assert caught.value.code is ErrorCode.INVALID_BUDGET


def test_a_text_is_counted_only_as_far_as_the_tokenizer_reads() -> None:
    rules = TokenizeParams(max_total_tokens=8)
    with pytest.raises(RowError, match="at least 9"):
        Fitter("left", None).first_cut(tokens(30), rules)
