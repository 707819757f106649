"""Rows read back become what vLLM takes: collapsed ids with the media, or expanded ids alone."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from promptmill.pipeline.write.parts import PartWriter
from promptmill.pipeline.write.readback import (
    StoredSpan,
    collapse,
    generate_request,
    media_overlap,
    tokens_prompt,
)
from promptmill.schemas.json_types import JsonObject
from promptmill.schemas.media import MediaSpan, Modality
from promptmill.schemas.options import JobOptions
from promptmill.schemas.request import TokenRow

PLACEHOLDERS = {"image": [7], "video": [8, 9], "audio": []}


def span(modality: str, offset: int, length: int) -> StoredSpan:
    return {"modality": modality, "offset": offset, "length": length, "hash": f"h{offset}"}


@pytest.fixture
def stored(
    tmp_path: Path, make_options: Callable[..., JobOptions], make_row: Callable[..., TokenRow]
) -> Callable[..., dict[str, Any]]:
    """`stored(dialect, **fields)`: a row, written and read back."""

    def write_and_read(dialect: str = "vllm", **fields: Any) -> dict[str, Any]:
        path = tmp_path / "part"
        options = make_options(columns=dialect, with_text=True)
        with PartWriter(path, options=options, metadata={}) as part:
            part.write([make_row(0, 6, **fields)])
        row: dict[str, Any] = pq.read_table(path).to_pylist()[0]
        return row

    return write_and_read


@settings(deadline=None)
@given(
    st.lists(
        st.tuples(
            st.lists(st.integers(10, 99), max_size=4),
            st.sampled_from(list(PLACEHOLDERS)),
            st.integers(1, 5),
        )
    ),
    st.lists(st.integers(10, 99), max_size=4),
    st.randoms(),
)
def test_collapse_undoes_expansion(
    pieces: list[tuple[list[int], str, int]], end: list[int], order: Any
) -> None:
    template: list[int] = []
    expanded: list[int] = []
    spans = []
    for text, modality, length in pieces:
        template += [*text, *PLACEHOLDERS[modality]]
        expanded += text
        spans.append(span(modality, len(expanded), length))
        expanded += [1] * length
    order.shuffle(spans)
    assert collapse([*expanded, *end], spans, PLACEHOLDERS) == [*template, *end]


def test_neighbours_may_share_an_id() -> None:
    spans = [span("image", 1, 4), span("image", 4, 3)]
    assert collapse([10, 1, 1, 1, 2, 1, 1, 11], spans, PLACEHOLDERS) == [10, 7, 7, 11]


def test_collapse_needs_the_placeholder() -> None:
    with pytest.raises(ValueError, match="modality image"):
        collapse([1, 1], [span("image", 0, 2)], {"video": [1]})


@pytest.mark.parametrize("dialect", ["vllm", "hf"])
def test_tokens_prompt(stored: Callable[..., dict[str, Any]], dialect: str) -> None:
    row = stored(dialect)
    ids = [100_000, 7, 100_003, 100_004, 100_005]
    assert tokens_prompt(row, PLACEHOLDERS) == {"prompt_token_ids": ids, "prompt": "é" * 6}
    with pytest.raises(ValueError, match="modality image"):
        tokens_prompt(row)


def test_tokens_prompt_of_text(stored: Callable[..., dict[str, Any]]) -> None:
    row = stored(spans=(), text=None, passthrough={"cache_salt": "s"})
    assert tokens_prompt(row) == {
        "prompt_token_ids": list(range(100_000, 100_006)),
        "cache_salt": "s",
    }


@pytest.mark.parametrize("dialect", ["vllm", "hf"])
def test_generate_request(stored: Callable[..., dict[str, Any]], dialect: str) -> None:
    spans = (
        MediaSpan(Modality.IMAGE, 0, 2, 0, "one"),
        MediaSpan(Modality.VIDEO, 2, 1, 0, "two"),
        MediaSpan(Modality.IMAGE, 4, 2, 1, "three"),
    )
    asked = {"model": "m", "temperature": 0.5, "top_k": None, "user": "u", "priority": 2}
    assert generate_request(stored(dialect, spans=spans, passthrough=asked)) == {
        "request_id": "row-0",
        "model": "m",
        "priority": 2,
        "token_ids": list(range(100_000, 100_006)),
        "sampling_params": {"temperature": 0.5, "max_tokens": 16},
        "features": {
            "mm_hashes": {"image": ["one", "three"], "video": ["two"]},
            "mm_placeholders": {
                "image": [{"offset": 0, "length": 2}, {"offset": 4, "length": 2}],
                "video": [{"offset": 2, "length": 1}],
            },
        },
    }


SCHEMA: JsonObject = {"type": "object"}


@pytest.mark.parametrize(
    ("asked", "params"),
    [
        ({"logprobs": True, "top_logprobs": 3}, {"logprobs": 3}),
        ({"logprobs": True}, {"logprobs": 0}),
        ({"logprobs": True, "logprob_token_ids": [1]}, {"logprob_token_ids": [1]}),
        ({"logprobs": False}, {}),
        ({"logprobs": 0}, {"logprobs": 0}),
        ({"logprobs": 5}, {"logprobs": 5}),
        ({"structured_outputs": {"regex": "a"}}, {"structured_outputs": {"regex": "a"}}),
        (
            {"response_format": {"type": "json_object"}},
            {"structured_outputs": {"json_object": True}},
        ),
        (
            {
                "response_format": {
                    "type": "json_schema",
                    "json_schema": {"name": "n", "schema": SCHEMA},
                },
                "structured_outputs": {"disable_any_whitespace": True},
            },
            {"structured_outputs": {"disable_any_whitespace": True, "json": SCHEMA}},
        ),
        (
            {"response_format": {"type": "structural_tag", "format": {}}},
            {"structured_outputs": {"structural_tag": '{"type": "structural_tag", "format": {}}'}},
        ),
        ({"response_format": {"type": "text"}}, {}),
        ({"vllm_xargs": {"a": 1}}, {"extra_args": {"a": 1}}),
    ],
)
def test_sampling_params(
    stored: Callable[..., dict[str, Any]], asked: JsonObject, params: JsonObject
) -> None:
    body = generate_request(stored(passthrough=asked, spans=(), max_tokens=None))
    assert body["sampling_params"] == params
    assert "features" not in body


def test_transfer_parameters_go_where_the_server_puts_them(
    stored: Callable[..., dict[str, Any]],
) -> None:
    body = generate_request(stored(passthrough={"kv_transfer_params": {"a": 1}}, spans=()))
    assert body["kv_transfer_params"] == {"a": 1}
    assert body["sampling_params"] == {
        "max_tokens": 16,
        "extra_args": {"kv_transfer_params": {"a": 1}},
    }


@pytest.mark.parametrize(
    ("places", "share"),
    [([], False), ([(0, 3), (3, 2)], False), ([(4, 3), (1, 4)], True)],
)
def test_media_that_share_an_id_are_seen(places: list[tuple[int, int]], share: bool) -> None:
    assert media_overlap([span("image", *place) for place in places]) is share


def test_beam_search_is_refused(stored: Callable[..., dict[str, Any]]) -> None:
    with pytest.raises(ValueError, match="beam search"):
        generate_request(stored(passthrough={"use_beam_search": True}))
