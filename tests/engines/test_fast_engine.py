"""When a fast engine is used, when it is not, and what happens when it is wrong."""

import pickle
import sys
import tracemalloc
from collections.abc import Callable, Sequence

import numpy as np
import pytest
from tokenizers import AddedToken, Tokenizer, models, normalizers, pre_tokenizers, processors

from promptmill.pipeline.engines import natives
from promptmill.pipeline.engines.base import EngineMismatch, FlatTokens
from promptmill.pipeline.engines.checked import CheckedEngine, same_row
from promptmill.pipeline.engines.fast import FastEngine
from promptmill.pipeline.engines.load import load_engine
from promptmill.pipeline.engines.natives import Fastokens
from promptmill.pipeline.engines.offsets import OffsetTables
from promptmill.pipeline.engines.pool import Pool, tokenizer_pool
from promptmill.pipeline.engines.reference import ReferenceEngine
from promptmill.pipeline.engines.spec import parse
from promptmill.pipeline.engines.traits import NotProven, proven_traits
from promptmill.schemas.bundle import ModelBundle
from promptmill.schemas.options import EngineName, SegmentCache

pytest.importorskip("fastokens")
pytest.importorskip("gigatoken")

MakeBundle = Callable[..., ModelBundle]
MakeTokenizer = Callable[..., Tokenizer]
BYTE_LEVEL = pre_tokenizers.ByteLevel(add_prefix_space=False)


def byte_level_variants(make: MakeTokenizer) -> dict[str, Tokenizer]:
    """Tokenizers that no fast engine was proven for."""
    variants = {
        "lstrip": make(AddedToken("[M]", lstrip=True)),
        "rstrip": make(AddedToken("[M]", rstrip=True)),
        "single_word": make(AddedToken("word", single_word=True)),
        "normalized": make(AddedToken("É[M]", normalized=True), normalizer=normalizers.NFC()),
        "nfkc": make(normalizer=normalizers.NFKC()),
        "lowercase": make(normalizer=normalizers.Lowercase()),
        "strip": make(normalizer=normalizers.Strip()),
        "trim_offsets": make(),
        "prefix_space": make(),
        "whitespace": make(),
        "removing_split": make(),
        "dropout": make(),
    }
    variants["trim_offsets"].post_processor = processors.ByteLevel(trim_offsets=True)
    variants["prefix_space"].pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=True)
    variants["whitespace"].pre_tokenizer = pre_tokenizers.Sequence(
        [pre_tokenizers.Whitespace(), BYTE_LEVEL]
    )
    variants["removing_split"].pre_tokenizer = pre_tokenizers.Sequence(
        [pre_tokenizers.Split(" ", "removed"), BYTE_LEVEL]
    )
    variants["dropout"].model.dropout = 0.1
    return variants


def other_models() -> dict[str, Tokenizer]:
    vocab = {"[UNK]": 0, "a": 1, "##b": 2, "ab": 3}
    unigram = Tokenizer(models.Unigram([("<unk>", 0.0), ("▁", -1.0), ("a", -2.0)], unk_id=0))
    return {
        "wordpiece": Tokenizer(models.WordPiece(vocab, unk_token="[UNK]")),
        "wordlevel": Tokenizer(models.WordLevel(vocab, unk_token="[UNK]")),
        "unigram": unigram,
        "incomplete": Tokenizer(models.BPE({"a": 0, "b": 1}, [])),
    }


def test_what_is_not_proven_uses_the_reference(
    make_bundle: MakeBundle, byte_level: MakeTokenizer
) -> None:
    for name, tokenizer in (byte_level_variants(byte_level) | other_models()).items():
        engine = load_engine(make_bundle(tokenizer))
        assert engine.name is EngineName.TOKENIZERS, name
        assert engine.fallback_reason is not None, name
        assert "slower" in engine.fallback_reason
        if name == "dropout":
            continue
        text = " a[M] b word words É[M] E\u0301[M] Ab ab  "
        wanted = tokenizer.encode(text, add_special_tokens=False)
        tokens = engine.encode([text], offsets=True)
        assert tokens.ids.tolist() == wanted.ids, name
        assert tokens.offsets is not None
        assert list(map(tuple, tokens.offsets.tolist())) == wanted.offsets, name


@pytest.mark.parametrize("normalizer", [None, normalizers.NFC()])
@pytest.mark.parametrize("choice", [EngineName.AUTO, EngineName.FASTOKENS, EngineName.GIGATOKEN])
def test_byte_level_tokenizers_are_proven(
    make_bundle: MakeBundle, byte_level: MakeTokenizer, normalizer: object, choice: EngineName
) -> None:
    engine = load_engine(make_bundle(byte_level(normalizer=normalizer)), choice)
    assert engine.fallback_reason is None
    assert engine.name is (EngineName.FASTOKENS if choice is EngineName.AUTO else choice)


