"""Whole answers are cut as the stored prompt was, and nothing else is forgiven."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from promptmill.pipeline.verify.causes import Cause, likely_cause
from promptmill.pipeline.verify.compare import Answer, Mismatch, Stored, compare
from promptmill.pipeline.write.readback import StoredSpan
from promptmill.schemas.errors import ErrorCode
from promptmill.workers.verify.rejects import why_not_asked

ids = st.lists(st.integers(10, 30), min_size=1, max_size=20)
added = st.lists(st.integers(0, 9), max_size=2)


@given(head=added, body=ids, tail=added, data=st.data())
def test_a_tokenizer_cuts_between_the_special_ids_it_adds(
    head: list[int], body: list[int], tail: list[int], data: st.DataObject
) -> None:
    left = data.draw(st.integers(0, len(body)))
    right = 0 if left else data.draw(st.integers(0, len(body)))
    kept = head + body[left : len(body) - right] + tail
    stored = Stored(ids=kept, truncated_left=left, truncated_right=right)
    assert compare(stored, Answer(ids=head + body + tail, whole=True)) is None
    wrong = data.draw(st.integers(0, len(kept))) if kept else 0
    other = Stored(
        ids=[*kept[:wrong], 99, *kept[wrong:]], truncated_left=left, truncated_right=right
    )
    assert compare(other, Answer(ids=head + body + tail, whole=True)) is not None


@given(ids, ids)
def test_the_first_difference_is_where_it_is_said_to_be(ours: list[int], theirs: list[int]) -> None:
    found = compare(Stored(ids=ours), Answer(ids=theirs))
    if ours == theirs:
        assert found is None
        return
    assert found is not None
    assert ours[: found.index] == theirs[: found.index]
    assert ours[found.index : found.index + 1] != theirs[found.index : found.index + 1]


def test_offsets_that_differ_alone() -> None:
    pairs = [(0, 1), (1, 2)]
    answer = Answer(ids=[1, 2], offsets=pairs)
    assert compare(Stored(ids=[1, 2], offsets=pairs), answer) is None
    found = compare(Stored(ids=[1, 2], offsets=[(0, 1), (1, 3)]), answer)
    assert found == Mismatch(1, answer, only_offsets=True)


def cause(stored: Stored, theirs: list[int]) -> Cause:
    found = compare(stored, Answer(ids=theirs))
    assert found is not None
    return likely_cause(stored, found, bos=1, decode=lambda ids: " ".join(f"w{i}" for i in ids))


def test_causes_of_ids() -> None:
    body = [*range(20, 50)]
    picture = StoredSpan(modality="image", offset=1, length=3, hash="")
    expanded = [20, 7, 7, 7, 21]
    with_picture = Stored(ids=expanded, spans=(picture,), collapsed=[20, 7, 21])
    assert cause(Stored(ids=body), [1, *body]) is Cause.BOS
    assert cause(Stored(ids=[1, *body]), body) is Cause.BOS
    assert cause(with_picture, [20, 7, 21]) is Cause.MEDIA_NOT_EXPANDED
    assert cause(with_picture, [20, 7, 7, 21]) is Cause.MEDIA_SIZE
    assert cause(Stored(ids=body), body[5:]) is Cause.TRUNCATION
    assert cause(Stored(ids=body), body[:10]) is Cause.TRUNCATION
    assert cause(Stored(ids=body[10:], truncated_left=10), body[:20]) is Cause.TRUNCATION
    assert cause(Stored(ids=body), body[:-3]) is Cause.GENERATION_PROMPT
    assert cause(Stored(ids=body), [*body[:5], 99, *body[5:]]) is Cause.TEMPLATE
    assert cause(Stored(ids=body), [*range(60, 90)]) is Cause.TOKENIZER


def test_rejects_that_no_server_would_refuse_are_not_asked() -> None:
    assert why_not_asked(ErrorCode.PROMPT_TOO_LONG, 129, 128) is None
    assert why_not_asked(ErrorCode.INVALID_REQUEST, None, 128) is None
    for code, value in (
        (ErrorCode.PROMPT_TOO_LONG, 128),  # fits, and leaves no room for output
        (ErrorCode.TOKEN_OUT_OF_VOCABULARY, 99999),
        (ErrorCode.INVALID_JSON, None),
        (ErrorCode.DUPLICATE_ID, None),
    ):
        assert why_not_asked(code, value, 128) is not None
