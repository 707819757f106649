"""A cut row knows what the same cut on the other side would have kept."""

from collections.abc import Callable

import pytest

from promptmill.pipeline.encoder import Encoder
from promptmill.schemas.request import EncodedBatch

LONG = {"id": "a", "messages": [{"role": "user", "content": "one two three " * 9}]}


@pytest.mark.parametrize("side", [None, "left", "right"])
def test_the_other_side(
    tiny_encoder: Callable[..., Encoder], encode: Callable[..., EncodedBatch], side: str | None
) -> None:
    encoder = tiny_encoder("chatml", max_model_len=256)
    asked = {"truncate_prompt_tokens": 12} | ({"truncation_side": side} if side else {})
    whole, cut = encode(encoder, LONG, LONG | asked | {"id": "b"}).rows
    assert whole.other_side is None
    assert cut.other_side is not None
    ids, other = whole.ids.tolist(), cut.other_side.tolist()
    kept = {True: ids[-12:], False: ids[:12]}
    assert cut.ids.tolist() == kept[cut.truncated_left > 0]
    assert other == kept[cut.truncated_left == 0]


def test_special_ids_around_the_prompt_are_counted(
    tiny_encoder: Callable[..., Encoder], encode: Callable[..., EncodedBatch]
) -> None:
    row = {"id": "a", "prompt": "one two three four five six", "truncate_prompt_tokens": 4}
    encoder = tiny_encoder("bos", max_model_len=64)
    whole, cut = encode(encoder, {"id": "w", "prompt": row["prompt"]}, row).rows
    assert cut.other_side is not None
    assert cut.truncated_left
    assert cut.ids.tolist()[0] == whole.ids.tolist()[0]
    assert cut.other_side.tolist() == whole.ids.tolist()[:4]


def test_what_the_character_gate_cut_is_not_known(
    tiny_encoder: Callable[..., Encoder], encode: Callable[..., EncodedBatch]
) -> None:
    encoder = tiny_encoder("chatml", max_model_len=16)
    text = "one two three " * 900
    row = {"id": "a", "prompt": text, "max_tokens": 1} | {
        "truncate_prompt_tokens": 8,
        "truncation_side": "left",
    }
    (cut,) = encode(encoder, row).rows
    assert cut.truncated_left
    assert cut.other_side is None