@pytest.mark.parametrize("split", [True, False])
@pytest.mark.parametrize("scheme", ["always", "first", "never"])
def test_metaspace_tokenizers_are_proven(
    make_bundle: MakeBundle, byte_fallback: MakeTokenizer, scheme: str, split: bool
) -> None:
    pre_tokenizer = pre_tokenizers.Metaspace(prepend_scheme=scheme, split=split)
    engine = load_engine(make_bundle(byte_fallback(pre_tokenizer=pre_tokenizer)))
    assert (engine.name, engine.fallback_reason) == (EngineName.GIGATOKEN, None)


@pytest.mark.parametrize("prepend", [True, False])
def test_sentencepiece_like_tokenizers_are_proven(
    make_bundle: MakeBundle, byte_fallback: MakeTokenizer, prepend: bool
) -> None:
    engine = load_engine(make_bundle(byte_fallback(prepend=prepend)))
    assert (engine.name, engine.fallback_reason) == (EngineName.GIGATOKEN, None)


def test_a_missing_package_is_said_with_the_way_out(
    make_bundle: MakeBundle, byte_level: MakeTokenizer, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "fastokens", None)
    engine = load_engine(make_bundle(byte_level()))
    assert engine.name is EngineName.TOKENIZERS
    assert engine.fallback_reason is not None
    assert "promptmill[fast]" in engine.fallback_reason


def test_the_reference_on_request_has_nothing_to_say(
    make_bundle: MakeBundle, byte_level: MakeTokenizer
) -> None:
    engine = load_engine(make_bundle(byte_level()), EngineName.TOKENIZERS)
    assert (engine.name, engine.fallback_reason) == (EngineName.TOKENIZERS, None)


class Wrong:
    """fastokens, but wrong about every text with this word in it."""

    WORD = "wrongly"

    def __init__(self, backend: str, segment_cache: SegmentCache = SegmentCache.OFF) -> None:
        self._native = Fastokens(backend)

    def encode(self, texts: Sequence[str]) -> FlatTokens:
        return self._native.encode([text.replace(self.WORD, "rightly") for text in texts])

    def cache_use(self) -> natives.CacheUse:
        return self._native.cache_use()


class Refusing:
    """fastokens, but it refuses every text with an exclamation mark."""

    def __init__(self, backend: str) -> None:
        self._native = Fastokens(backend)

    def encode(self, texts: Sequence[str]) -> FlatTokens:
        if any("!" in text for text in texts):
            raise ValueError("backtracking limit")
        return self._native.encode(texts)

    def cache_use(self) -> natives.CacheUse:
        return self._native.cache_use()


def engine_with(native: Callable[[str], natives.Native], tokenizer: Tokenizer) -> FastEngine:
    backend = tokenizer.to_str()
    spec = parse(backend)
    return FastEngine(
        EngineName.FASTOKENS,
        Pool(lambda: native(backend)),
        OffsetTables(spec, proven_traits(spec)),
        ReferenceEngine(tokenizer_pool(backend)),
    )


