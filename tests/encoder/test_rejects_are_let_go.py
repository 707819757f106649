"""A reject that is written holds nothing: large rows that are all refused must not pile up."""

import gc
import json
import sys
from collections.abc import Callable

import pytest

from promptmill.pipeline.encoder import Encoder
from promptmill.schemas.request import RawRow

BAD = {
    "parse": {"messages": 1},
    "admit": {"messages": [{"role": "user", "content": "a"}], "max_tokens": 10**9},
    "render": {"messages": [{"role": "user", "content": "a"}], "chat_template": "{{ 1 }}"},
    "gate": {"prompt": "a" * 1_000_000},
    "fit": {"prompt": "a b " * 3000},
}


@pytest.mark.parametrize("bad", BAD.values(), ids=BAD)
def test_without_the_collector(bad: object, tiny_encoder: Callable[..., Encoder]) -> None:
    encoder = tiny_encoder("chatml", max_model_len=2048)
    row = RawRow("in.jsonl", 0, json.dumps(bad).encode())
    before = sys.getrefcount(row)
    gc.disable()
    try:
        done = encoder.encode([row])
        assert len(done.rejects) == 1
        del done
        assert sys.getrefcount(row) == before
    finally:
        gc.enable()
