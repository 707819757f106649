"""Offsets from ids alone, against the tokenizers library's own."""

import unicodedata
from collections.abc import Callable

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tokenizers import Tokenizer, normalizers, pre_tokenizers

from promptmill.pipeline.engines.base import FlatTokens
from promptmill.pipeline.engines.offsets import OffsetTables
from promptmill.pipeline.engines.reference import flatten
from promptmill.pipeline.engines.spec import parse
from promptmill.pipeline.engines.traits import Family, byte_alphabet, proven_traits
from promptmill.pipeline.engines.unicode import has_unassigned, is_nfc

MakeTokenizer = Callable[..., Tokenizer]

PIECES = st.sampled_from(
    [
        *("<|a|>", "<|b|>", "<s>", "</s>", " ", "  ", "▁", "▁▁", "\n", "a", "the", "'s"),
        *("é", "e\u0301", "\u0301", "\u2126", "ﬁ", "中", "😀", "👩‍👧", "\U0010ffff"),
        *("\x00", "\ufeff", "<0x41>"),
    ]
)
CHARACTERS = st.characters(exclude_categories=["Cs"])
TEXTS = st.lists(st.lists(PIECES | CHARACTERS, max_size=12).map("".join), max_size=5)


@pytest.fixture(
    scope="module", params=["plain", "nfc", "spaces", "prepend", "always", "first", "never"]
)
def tokenizer(
    request: pytest.FixtureRequest, byte_level: MakeTokenizer, byte_fallback: MakeTokenizer
) -> Tokenizer:
    kind: str = request.param
    if kind in ("plain", "nfc"):
        return byte_level(normalizer=normalizers.NFC() if kind == "nfc" else None)
    if kind in ("spaces", "prepend"):
        return byte_fallback(prepend=kind == "prepend")
    scheme = pre_tokenizers.Metaspace(prepend_scheme=kind, split=False)
    return byte_fallback(pre_tokenizer=scheme)


@pytest.fixture(scope="module")
def tables(tokenizer: Tokenizer) -> OffsetTables:
    spec = parse(tokenizer.to_str())
    return OffsetTables(spec, proven_traits(spec))


@given(texts=TEXTS)
@settings(max_examples=150, deadline=None)
def test_right_or_said_not_to_be(
    tokenizer: Tokenizer, tables: OffsetTables, texts: list[str]
) -> None:
    wanted = flatten(tokenizer.encode_batch(texts, add_special_tokens=False), offsets=True)
    spans, right = tables.spans(texts, FlatTokens(wanted.ids, wanted.splits))
    assert (spans.dtype, spans.shape) == (np.int32, (len(wanted.ids), 2))
    traits = proven_traits(parse(tokenizer.to_str()))
    for row, text in enumerate(texts):
        assert right[row] == (not traits.nfc or is_nfc(text))
        if right[row]:
            found = FlatTokens(wanted.ids, wanted.splits, spans).row(row)[1]
            expected = wanted.row(row)[1]
            assert found is not None
            assert expected is not None
            assert found.tolist() == expected.tolist()


def test_ids_that_do_not_belong_to_the_text_are_noticed(
    tokenizer: Tokenizer, tables: OffsetTables
) -> None:
    one = flatten(tokenizer.encode_batch(["some text"], add_special_tokens=False), offsets=False)
    for text in ("some text!", "some tex", ""):
        assert not tables.spans([text], one)[1].any()


def test_the_alphabet_is_the_librarys() -> None:
    assert byte_alphabet().keys() == set(pre_tokenizers.ByteLevel.alphabet())
    assert sorted(byte_alphabet().values()) == list(range(256))
    splitter = pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False)
    for text in ("aZ ~\n\t\x00\x7f", "é¡¬\xad®ÿ", "中😀"):
        [(spelled, _)] = splitter.pre_tokenize_str(text)
        assert bytes(byte_alphabet()[character] for character in spelled) == text.encode()


def test_families_are_told_apart(byte_level: MakeTokenizer, byte_fallback: MakeTokenizer) -> None:
    assert proven_traits(parse(byte_level().to_str())).family is Family.BYTE_LEVEL
    assert proven_traits(parse(byte_fallback().to_str())).family is Family.BYTE_FALLBACK


def test_the_librarys_nfc_knows_no_more_than_this_python() -> None:
    """Else a text that Python calls normalized might be changed by the tokenizer unnoticed."""
    nfc = normalizers.NFC()
    known, unknown = [], []
    for code in (*range(0x80, 0x40000), *range(0xE0000, 0xE1000)):  # no other plane has marks
        character = chr(code)
        category = unicodedata.category(character)
        if category != "Cs":
            (unknown if category == "Cn" else known).append(character)
    text = "\n".join(known)
    assert nfc.normalize_str(text) == unicodedata.normalize("NFC", text)
    # Were one of these a mark, it would change places with one of its neighbours.
    text = "\n".join(f"{c}a{c}\u0334\u0345{c}" for c in unknown)
    assert nfc.normalize_str(text) == text
    assert all(map(has_unassigned, unknown[::97]))
    assert not has_unassigned("".join(known))