def test_a_difference_in_the_first_rows_means_the_reference(
    make_bundle: MakeBundle, byte_level: MakeTokenizer, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(natives, "NATIVES", {EngineName.FASTOKENS: Wrong})
    bundle = make_bundle(byte_level())
    assert load_engine(bundle).name is EngineName.FASTOKENS
    engine = load_engine(bundle, probe_texts=["fine", "spelled wrongly", "lone \ud800"])
    assert engine.name is EngineName.TOKENIZERS
    assert engine.fallback_reason is not None
    assert "differs" in engine.fallback_reason


def test_a_sampled_row_that_differs_stops_the_engine(byte_level: MakeTokenizer) -> None:
    tokenizer = byte_level()
    reference = ReferenceEngine(tokenizer_pool(tokenizer.to_str()))
    engine = CheckedEngine(engine_with(Wrong, tokenizer), reference, every=5, first=0)
    rows = [f"row {i} is right" for i in range(300)]
    engine.encode(rows, offsets=True)
    assert 30 <= engine.counts.rows_checked <= 100
    with pytest.raises(EngineMismatch, match="fastokens") as caught:
        engine.encode([f"row {i} is wrongly done" for i in range(300)], offsets=False)
    copy = pickle.loads(pickle.dumps(caught.value))
    assert isinstance(copy, EngineMismatch)
    assert copy.fast is EngineName.FASTOKENS
    assert str(copy) == str(caught.value)


def test_the_first_rows_are_compared(byte_level: MakeTokenizer) -> None:
    tokenizer = byte_level()
    reference = ReferenceEngine(tokenizer_pool(tokenizer.to_str()))
    engine = CheckedEngine(engine_with(Wrong, tokenizer), reference, every=10**9, first=5)
    engine.encode(["one", "two", "three"], offsets=True)
    assert engine.counts.rows_checked == 3
    with pytest.raises(EngineMismatch):
        engine.encode(["four", "five wrongly"], offsets=True)
    engine.encode(["six wrongly"], offsets=True)
    assert engine.counts.rows_checked == 3


def test_sampling_depends_on_the_text_alone(byte_level: MakeTokenizer) -> None:
    tokenizer = byte_level()
    rows = [f"row {i} {'x' * i}" for i in range(200)]

    def checked(batches: list[list[str]]) -> int:
        reference = ReferenceEngine(tokenizer_pool(tokenizer.to_str()))
        engine = CheckedEngine(engine_with(Fastokens, tokenizer), reference, every=7, first=0)
        for batch in batches:
            engine.encode(batch, offsets=False)
        return engine.counts.rows_checked

    assert checked([rows]) == checked([rows[i : i + 3] for i in range(0, 200, 3)]) > 0
    assert checked([rows, rows[::-1]]) == checked([rows])


def test_a_text_that_the_native_tokenizer_refuses_is_redone(byte_level: MakeTokenizer) -> None:
    tokenizer = byte_level()
    engine = engine_with(Refusing, tokenizer)
    texts = ["one", "two!", "three <|a|>!"]
    tokens = engine.encode(texts, offsets=True)
    for row, text in enumerate(texts):
        assert tokens.row(row)[0].tolist() == tokenizer.encode(text).ids
    assert engine.counts.rows_redone == 2


def test_rows_that_normalization_changes_are_redone(
    make_bundle: MakeBundle, byte_level: MakeTokenizer
) -> None:
    engine = load_engine(make_bundle(byte_level(normalizer=normalizers.NFC())))
    assert engine.counts.rows_redone == 0
    engine.encode(["plain", "é", "e\u0301", "Å\u2126"], offsets=True)
    assert engine.counts.rows_redone == 2


def test_no_object_per_token(make_bundle: MakeBundle, byte_level: MakeTokenizer) -> None:
    engine = load_engine(make_bundle(byte_level()))
    texts = [f"{i} <|a|> some words of a longer row, ünïcode included" * 50 for i in range(100)]
    engine.encode(texts, offsets=True)
    tracemalloc.start()
    before = sys.getallocatedblocks()
    tokens = engine.encode(texts, offsets=True)
    kept = sys.getallocatedblocks() - before
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert len(tokens.ids) > 100_000
    assert kept < 1000
    # 12 bytes a token are the result; a list of ints alone would take 40 more.
    assert peak < 40 * len(tokens.ids)


def test_not_proven_names_the_feature(byte_level: MakeTokenizer) -> None:
    with pytest.raises(NotProven, match=r"\[M\]"):
        proven_traits(parse(byte_level(AddedToken("[M]", lstrip=True)).to_str()))


def test_results_are_arrays_of_the_agreed_types(
    make_bundle: MakeBundle, byte_level: MakeTokenizer, byte_fallback: MakeTokenizer
) -> None:
    for tokenizer in (byte_level(), byte_fallback()):
        engine = load_engine(make_bundle(tokenizer))
        for texts in ([], [""], ["", "a", ""]):
            tokens = engine.encode(texts, offsets=True)
            assert (tokens.ids.dtype, tokens.splits.dtype) == (np.int32, np.int64)
            assert tokens.offsets is not None
            assert tokens.offsets.dtype == np.int32
            assert tokens.offsets.shape == (len(tokens.ids), 2)
            assert len(tokens) == len(texts)


SHARED = "<|a|>A system prompt that every row of a session has." * 20


@pytest.mark.parametrize("segment_cache", SegmentCache)
def test_a_segment_cache_changes_no_id_and_is_counted(
    segment_cache: SegmentCache, byte_level: MakeTokenizer, make_bundle: MakeBundle
) -> None:
    bundle, texts = make_bundle(byte_level()), [f"{SHARED}<|a|>turn {n}" for n in range(30)]
    engine = load_engine(bundle, EngineName.FASTOKENS, segment_cache=segment_cache)
    assert engine.fallback_reason is None
    reference = load_engine(bundle, EngineName.TOKENIZERS)
    for offsets in (True, False):
        ours, wanted = (e.encode(texts, offsets=offsets) for e in (engine, reference))
        assert all(same_row(ours, row, wanted, row) for row in range(len(texts)))
    counts = engine.counts
    assert (counts.cache_asked > 0) == (segment_cache is not SegmentCache.OFF)
    assert counts.cache_hit >= 0.8 * counts.cache_asked


def test_a_segment_cache_that_does_not_pay_is_given_up(
    monkeypatch: pytest.MonkeyPatch, byte_level: MakeTokenizer
) -> None:
    monkeypatch.setattr(natives, "TRIAL_BYTES", 1000)
    backend = byte_level().to_str()
    for repeats, stays in ((True, True), (False, False)):
        native = Fastokens(backend, SegmentCache.AUTO)
        for n in range(40):
            native.encode([f"<|a|>{'same' if repeats else n} text of a row, long enough to keep"])
            native.cache_use()
        native.encode(["<|a|>once more"])
        assert (native.cache_use().asked > 0) == stays
