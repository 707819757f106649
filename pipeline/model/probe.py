"""The start-up probe: does this tokenizer carry text, and does this template belong to it?"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Callable, Iterable, Iterator

from tokenizers import Tokenizer, pre_tokenizers
from tokenizers.models import BPE, Unigram

from promptmill.pipeline.engines.pool import reference_pool
from promptmill.schemas.bundle import ModelBundle
from promptmill.schemas.errors import JobError, RowError
from promptmill.schemas.json_types import JsonObject

PROBE_TEXTS = {
    "English": "The quick brown fox jumps over 13 lazy dogs.",
    "code": "for i in range(10):\n    print(f'{i:>3}', x[i] != 0)  # done",
    "French": "Où est la bibliothèque ? À côté de l'église.",
    "Russian": "Съешь же ещё этих мягких французских булок.",
    "Greek": "Η γρήγορη καφέ αλεπού.",
    "Arabic": "مرحبا بالعالم، كيف حالك؟",
    "Hebrew": "שלום עולם",
    "Hindi": "नमस्ते दुनिया",
    "Thai": "สวัสดีชาวโลก",
    "Chinese": "你好，世界。今天天气很好。",
    "Japanese": "こんにちは、世界。カタカナも。",
    "Korean": "안녕하세요 세계",
    "emoji": "👍🏽 👩‍👩‍👧 🦀",
}
"""A sentence of each script that is looked at, by its name."""

_SAMPLE_CHATS: tuple[list[JsonObject], ...] = (
    [
        {"role": "system", "content": "a"},
        {"role": "user", "content": "b"},
        {"role": "assistant", "content": "c"},
        {"role": "user", "content": "d"},
    ],
    [{"role": "user", "content": "b"}],
)
"""Tried in order: some templates accept no system message."""

_SPELLING = re.compile(
    r"<\|[^<>|\s'\"]{1,60}\|?>"  # <|im_start|>, <|image>
    r"|<[^<>|\s'\"]{1,60}\|>"  # <image|>
    r"|<｜[^<>｜\s'\"]{1,60}｜>"  # <｜User｜>
    r"|</?s>|<(?:bos|eos|pad|unk|mask|start_of_turn|end_of_turn)>"
    r"|\[/?[A-Z][A-Z_]+\]"  # [INST], [TOOL_CALLS]
)
_JINJA_COMMENT = re.compile(r"\{#.*?#\}", re.DOTALL)
_JINJA_CODE = re.compile(r"\{\{.*?\}\}|\{%.*?%\}", re.DOTALL)
_STRING_LITERAL = re.compile(r"'(?:[^'\\]|\\.)*'|\"(?:[^\"\\]|\\.)*\"", re.DOTALL)
_PLAIN_AFTER_S = frozenset({"[INST]", "[/INST]"})
"""Written as plain text, by design, for the models whose BOS is <s> (Llama 2, Mistral v1)."""


def probe_model(
    bundle: ModelBundle,
    render: Callable[[list[JsonObject]], str] | None = None,
    template: str | None = None,
) -> tuple[str, ...]:
    """Look for what makes a run's ids useless: warnings, to be said loudly at the start.

    Nothing is probed for modes that carry files: their library checks what it reads.

    Args:
        bundle: the model.
        render: renders a chat with the template of the run; a RowError counts as no text.
        template: the source that replaces the model's own templates.

    Raises:
        JobError: the tokenizer loses text that its vocabulary could spell.
    """
    if bundle.backend is None:
        return ()
    own = (*bundle.chat_templates.values(), bundle.processor_template or "")
    sources = own if template is None else (template,)
    written = {spelling for source in sources for spelling in _spellings(_literals(source))}
    written.update(_spellings(_sample(render)))
    with reference_pool(bundle).borrow() as tokenizer:
        return (*_text_warnings(bundle, tokenizer), *_spelling_warnings(bundle, tokenizer, written))


def _text_warnings(bundle: ModelBundle, tokenizer: Tokenizer) -> Iterator[str]:
    lost, changed = [], []
    for script, text in PROBE_TEXTS.items():
        ids = tokenizer.encode(text, add_special_tokens=False).ids
        back = tokenizer.decode(ids, skip_special_tokens=False)
        if len(_bare(back)) * 2 < len(_bare(text)):
            lost.append(script)
        elif not _same(tokenizer, text, back):
            changed.append(script)
    if lost and _spells_bytes(tokenizer):
        raise JobError(
            f"{bundle.name}: the tokenizer loses text ({', '.join(lost)}) that its byte-level "
            f"vocabulary could spell, so the ids would be garbage. {bundle.facts.tokenizer_class}, "
            "the class that config.json's model_type and tokenizer_config.json's tokenizer_class "
            "lead to, does not fit this tokenizer.json: use the model's own config.json."
        )
    if lost:
        yield f"The tokenizer has no ids for most of: {', '.join(lost)}. Such text is lost."
    if changed:
        yield f"Decoding does not give the text back for: {', '.join(changed)}."


def _same(tokenizer: Tokenizer, text: str, back: str) -> bool:
    """Whether decoding gave the text back, but for what normalizers and prefix spaces change."""
    if not isinstance(tokenizer.model, BPE | Unigram):
        return _bare(back) == _bare(text)  # word pieces are joined by spaces
    normalizer = tokenizer.normalizer
    normal = text if normalizer is None else normalizer.normalize_str(text).replace("▁", " ")
    return back.strip() in (text.strip(), normal.strip())


def _bare(text: str) -> str:
    """Without what normalizers commonly change: form, case, accents and blanks."""
    folded = unicodedata.normalize("NFKD", text).casefold()
    return "".join(c for c in folded if not c.isspace() and not unicodedata.combining(c))


def _spells_bytes(tokenizer: Tokenizer) -> bool:
    return all(
        tokenizer.token_to_id(letter) is not None for letter in pre_tokenizers.ByteLevel.alphabet()
    )


def _spelling_warnings(
    bundle: ModelBundle, tokenizer: Tokenizer, written: Iterable[str]
) -> Iterator[str]:
    by_design = _PLAIN_AFTER_S if bundle.special_tokens_map.get("bos_token") == "<s>" else ()
    plain = sorted(
        spelling
        for spelling in written
        if spelling not in by_design
        and len(tokenizer.encode(spelling, add_special_tokens=False).ids) != 1
    )
    if plain:
        yield (
            f"The chat template writes {', '.join(plain)}, which this tokenizer does not know as "
            "one id and encodes as plain text. Is the template that of another model?"
        )


def _spellings(texts: Iterable[str]) -> Iterator[str]:
    for text in texts:
        yield from _SPELLING.findall(text)


def _literals(source: str) -> Iterator[str]:
    """The parts of a template that it can write: its plain text, and the strings in its code."""
    source = _JINJA_COMMENT.sub("", source)
    yield from _JINJA_CODE.split(source)
    for code in _JINJA_CODE.findall(source):
        yield from _STRING_LITERAL.findall(code)


def _sample(render: Callable[[list[JsonObject]], str] | None) -> Iterator[str]:
    if render is None:
        return
    for chat in _SAMPLE_CHATS:
        try:
            yield render(chat)
        except RowError:
            continue
        return
