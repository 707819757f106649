"""Texts whose control tokens are given as ranges."""

import json
import random
from collections.abc import Callable
from pathlib import Path

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tokenizers import AddedToken, Tokenizer, models, normalizers, pre_tokenizers

from promptmill.pipeline.engines.plain import PlainRanges
from promptmill.pipeline.engines.standins import GROUPS, NONCHARACTERS
from promptmill.schemas.bundle import ModelBundle
from promptmill.schemas.errors import ErrorCode, RowError
from promptmill.schemas.options import EngineName
from promptmill.schemas.request import CharSpan

MakeBundle = Callable[..., ModelBundle]
MakeTokenizer = Callable[..., Tokenizer]
STRIPPING = (
    AddedToken("[L]", lstrip=True),
    AddedToken("[R]", rstrip=True),
    AddedToken("[LR]", lstrip=True, rstrip=True),
    AddedToken("[N]", normalized=True),
    AddedToken("[F]", normalized=False),
)
PIECES = st.sampled_from(
    [
        *("<|a|>", "<|b|>", "<s>", "[L]", "[R]", "[LR]", "[N]", "[F]", "  ", "[", "L]", "<|", "|>"),
        *("ﬁ", "A", "é", "e\u0301", "😀", "▁", "\ufdd0", "\ufdd1\ufdd8"),
    ]
)
TEXTS = st.lists(PIECES | st.sampled_from(" \nab<|>"), max_size=12).map("".join)


def unigram() -> Tokenizer:
    pieces = [("<unk>", 0.0), *((piece, -2.0) for piece in ("▁", *"abL<|>[]", "ab", "é"))]
    tokenizer = Tokenizer(models.Unigram(pieces, unk_id=0))
    tokenizer.pre_tokenizer = pre_tokenizers.Metaspace()
    tokenizer.add_special_tokens(["<s>"])
    tokenizer.add_tokens(list(STRIPPING))
    return tokenizer


def with_holes(tokenizer: Tokenizer) -> Tokenizer:
    """The same with ids far beyond the size of its vocabulary."""
    spec = msgspec.json.decode(tokenizer.to_str())
    last = max(spec["model"]["vocab"], key=spec["model"]["vocab"].get)
    spec["model"]["vocab"][last] = 5000
    return Tokenizer.from_str(msgspec.json.encode(spec).decode())


KINDS: dict[str, Callable[[MakeTokenizer, MakeTokenizer], Tokenizer]] = {
    "byte_level": lambda level, fallback: level(*STRIPPING),
    "nfc": lambda level, fallback: level(*STRIPPING, normalizer=normalizers.NFC()),
    "nfkc": lambda level, fallback: level(*STRIPPING, normalizer=normalizers.NFKC()),
    "holes": lambda level, fallback: with_holes(level()),
    "spaces": lambda level, fallback: fallback(*STRIPPING),
    "prepend": lambda level, fallback: fallback(prepend=True),
    "first": lambda level, fallback: fallback(
        *STRIPPING, pre_tokenizer=pre_tokenizers.Metaspace(prepend_scheme="first", split=False)
    ),
    "always": lambda level, fallback: fallback(
        *STRIPPING, pre_tokenizer=pre_tokenizers.Metaspace(prepend_scheme="always")
    ),
    "unigram": lambda level, fallback: unigram(),
}


@pytest.fixture(scope="module", params=KINDS)
def tokenizer(
    request: pytest.FixtureRequest, byte_level: MakeTokenizer, byte_fallback: MakeTokenizer
) -> Tokenizer:
    return KINDS[request.param](byte_level, byte_fallback)


@pytest.fixture(scope="module")
def ranges(tokenizer: Tokenizer, make_bundle: MakeBundle) -> PlainRanges:
    return PlainRanges(make_bundle(tokenizer), EngineName.TOKENIZERS)


def found_ranges(tokenizer: Tokenizer, text: str) -> list[CharSpan]:
    """The spellings that the tokenizer finds, without the blanks that they swallow."""
    spellings = {id: token.content for id, token in tokenizer.get_added_tokens_decoder().items()}
    one = tokenizer.encode(text, add_special_tokens=False)
    found = []
    for id, (start, stop) in zip(one.ids, one.offsets, strict=True):
        if (spelling := spellings.get(id)) is not None:
            begin = text.index(spelling, start, stop)
            found.append((begin, begin + len(spelling)))
    return found


@given(text=TEXTS)
@settings(max_examples=300, deadline=None)
def test_found_ranges_give_what_the_tokenizer_gives(
    tokenizer: Tokenizer, ranges: PlainRanges, text: str
) -> None:
    wanted = tokenizer.encode(text, add_special_tokens=False)
    tokens = ranges.encode(text, found_ranges(tokenizer, text))
    assert tokens.ids.tolist() == wanted.ids
    assert tokens.offsets is not None
    assert list(map(tuple, tokens.offsets.tolist())) == wanted.offsets
    bare = ranges.encode(text, found_ranges(tokenizer, text), offsets=False)
    assert (bare.ids.tolist(), bare.offsets) == (wanted.ids, None)


@given(texts=st.lists(TEXTS, max_size=4))
@settings(max_examples=50, deadline=None)
def test_a_batch_is_its_rows(tokenizer: Tokenizer, ranges: PlainRanges, texts: list[str]) -> None:
    spans = [found_ranges(tokenizer, text) for text in texts]
    batch = ranges.encode_batch(texts, spans, offsets=True)
    assert len(batch) == len(texts)
    for row, (text, span) in enumerate(zip(texts, spans, strict=True)):
        ids, offsets = batch.row(row)
        alone = ranges.encode(text, span)
        assert offsets is not None
        assert alone.offsets is not None
        assert (ids.tolist(), offsets.tolist()) == (alone.ids.tolist(), alone.offsets.tolist())


