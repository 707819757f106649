"""Text is given out in whole characters, and an unfinished one is known as such."""

from collections.abc import Sequence

import pytest
from hypothesis import given
from hypothesis import strategies as st

from promptmill.pipeline.decode.characters import REPLACEMENT, TextStream, pending_bytes, whole_text

TEXTS = st.text(alphabet=st.sampled_from("aé日🦀\u0301 \ufffd"), max_size=8)


def decode(ids: Sequence[int]) -> str:
    """As byte-level tokenizers do it: an id is a byte here."""
    return bytes(ids).decode("utf-8", errors="replace")


@given(text=TEXTS)
def test_streamed_text_is_the_whole_text(text: str) -> None:
    stream, ids = TextStream(decode), text.encode()
    pieces = [stream.push(i) for i in ids]
    assert "".join(pieces) + stream.finish() == text
    for number, piece in enumerate(pieces):
        assert text.startswith("".join(pieces[: number + 1]))
        assert not piece.endswith(REPLACEMENT)


@given(text=TEXTS, cut=st.integers(0, 3), groups=st.lists(st.integers(1, 4), min_size=40))
def test_an_unfinished_character_is_dropped(text: str, cut: int, groups: list[int]) -> None:
    data = text.encode()
    data = data[: len(data) - cut]
    pieces, rest = [], data
    for size in groups:
        if rest:
            pieces.append(rest[:size])
            rest = rest[size:]

    def decode_pieces(numbers: Sequence[int]) -> str:
        return b"".join(pieces[n] for n in numbers).decode("utf-8", errors="replace")

    found, dropped = whole_text(decode_pieces, range(len(pieces)), pieces)
    assert found == data.decode("utf-8", errors="ignore")
    assert dropped == (found.encode() != data)


@pytest.mark.parametrize(
    ("data", "count"),
    [
        (b"", 0),
        (b"a", 0),
        ("é".encode(), 0),
        (b"\xc3", 1),
        (b"a\xe6\x97", 2),
        (b"\xf0\x9f\xa6", 3),
        ("🦀".encode(), 0),
        ("\ufffd".encode(), 0),
        (b"\x80\x80", 0),
    ],
)
def test_pending_bytes(data: bytes, count: int) -> None:
    assert pending_bytes(data) == count
