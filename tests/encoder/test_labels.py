"""What a loss is taken on, from the chat down to the stored labels."""

from collections.abc import Callable

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from promptmill.pipeline.encoder import Encoder
from promptmill.pipeline.write.batches import BatchBuilder
from promptmill.schemas.columns import NO_LOSS
from promptmill.schemas.media import MediaSpan, Modality
from promptmill.schemas.options import ColumnNames, JobOptions
from promptmill.schemas.request import (
    NO_TURN,
    EncodedBatch,
    Endpoint,
    Ids,
    Place,
    Request,
    TextPrompt,
    TokenRow,
)

Make = Callable[..., Encoder]
Encode = Callable[..., EncodedBatch]

TALK = [
    {"role": "user", "content": "where is the cat"},
    {"role": "assistant", "content": "on the mat"},
]
REQUEST = Request(custom_id="", place=Place("", 0), endpoint=Endpoint.CHAT, prompt=TextPrompt(""))


def labels(row: TokenRow) -> Ids:
    """As they are stored."""
    options = JobOptions(input=("in",), output="out", model="m", columns=ColumnNames.HF)
    found: Ids = BatchBuilder(options).build([row]).column("labels").values.to_numpy()
    return found


@st.composite
def token_rows(draw: st.DrawFn) -> TokenRow:
    """Rows with a mask or none, media spans and padding."""
    size, pads = draw(st.integers(0, 12)), draw(st.integers(0, 3))
    mask = draw(st.none() | st.lists(st.integers(0, 1), min_size=size, max_size=size))
    cuts = sorted(draw(st.sets(st.integers(0, size), max_size=4)))
    pairs = list(zip(cuts[::2], cuts[1::2], strict=False))
    return TokenRow(
        request=REQUEST,
        text=None,
        ids=np.arange(size + pads, dtype=np.int32),
        mask=None if mask is None else np.array(mask, np.int8),
        offsets=np.zeros((size, 2), np.int32),
        spans=tuple(
            MediaSpan(Modality.IMAGE, start, stop - start, n, "")
            for n, (start, stop) in enumerate(pairs)
        ),
    )


@settings(deadline=None)
@given(token_rows())
def test_labels_are_ids_in_their_places_or_nothing(row: TokenRow) -> None:
    found = labels(row)
    media = {n for s in row.spans for n in range(s.offset, s.offset + s.length)}
    assert len(found) == len(row.ids)
    for n, (label, token_id) in enumerate(zip(found.tolist(), row.ids.tolist(), strict=True)):
        padding = row.offsets is not None and n >= len(row.offsets)
        masked = not padding and row.mask is not None and not row.mask[n]
        assert label == (NO_LOSS if padding or masked or n in media else token_id)


def learned(encoder: Encoder, row: TokenRow) -> str:
    return encoder.tokenizer.decode([n for n in labels(row).tolist() if n != NO_LOSS])


def test_a_conversation_is_learned_where_the_assistant_wrote(
    tiny_encoder: Make, encode: Encode
) -> None:
    encoder = tiny_encoder("chatml", task="train")
    (row,) = encode(encoder, {"messages": TALK}).rows
    assert learned(encoder, row) == "on the mat<|im_end|>"


def test_without_a_mask_all_text_is_learned(tiny_encoder: Make, encode: Encode) -> None:
    encoder = tiny_encoder("chatml", with_offsets=False)
    (row,) = encode(encoder, {"messages": TALK}).rows
    assert learned(encoder, row) == row.text


def test_the_end_of_a_document_is_learned(tiny_encoder: Make, encode: Encode) -> None:
    options = {"task": "train", "text_column": "text", "append_eos": True}
    encoder = tiny_encoder("chatml", **options)
    (row,) = encode(encoder, {"text": "the cat"}).rows
    assert row.ids[-1] == encoder.bundle.facts.eos_token_id
    assert row.mask is not None
    assert labels(row)[-1] == row.ids[-1]
    assert row.mask.all()


@pytest.mark.parametrize("kept", range(1, 14))
def test_a_row_that_is_cut_before_its_answer_says_so(
    tiny_encoder: Make, encode: Encode, kept: int
) -> None:
    encoder = tiny_encoder("chatml", task="train", truncate_prompt_tokens=kept)
    (row,) = encode(encoder, {"messages": TALK, "truncation_side": "right"}).rows
    learns = bool((labels(row) != NO_LOSS).any())
    said = ["empty_mask: the mask is all zeros, what it marked was cut off"]
    assert list(row.warnings) == ([] if learns else said)


def test_a_row_without_a_turn_is_warned_about_once(tiny_encoder: Make, encode: Encode) -> None:
    encoder = tiny_encoder("chatml", task="train")
    silent, empty = encode(
        encoder,
        {"messages": TALK[:1]},
        {"messages": TALK[:1], "truncate_prompt_tokens": 3},
    ).rows
    assert list(silent.warnings) == list(empty.warnings) == [NO_TURN]
    (unmasked,) = encode(tiny_encoder("chatml"), {"messages": TALK[:1]}).rows
    assert unmasked.warnings == ()
