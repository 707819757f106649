"""Which budget a row gets, and what is left for output."""

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from facts import tokenizer_facts
from promptmill.pipeline.limits import check_engine_limits, resolve_max_tokens, tokenize_params
from promptmill.schemas.errors import ErrorCode, RowError
from promptmill.schemas.options import JobOptions
from promptmill.schemas.request import Budget, Endpoint, Place, Request, TextPrompt, TokensPrompt

FACTS = tokenizer_facts(max_chars_per_token=8, eos_token_id=1, do_lower_case=True)


def options(**more: Any) -> JobOptions:
    return JobOptions(input=("in.jsonl",), output="out", model="model", **more)


def request(endpoint: Endpoint = Endpoint.CHAT, **budget: Any) -> Request:
    return Request(
        custom_id="a",
        place=Place("in.jsonl", 0),
        endpoint=endpoint,
        prompt=TextPrompt("x"),
        budget=Budget(**budget),
    )


@pytest.mark.parametrize(
    ("endpoint", "budget", "more", "output", "special"),
    [
        (Endpoint.CHAT, {}, {}, None, False),
        (Endpoint.CHAT, {"max_tokens": 5}, {}, 5, False),
        (Endpoint.CHAT, {"max_tokens": 5, "max_completion_tokens": 3}, {}, 3, False),
        (Endpoint.CHAT, {"add_special_tokens": True}, {"max_tokens": 7}, 7, True),
        (Endpoint.COMPLETION, {}, {}, 16, True),
        (Endpoint.COMPLETION, {"max_tokens": 0}, {}, 0, True),
        (Endpoint.COMPLETION, {"add_special_tokens": False}, {"task": "train"}, 0, False),
        (Endpoint.EMBEDDING, {}, {"task": "pooling"}, 0, True),
    ],
)
def test_defaults_are_those_of_the_endpoint_and_the_task(
    endpoint: Endpoint, budget: dict[str, Any], more: dict[str, Any], output: int, special: bool
) -> None:
    rules = tokenize_params(request(endpoint, **budget), options(**more), 100, FACTS)
    assert (rules.max_output_tokens, rules.add_special_tokens) == (output, special)
    assert rules.do_lower_case is (more.get("task") == "pooling")


def test_a_completion_that_names_no_budget_does_not_fit_a_context_below_its_default() -> None:
    with pytest.raises(RowError, match="max_tokens=16 cannot be greater than max_model_len=8"):
        tokenize_params(request(Endpoint.COMPLETION), options(), 8, FACTS)


def test_row_fields_win_over_options_and_a_policy_only_fills_in() -> None:
    job = options(truncate_prompt_tokens=9, truncation_side="right")
    row = tokenize_params(request(truncate_prompt_tokens=3, truncation_side="left"), job, 20, FACTS)
    assert (row.truncate_prompt_tokens, row.truncation_side) == (3, "left")
    filled = tokenize_params(request(), options(on_overlong="truncate"), 20, FACTS)
    assert filled.kept_tokens == 19


@given(
    st.integers(1, 50),
    st.integers(0, 60),
    st.none() | st.integers(-1, 50),
    st.none() | st.integers(0, 50),
    st.none() | st.integers(1, 60),
)
def test_the_output_budget_never_leaves_the_context(
    total: int, length: int, keep: int | None, asked: int | None, default: int | None
) -> None:
    row, defaults = request(max_tokens=asked, truncate_prompt_tokens=keep), {"max_tokens": default}
    try:
        rules = tokenize_params(row, options(), total, FACTS)
        budget = resolve_max_tokens(
            row,
            options(),
            max_model_len=total,
            truncated_to=rules.truncate_prompt_tokens,
            num_tokens=length,
            generation_defaults=defaults,
        )
    except RowError:
        assert length > total or max(asked or 0, keep or 0) > total
        return
    assert budget is not None
    assert 0 <= budget <= total
    if keep is None:
        wanted = asked if asked is not None else default
        room = total - length
        assert budget == (room if wanted is None else min(room, wanted))


def test_nothing_is_generated_for_pooling_and_training() -> None:
    for task in ("pooling", "train"):
        found = resolve_max_tokens(
            request(),
            options(task=task),
            max_model_len=10,
            truncated_to=None,
            num_tokens=3,
            generation_defaults={},
        )
        assert found is None


@pytest.mark.parametrize(
    ("ids", "generates", "code"),
    [
        ([], True, ErrorCode.EMPTY_PROMPT),
        ([100], True, ErrorCode.TOKEN_OUT_OF_VOCABULARY),
        ([1] * 10, True, ErrorCode.PROMPT_TOO_LONG),
        ([1] * 11, False, ErrorCode.PROMPT_TOO_LONG),
        ([1] * 10, False, None),
        ([1] * 9, True, None),
    ],
)
def test_the_engine_checks(ids: list[int], generates: bool, code: ErrorCode | None) -> None:
    def check() -> None:
        check_engine_limits(
            len(ids),
            max(ids, default=0),
            min(ids, default=0),
            max_model_len=10,
            max_token_id=99,
            generates=generates,
        )

    if code is None:
        check()
    else:
        with pytest.raises(RowError) as caught:
            check()
        assert caught.value.code is code
        if len(ids) > 10:
            assert "the context less the output that you want" in caught.value.message


def test_ids_that_came_without_text_are_decoded_where_text_is_wanted() -> None:
    row = Request(
        custom_id="a",
        place=Place("in.jsonl", 0),
        endpoint=Endpoint.COMPLETION,
        prompt=TokensPrompt([1, 2]),
    )
    assert tokenize_params(row, options(with_text=True), 100, FACTS).needs_detokenization
    assert not tokenize_params(row, options(), 100, FACTS).needs_detokenization


def test_ids_that_came_with_a_chat_body_are_never_cut() -> None:
    row = Request(
        custom_id="a",
        place=Place("in.jsonl", 0),
        endpoint=Endpoint.CHAT,
        prompt=TokensPrompt([1, 2]),
    )
    job = options(truncate_prompt_tokens=1, on_overlong="truncate")
    assert tokenize_params(row, job, 100, FACTS).truncate_prompt_tokens is None


@pytest.mark.parametrize("asked", [-1, -9_999_999_999])
def test_a_negative_output_budget_is_the_rows_error(asked: int) -> None:
    with pytest.raises(RowError, match="at least 1") as caught:
        resolve_max_tokens(
            request(max_tokens=asked),
            options(),
            max_model_len=10,
            truncated_to=None,
            num_tokens=3,
            generation_defaults={},
        )
    assert caught.value.code is ErrorCode.INVALID_BUDGET
