"""Texts that tell tokenizers apart: a fast engine must equal the reference on all of them."""

from __future__ import annotations

import random
import unicodedata
from collections.abc import Iterator, Sequence
from itertools import product
from typing import Final, Literal

from promptmill.pipeline.engines.spec import TokenizerSpec

FORMS: Final[tuple[Literal["NFC", "NFD", "NFKC", "NFKD"], ...]] = ("NFC", "NFD", "NFKC", "NFKD")

WORDS: Final = (
    "the quick Brown fox can't we'll THEY'RE O'Neil's it'Ll ſ'ſ 'ſ d’accord naïve coöperate straße"
)
"""Contractions in both cases, with the long s and the other apostrophe; accents."""

SAMPLES: Final = (
    "שלום עולם، مرحبا بالعالم ۱۲۳",
    "नमस्ते दुनिया १२३ क्षत्रिय বাংলা தமிழ் తెలుగు",
    "ภาษาไทย ລາວ မြန်မာ ខ្មែរ བོད་སྐད",
    "Привет, мир! Ελληνικά Հայերեն ქართული",
    "中文分词，测试。日本語のテキスト カタカナ 한국어 텍스트 𠀀𠮷",
    "ﬁ ﬀ ½ ⅷ ² Å Ω Å ａｂｃ１２３ ㍿",
    "𝔘𝔫𝔦𝔠𝔬𝔡𝔢 𝟏𝟐𝟑 Ⅻ ١٢٣ ௧௨௩ ➀➁ 一二三",
    "👩‍👩‍👧‍👦 👍🏽 🇩🇪🇫🇷 ❤️ ☺︎ 🏴󠁧󠁢󠁥󠁮󠁧󠁿 #️⃣",
    "e\u0301 a\u0308\u0323 \u0301alone q\u0307\u0323 \u1100\u1161\u11a8 각 \u0344",
    "\ufeffBOM \u200bzero\u200dwidth\u2060 \u202eright to left\u202c \u00ad soft",
    "def f(x):\n\treturn {'a': [1, 2.5e-3, 0xFF]}  # 100% \r\n\r\n\tif x != y: pass\n",
    "$1,234,567.89 +49-30/123456789 12345678901234567890 1st 2nd v1.2.3-rc.4",
    "https://example.com/a_b?c=d&e=%20#f <b>bold</b> &amp; {{x}} ${y} \\n \\u0041",
    "<0x41> <0xE2> \u2581word \u2581\u2581 Ġtoken Ċ",
)

SPACES: Final = (*" \t\n\u00a0\u3000\u2028\x0b\x85\u180e", "  ", "\r\n", "")
"""Joined in pairs around words and punctuation: where pre-tokenizers differ most."""

RUN: Final = 600
"""Characters of a run of one character: long enough to leave every short path."""

SPELLINGS: Final = 12
"""Added tokens that are also cut, joined and changed."""


def probes_for(spec: TokenizerSpec) -> list[str]:
    """The texts to try a tokenizer with: 150 to 250 KB, the same in every process."""
    dice = random.Random(0)
    added = [token.content for token in spec.added_tokens]
    picked = dice.sample(added, min(SPELLINGS, len(added)))
    texts = [
        "",
        *_joined(added),
        *_around(picked),
        *_forms(),
        *_spaces(),
        *_controls(),
        *_runs(dice),
        *_census(),
    ]
    return [*texts, *_mixed(dice, [*picked, *SAMPLES, *SPACES, *WORDS.split()])]


def _joined(added: Sequence[str]) -> Iterator[str]:
    """Every added token once, some touching each other and some between text."""
    for start in range(0, len(added), 64):
        yield "".join(
            token + " a\n"[i % 5 : i % 5 + 1] for i, token in enumerate(added[start : start + 64])
        )


def _around(spellings: Sequence[str]) -> Iterator[str]:
    for spelling in spellings:
        middle = len(spelling) // 2
        yield from (spelling, spelling * 2, f" {spelling} ", f"a{spelling}b", f"\n{spelling}\n\n")
        yield from (spelling[:-1], spelling[1:], f"{spelling[:middle]} {spelling[middle:]}")
        yield from (spelling.upper(), spelling.swapcase(), f"\u0301{spelling}\u0301")


def _forms() -> Iterator[str]:
    for text in (WORDS, *SAMPLES):
        yield from (text, text.upper(), *(unicodedata.normalize(form, text) for form in FORMS))


def _spaces() -> Iterator[str]:
    for one, two in product(SPACES, repeat=2):
        yield f"{one}{two}x{one}.{two}'s{one}\n{two}1{one}!!{two}é{one}{two}"


def _controls() -> Iterator[str]:
    for code in (*range(0x20), *range(0x7F, 0xA1)):
        yield f"a{chr(code)}b {chr(code)}{chr(code)}1"


def _runs(dice: random.Random) -> Iterator[str]:
    for character in "aA 0\n\t.-='é中😀\u0301\u00a0":
        yield character * RUN
        yield f"{character * 7}x{character * 3}"
    for letters in ("abcdefgh", "абвгд", "あいう漢字", "ABCxyz019"):
        yield "".join(dice.choices(letters, k=RUN))


def _census() -> Iterator[str]:
    """Two code points of every 64, assigned or not, where scripts are; fewer elsewhere."""
    codes = (*range(0x80, 0x20000, 32), *range(0x20000, 0x110000, 4096))
    for code in codes:
        character = chr(code + code // 32 % 32)
        if not 0xD800 <= ord(character) <= 0xDFFF:
            yield f"{character}a\u0301{character}\u0334 {character}1{character}'s"


def _mixed(dice: random.Random, parts: Sequence[str]) -> Iterator[str]:
    for _ in range(300):
        yield "".join(dice.choices(parts, k=dice.randint(2, 6)))