def test_only_given_ranges_are_control_tokens(tokenizer: Tokenizer, ranges: PlainRanges) -> None:
    spelling = tokenizer.get_added_tokens_decoder()[
        max(tokenizer.get_added_tokens_decoder())
    ].content
    id = tokenizer.token_to_id(spelling)
    text = f"{spelling}a{spelling}"
    for given_ranges in ([], [(0, len(spelling))], [(len(text) - len(spelling), len(text))]):
        tokens = ranges.encode(text, given_ranges)
        assert tokens.ids.tolist().count(id) == len(given_ranges)


@pytest.fixture
def simple(make_bundle: MakeBundle, byte_level: MakeTokenizer) -> PlainRanges:
    return PlainRanges(make_bundle(byte_level()), EngineName.TOKENIZERS)


def test_a_range_without_a_control_token_is_refused(simple: PlainRanges) -> None:
    with pytest.raises(RowError, match="Characters 1 to 4") as caught:
        simple.encode("secret<|a|>", [(1, 4)])
    assert caught.value.code is ErrorCode.TOKENIZER_ERROR
    assert "ecr" not in str(caught.value).split("Characters")[1]


def test_a_bad_row_loses_only_itself(simple: PlainRanges) -> None:
    texts, ranges = ["a<|a|>", "secret", "<|b|>\ud800", "b"], [[(1, 6)], [(1, 4)], [(0, 5)], []]
    tokens, errors = simple.encode_each(texts, ranges, offsets=True)
    assert {row: error.code for row, error in errors.items()} == {
        1: ErrorCode.TOKENIZER_ERROR,
        2: ErrorCode.LONE_SURROGATE,
    }
    assert [len(tokens.row(row)[0]) for row in range(4)] == [2, 0, 0, 1]


@pytest.mark.parametrize(
    "ranges", [[(5, 10), (0, 5)], [(0, 5), (4, 9)], [(-5, 5)], [(5, 99)], [(10, 5)]]
)
def test_ranges_that_are_no_ranges_are_refused(simple: PlainRanges, ranges: list[CharSpan]) -> None:
    with pytest.raises((ValueError, RowError)):
        simple.encode("<|a|><|a|>", ranges)


def test_noncharacters_in_the_text_stay_text(
    simple: PlainRanges, byte_level: MakeTokenizer
) -> None:
    for count in (1, 9, 56):
        text = "<|a|>" + "".join(NONCHARACTERS[:count])
        tokens = simple.encode(text, [(0, 5)])
        assert byte_level().decode(tokens.ids.tolist(), skip_special_tokens=False) == text
    with pytest.raises(RowError, match="noncharacters"):
        simple.encode("".join(character for group in GROUPS for character in group), [])


@pytest.fixture(scope="module")
def deepseek(folder_bundle: Callable[[str], ModelBundle]) -> PlainRanges:
    return PlainRanges(folder_bundle("deepseek_recipe_v41"))


def test_deepseek_golden_prompts(shared: Path, deepseek: PlainRanges) -> None:
    lines = (shared / "golden/deepseek.jsonl").read_text("utf-8").rstrip().split("\n")
    cases = [case for case in map(json.loads, lines) if case["model_version"] == "v4.1"]
    for case in cases:
        if case["error"] is None:
            spans = [tuple(span) for span in case["special_ranges"]]
            tokens = deepseek.encode(case["prompt"], spans)
            assert tokens.ids.tolist() == case["token_ids"], case["name"]
    assert len(cases) > 30


def test_deepseek_prompts_equal_the_official_library(models: Path, deepseek: PlainRanges) -> None:
    recipe = pytest.importorskip("deepseek_recipe")
    file = models / "deepseek_recipe_v41/tokenizer.json"
    encoding = recipe.DeepseekV41Encoding()
    encoder = encoding.with_tokenizer(recipe.Tokenizer.from_file(str(file)))
    dice = random.Random(5)
    pieces = [
        "<｜User｜>",
        "<｜Assistant｜>",
        "<think>",
        "</think>",
        "<｜end▁of▁sentence｜>",
        "<｜Us",
    ]
    pieces += [
        "er｜>",
        " ",
        "\n\n",
        "  \t",
        "e\u0301",
        "👩‍👧",
        "中文",
        "\x00",
        "\u2028",
        "\ufeff",
        "text",
    ]
    for _ in range(60):
        turns = [
            {"role": role, "content": "".join(dice.choices(pieces, k=dice.randint(0, 12)))}
            for role in ("system", "user", "assistant", "user")
        ]
        body = json.dumps({"model": "DeepSeek-V4.1-Flash", "messages": turns})

        def conversation(body: str = body) -> object:
            request = recipe.ChatCompletionRequest(body)
            return request.convert(recipe.ConversionOptions()).conversation

        rendered = encoding.render_conversation(conversation())
        tokens = deepseek.encode(rendered.prompt, rendered.special_ranges)
        assert tokens.ids.tolist() == encoder.encode(conversation())
        assert tokens.offsets is not None
        covered = {place for start, stop in tokens.offsets.tolist() for place in range(start, stop)}
        assert covered == set(range(len(rendered.prompt)))
