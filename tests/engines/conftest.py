"""Bundles of real and made-up tokenizers, and texts that tell tokenizers apart."""

import json
import random
import unicodedata
from collections.abc import Callable, Iterator, Sequence
from functools import lru_cache
from pathlib import Path

import pytest
from tokenizers import (
    AddedToken,
    Tokenizer,
    decoders,
    models,
    normalizers,
    pre_tokenizers,
    trainers,
)

from facts import tokenizer_facts
from promptmill.schemas.bundle import ModelBundle

MakeBundle = Callable[..., ModelBundle]
MakeTokenizer = Callable[..., Tokenizer]

CORPUS = [
    "The quick brown fox can't jump over the lazy dog, they're told. 1234 + 5678 = 6912",
    "def main():\n    return {'key': [1, 2.5]}  # a comment\n\n\n",
    "Zwölf Boxkämpfer jagen Viktor quer über den großen Sylter Deich. Привет, мир! 中文分词",
]
FACTS = tokenizer_facts()
"""Engines ask nothing of these."""


@pytest.fixture(scope="session")
def make_bundle() -> MakeBundle:
    """A bundle around a tokenizer or its JSON."""

    def make(tokenizer: Tokenizer | str, name: str = "made up") -> ModelBundle:
        backend = tokenizer if isinstance(tokenizer, str) else tokenizer.to_str()
        return ModelBundle(
            name=name,
            revision=None,
            tokenizer_mode="hf",
            facts=FACTS,
            backend=backend,
            derived_max_model_len=1,
        )

    return make


@pytest.fixture(scope="session")
def folder_bundle(models: Path, make_bundle: MakeBundle) -> Callable[[str], ModelBundle]:
    """A bundle around a model folder's tokenizer.json as it is (AutoTokenizer changes some)."""

    @lru_cache(maxsize=2)
    def read(name: str) -> ModelBundle:
        return make_bundle((models / name / "tokenizer.json").read_text("utf-8"), name)

    return read


@pytest.fixture(scope="session")
def byte_level() -> MakeTokenizer:
    """A small byte-level BPE tokenizer with added tokens <|a|>, <|b|> and those given."""

    def make(*added: AddedToken, normalizer: object = None) -> Tokenizer:
        tokenizer = Tokenizer(models.BPE())
        tokenizer.normalizer = normalizer
        tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
        tokenizer.decoder = decoders.ByteLevel()
        alphabet = pre_tokenizers.ByteLevel.alphabet()
        trainer = trainers.BpeTrainer(
            vocab_size=400, initial_alphabet=alphabet, show_progress=False
        )
        tokenizer.train_from_iterator(CORPUS, trainer)
        tokenizer.add_special_tokens(["<|a|>", "<|b|>"])
        tokenizer.add_tokens(list(added))
        return tokenizer

    return make


@pytest.fixture(scope="session")
def byte_fallback() -> MakeTokenizer:
    """A small BPE tokenizer with byte fallback and added tokens <s>, </s> and those given."""

    def make(*added: AddedToken, pre_tokenizer: object = None, prepend: bool = False) -> Tokenizer:
        tokenizer = Tokenizer(models.BPE())
        replace = normalizers.Replace(" ", "▁")
        tokenizer.normalizer = replace
        trainer = trainers.BpeTrainer(vocab_size=200, show_progress=False)
        tokenizer.train_from_iterator(CORPUS, trainer)
        spec = json.loads(tokenizer.to_str())
        vocab = spec["model"]["vocab"]
        vocab |= {f"<0x{byte:02X}>": len(vocab) + byte for byte in range(256)}
        spec["model"]["byte_fallback"] = True
        tokenizer = Tokenizer.from_str(json.dumps(spec))
        if pre_tokenizer is not None:
            tokenizer.normalizer = None
            tokenizer.pre_tokenizer = pre_tokenizer
        elif prepend:
            tokenizer.normalizer = normalizers.Sequence([normalizers.Prepend("▁"), replace])
        tokenizer.add_special_tokens(["<s>", "</s>"])
        tokenizer.add_tokens(list(added))
        return tokenizer

    return make


@pytest.fixture(scope="session")
def adversarial(shared: Path) -> Callable[[Sequence[str]], list[str]]:
    """About 1,500 strings for a tokenizer with these control spellings."""
    return lambda spellings: list(dict.fromkeys(_adversarial(shared / "data", spellings)))


def _adversarial(data: Path, spellings: Sequence[str]) -> Iterator[str]:
    dice = random.Random(7)
    yield from ("", " ", *json.loads((data / "text/blns.json").read_text("utf-8")))
    for name in ("llama-bpe", "qwen2", "llama-spm", "gpt-2"):
        vectors = (data / f"tokenizer_vectors/{name}.inp").read_text("utf-8")
        yield from vectors.split("\n__ggml_vocab_test__\n")
    languages = (data / "text/udhr.jsonl").read_text("utf-8").rstrip().split("\n")
    for line in languages:
        text = " ".join(json.loads(line)["paras"][:2])
        yield from (text[:200], unicodedata.normalize("NFD", text[:60]))
    for name in ("emoji-test.txt", "NormalizationTest.head.txt", "GraphemeBreakTest.txt"):
        lines = (data / "unicode" / name).read_text("utf-8").splitlines()
        for line in dice.sample([line for line in lines if line[:1] not in ("", "#", "@")], 60):
            codes = line.split("#")[0].split(";")[0].replace("÷", " ").replace("×", " ").split()
            text = "".join(chr(int(code, 16)) for code in codes if code[0] != "D")
            yield from (text, f"a{text}b {text}1")
    for spelling in dice.sample(list(spellings), min(15, len(spellings))):
        cut = dice.randrange(len(spelling))
        yield from (spelling, spelling * 3, f" {spelling} x", f"x{spelling}\n\n{spelling}")
        yield from (spelling[:cut], spelling[cut:], f"{spelling[:cut]}\u200d{spelling[cut:]}")
        yield from (spelling.upper(), f"\u0301{spelling}\u0338", f"😀{spelling}中")
    for character in "a0 \n\t-'中😀é\u0301\u00a0\u200d\x00":
        yield from (character * length for length in (2, 3, 17, 3000))
    yield "".join(dice.choices("abcdefghijklmnopqrstuvwxyz", k=20_000))
    parts = [*spellings[:10], *" \n\t\r", "  ", "'s", "'ſ", "a", "Z", "7", "é", "e\u0301", "\u0301"]
    parts += [
        "中",
        "😀",
        "👩‍👧",
        "ﬁ",
        "\u2126",
        "\u1100\u1161",
        "▁",
        "<0x41>",
        "\ufdd0",
        "x\u0327\u0301",
    ]
    for _ in range(400):
        yield "".join(dice.choices(parts, k=dice.randint(1, 12)))
    for _ in range(200):
        codes = [dice.randrange(0x110000) for _ in range(12)]
        yield "".join(chr(code) for code in codes if not 0xD800 <= code <= 0xDFFF)
