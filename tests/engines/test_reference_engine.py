import threading
from collections.abc import Callable
from dataclasses import replace

import numpy as np
import pytest
from tokenizers import Tokenizer

from promptmill.pipeline.engines.base import FlatTokens, concatenate, encode_each
from promptmill.pipeline.engines.load import load_engine
from promptmill.pipeline.engines.pool import Pool, tokenizer_pool
from promptmill.pipeline.engines.reference import ReferenceEngine
from promptmill.schemas.bundle import ModelBundle
from promptmill.schemas.errors import ErrorCode, JobError, RowError, Stage
from promptmill.schemas.options import EngineName

MakeBundle = Callable[..., ModelBundle]
MakeTokenizer = Callable[..., Tokenizer]
TEXTS = ["", "Hello <|a|> wörld 😀", " x", "<|b|><|b|>"]


@pytest.fixture
def engine(byte_level: MakeTokenizer) -> ReferenceEngine:
    return ReferenceEngine(tokenizer_pool(byte_level().to_str()))


def test_flat_arrays_hold_what_the_library_gives(
    engine: ReferenceEngine, byte_level: MakeTokenizer
) -> None:
    tokens = engine.encode(TEXTS, offsets=True)
    assert (tokens.ids.dtype, tokens.splits.dtype) == (np.int32, np.int64)
    assert len(tokens) == len(TEXTS)
    assert tokens.offsets is not None
    assert tokens.offsets.dtype == np.int32
    for row, text in enumerate(TEXTS):
        wanted = byte_level().encode(text, add_special_tokens=False)
        ids, spans = tokens.row(row)
        assert ids.tolist() == wanted.ids
        assert spans is not None
        assert list(map(tuple, spans.tolist())) == wanted.offsets


def test_offsets_only_where_wanted(engine: ReferenceEngine) -> None:
    assert engine.encode(TEXTS, offsets=False).offsets is None


def test_no_texts(engine: ReferenceEngine) -> None:
    tokens = engine.encode([], offsets=True)
    assert len(tokens) == 0
    assert tokens.offsets is not None
    assert tokens.offsets.shape == (0, 2)


def test_saved_truncation_and_padding_do_nothing(byte_level: MakeTokenizer) -> None:
    tokenizer = byte_level()
    tokenizer.enable_truncation(2)
    tokenizer.enable_padding(length=50)
    engine = ReferenceEngine(tokenizer_pool(tokenizer.to_str()))
    assert 2 < len(engine.encode(["several words of text"], offsets=False).ids) < 50


@pytest.mark.parametrize("name", [EngineName.TOKENIZERS, EngineName.FASTOKENS])
def test_a_lone_surrogate_loses_only_its_row(
    make_bundle: MakeBundle, byte_level: MakeTokenizer, name: EngineName
) -> None:
    engine = load_engine(make_bundle(byte_level()), name)
    with pytest.raises(RowError) as caught:
        engine.encode(["fine", "bad \ud800"], offsets=True)
    assert (caught.value.code, caught.value.stage) == (ErrorCode.LONE_SURROGATE, Stage.TOKENIZE)
    tokens, errors = encode_each(engine, ["fine", "bad \ud800", "good"], offsets=True)
    assert list(errors) == [1]
    assert errors[1].code is ErrorCode.LONE_SURROGATE
    assert np.diff(tokens.splits).tolist()[1] == 0
    assert tokens.row(0)[0].tolist() == engine.encode(["fine"], offsets=True).ids.tolist()
    assert tokens.row(2)[0].tolist() == engine.encode(["good"], offsets=True).ids.tolist()


def test_a_failing_tokenizer_is_a_row_error_without_content() -> None:
    class Failing:
        def encode_batch_fast(self, texts: list[str], add_special_tokens: bool) -> None:
            raise ValueError(f"cannot take {texts}")

    engine = ReferenceEngine(Pool(Failing))  # type: ignore[arg-type]  # a real one cannot be broken
    with pytest.raises(RowError, match="ValueError") as caught:
        engine.encode(["secret"], offsets=False)
    assert caught.value.code is ErrorCode.TOKENIZER_ERROR
    assert "secret" not in str(caught.value)


def test_concatenating_keeps_rows() -> None:
    def batch(*rows: list[int]) -> FlatTokens:
        flat = [id for row in rows for id in row]
        splits = np.cumsum([0, *map(len, rows)])
        ids = np.asarray(flat, np.int32)
        return FlatTokens(ids, splits, np.stack([ids, ids + 1], axis=1))

    whole = concatenate([batch([1, 2], []), batch(), batch([3])])
    assert [whole.row(i)[0].tolist() for i in range(3)] == [[1, 2], [], [3]]
    assert whole.offsets is not None
    assert whole.offsets.tolist() == [[1, 2], [2, 3], [3, 4]]
    assert concatenate([]).ids.dtype == np.int32


def test_a_pool_lends_each_thread_its_own_copy_and_grows() -> None:
    pool = Pool(object)
    with pool.borrow() as one, pool.borrow() as two:
        assert one is not two
    assert len(pool) == 2
    with pool.borrow() as again:
        assert again in (one, two)
    assert len(pool) == 2


def test_threads_share_an_engine(engine: ReferenceEngine) -> None:
    texts = [f"row {i} <|a|> {'x' * i}" for i in range(60)]
    wanted = [engine.encode([text], offsets=True).ids.tolist() for text in texts]
    found: list[list[int] | None] = [None] * len(texts)

    def work(start: int) -> None:
        for row in range(start, len(texts), 4):
            found[row] = engine.encode([texts[row]], offsets=True).ids.tolist()

    threads = [threading.Thread(target=work, args=(start,)) for start in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert found == wanted


def test_a_tokenizer_that_is_no_backend_is_refused(make_bundle: MakeBundle) -> None:
    bundle = replace(make_bundle(""), backend=None, tokenizer_mode="mistral")
    with pytest.raises(JobError, match="mistral"):
        load_engine(bundle, EngineName.TOKENIZERS)
