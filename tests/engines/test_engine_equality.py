"""Every real tokenizer: engines, ranges and offsets against the tokenizers library itself."""

import random
from collections.abc import Callable, Sequence

import numpy as np
import pytest
from tokenizers import Tokenizer

from promptmill.pipeline.engines.base import Engine, FlatTokens
from promptmill.pipeline.engines.load import load_engine
from promptmill.pipeline.engines.plain import PlainRanges
from promptmill.schemas.bundle import ModelBundle
from promptmill.schemas.options import EngineName

FAST = {
    "deepseek_recipe_v41": EngineName.FASTOKENS,
    "gemma3": EngineName.GIGATOKEN,
    "llama2": EngineName.GIGATOKEN,
    "qwen3": EngineName.FASTOKENS,
}
"""Model folder -> the engine that is the fastest for it."""

MORE = {
    "deepseek_v3": EngineName.FASTOKENS,
    "gptoss": EngineName.FASTOKENS,
    "internvl_hf": EngineName.FASTOKENS,
    "llama3_1": EngineName.FASTOKENS,
    "llava15": EngineName.GIGATOKEN,
    "qwen2_5_vl": EngineName.FASTOKENS,
}
"""The same, for the other kinds; several seconds each."""

Adversarial = Callable[[Sequence[str]], list[str]]


@pytest.fixture(
    scope="session",
    params=[*FAST, *(pytest.param(name, marks=pytest.mark.soak) for name in MORE)],
)
def model(request: pytest.FixtureRequest) -> str:
    name: str = request.param
    return name


@pytest.fixture(scope="session")
def bundle(model: str, folder_bundle: Callable[[str], ModelBundle]) -> ModelBundle:
    return folder_bundle(model)


@pytest.fixture(scope="session")
def engine(bundle: ModelBundle) -> Engine:
    pytest.importorskip("fastokens")
    pytest.importorskip("gigatoken")
    return load_engine(bundle)


@pytest.fixture(scope="session")
def ranges(bundle: ModelBundle) -> PlainRanges:
    return PlainRanges(bundle)


@pytest.fixture(scope="session")
def reference(bundle: ModelBundle) -> Tokenizer:
    assert bundle.backend is not None
    return Tokenizer.from_str(bundle.backend)


@pytest.fixture(scope="session")
def texts(reference: Tokenizer, adversarial: Adversarial) -> list[str]:
    added = reference.get_added_tokens_decoder().values()
    return adversarial([token.content for token in added])


def expect_rows(
    tokens: FlatTokens, wanted: Sequence[tuple[list[int], list[tuple[int, int]]]]
) -> None:
    for row, (ids, spans) in enumerate(wanted):
        got_ids, got_spans = tokens.row(row)
        assert got_ids.tolist() == ids
        assert got_spans is not None
        assert got_spans.reshape(-1, 2).tolist() == [list(span) for span in spans]


def test_equals_the_library(
    engine: Engine, model: str, reference: Tokenizer, texts: list[str]
) -> None:
    assert (engine.name, engine.fallback_reason) == ((FAST | MORE)[model], None)
    encodings = reference.encode_batch(texts, add_special_tokens=False)
    tokens = engine.encode(texts, offsets=True)
    expect_rows(tokens, [(one.ids, one.offsets) for one in encodings])
    bare = engine.encode(texts, offsets=False)
    assert bare.offsets is None
    assert np.array_equal(bare.ids, tokens.ids)
    assert np.array_equal(bare.splits, tokens.splits)


def test_batches_do_not_matter(engine: Engine, texts: list[str]) -> None:
    whole = engine.encode(texts, offsets=True)
    order = random.Random(3).sample(range(len(texts)), 200)
    for start in range(0, len(order), 7):
        rows = order[start : start + 7]
        part = engine.encode([texts[row] for row in rows], offsets=True)
        for index, row in enumerate(rows):
            for got, wanted in zip(part.row(index), whole.row(row), strict=True):
                assert got is not None
                assert wanted is not None
                assert np.array_equal(got, wanted)


def test_given_ranges_equal_found_ones(
    ranges: PlainRanges, reference: Tokenizer, texts: list[str]
) -> None:
    added = {token.content: id for id, token in reference.get_added_tokens_decoder().items()}
    chosen = texts[::3]
    encodings = reference.encode_batch(chosen, add_special_tokens=False)
    found = [
        [
            (start, stop)
            for id, (start, stop) in zip(one.ids, one.offsets, strict=True)
            if added.get(text[start:stop]) == id
        ]
        for text, one in zip(chosen, encodings, strict=True)
    ]
    tokens = ranges.encode_batch(chosen, found, offsets=True)
    expect_rows(tokens, [(one.ids, one.offsets) for one in encodings])


def test_typed_control_tokens_stay_text(ranges: PlainRanges, reference: Tokenizer) -> None:
    special = [t.content for t in reference.get_added_tokens_decoder().values() if t.special][:20]
    for spelling in special:
        text = f"{spelling}typed {spelling} here"
        tokens = ranges.encode(text, [(0, len(spelling))])
        assert reference.id_to_token(int(tokens.ids[0])) == spelling
        assert spelling not in {reference.id_to_token(int(id)) for id in tokens.ids[1:]}
        decoded = reference.decode(tokens.ids.tolist(), skip_special_tokens=False)
        assert decoded.replace(" ", "") == text.replace(" ", "")
