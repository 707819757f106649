"""TokenizeParams against what the reference front end answered, and its properties."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from promptmill.pipeline.params import TokenizeParams
from promptmill.schemas.errors import RowError

limits = st.integers(0, 40)
sides = st.sampled_from([None, "left", "right"])


@given(limits, st.integers(-3, 60), sides, st.none() | st.integers(0, 5), st.integers(0, 60))
def test_a_truncated_prompt_never_exceeds_its_budget(
    total: int, keep: int, side: str | None, output: int | None, length: int
) -> None:
    try:
        rules = TokenizeParams(
            max_total_tokens=total,
            max_output_tokens=output,
            truncate_prompt_tokens=keep,
            truncation_side=side,
        )
    except RowError:
        return
    ids = list(range(length))
    cut = rules.truncation_slice(length, "left")
    kept = ids if cut is None else ids[cut]
    assert len(kept) <= (rules.kept_tokens or 0) or cut is None
    rules.check_length(len(kept))
    from_left = (side or "left") == "left"
    assert kept == (ids[length - len(kept) :] if from_left else ids[: len(kept)])


def test_minus_one_leaves_an_id_for_output_only_where_output_is_wanted() -> None:
    assert TokenizeParams(max_total_tokens=10, max_output_tokens=0).max_truncation_tokens == 10
    assert TokenizeParams(max_total_tokens=10, max_output_tokens=None).max_truncation_tokens == 9
    assert TokenizeParams(max_total_tokens=1, max_output_tokens=1).max_truncation_tokens == 0


def test_the_character_gate_cuts_only_with_a_truncation_and_a_side() -> None:
    gate = TokenizeParams(max_total_tokens=2)
    with pytest.raises(RowError) as caught:
        gate.fit_text("x" * 9, 4)
    assert (caught.value.parameter, caught.value.value) == ("input_text", 9)
    unsided = TokenizeParams(max_total_tokens=2, truncate_prompt_tokens=1)
    assert unsided.fit_text("x" * 9, 4) == ("x" * 9, 0)
    left = TokenizeParams(max_total_tokens=2, truncate_prompt_tokens=1, truncation_side="left")
    assert left.fit_text("abcdefghij", 4) == ("cdefghij", 2)


@given(
    st.text(max_size=40), st.integers(0, 3), st.integers(1, 5), st.sampled_from(["left", "right"])
)
def test_the_gate_keeps_the_asked_end(text: str, total: int, chars: int, side: str) -> None:
    rules = TokenizeParams(max_total_tokens=total, truncate_prompt_tokens=0, truncation_side=side)
    kept, shift = rules.fit_text(text, chars)
    if side == "left" and total == 0:
        assert (kept, shift) == (text, 0)
    else:
        assert len(kept) <= total * chars
        assert text[shift : shift + len(kept)] == kept


@pytest.mark.parametrize(("length", "least"), [(11, True), (12, False)])
def test_the_length_error_says_at_least_where_counting_stopped(length: int, least: bool) -> None:
    with pytest.raises(RowError, match="context length is 10") as caught:
        TokenizeParams(max_total_tokens=10).check_length(length)
    assert ("at least" in caught.value.message) is least
