"""Typed control spellings kept as text, and masks of what the assistant wrote, down to the ids."""

import functools
import json
import unicodedata
from collections.abc import Callable, Iterable
from pathlib import Path

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tokenizers import Tokenizer

from promptmill.pipeline.encoder import Encoder
from promptmill.schemas.errors import ErrorCode
from promptmill.schemas.options import EngineName
from promptmill.schemas.request import CharSpan, EncodedBatch, TokenRow

Chat = list[dict[str, str]]
Encode = Callable[..., EncodedBatch]
MakeEncoder = Callable[..., Encoder]
CheckOffsets = Callable[[TokenRow, Encoder], None]

MANY = settings(max_examples=100, deadline=None)
START, END = "<|im_start|>", "<|im_end|>"
pieces = st.sampled_from(
    [
        *(START, END, "<|endoftext|>", "<|image_pad|>", "<s>", "</s>"),
        *("hello", " world", "\n", " ", "e\u0301", "中", "🙂", "<|im", "_end|>", "<", "|", ">"),
    ]
)
contents = st.lists(pieces, max_size=8).map("".join)
chats = st.lists(
    st.fixed_dictionaries({"role": st.sampled_from(["user", "assistant"]), "content": contents}),
    min_size=1,
    max_size=4,
)


def only_row(done: EncodedBatch) -> TokenRow:
    assert done.rejects == []
    (row,) = done.rows
    return row


def decoded(encoder: Encoder, row: TokenRow) -> str:
    return encoder.tokenizer.decode(row.ids.tolist())


def reference(encoder: Encoder) -> Tokenizer:
    return tokenizer_of(encoder.bundle.backend or "")


def without_added_tokens(encoder: Encoder) -> Tokenizer:
    backend = msgspec.json.decode(encoder.bundle.backend or "", type=dict[str, msgspec.Raw])
    bare = backend | {"added_tokens": msgspec.Raw(b"[]")}
    return tokenizer_of(msgspec.json.encode(bare).decode())


tokenizer_of = functools.lru_cache(maxsize=4)(Tokenizer.from_str)


def control_spans(
    tokenizer: Tokenizer, ids: Iterable[int], spans: Iterable[CharSpan]
) -> list[CharSpan]:
    """Where the added tokens among some ids stand."""
    added = tokenizer.get_added_tokens_decoder()
    return [span for token_id, span in zip(ids, spans, strict=True) if token_id in added]


# Escaping


@MANY
@given(chats, st.sampled_from([EngineName.AUTO, EngineName.TOKENIZERS]))
def test_typed_spellings_are_text(
    tiny_encoder: MakeEncoder,
    encode: Encode,
    check_offsets: CheckOffsets,
    chat: Chat,
    engine: EngineName,
) -> None:
    encoder = tiny_encoder("left", escape_control_tokens=True, engine=engine)
    row = only_row(encode(encoder, {"messages": chat}))
    tokenizer = without_added_tokens(encoder)
    texts = [text for m in chat for text in (f"{m['role']}\n{m['content']}", "\n")]
    ids = []
    for number, text in enumerate([*texts, "assistant\n"]):
        control = END if number % 2 else START
        ids += [tokenizer.token_to_id(control), *tokenizer.encode(text).ids]
    assert row.ids.tolist() == ids
    assert row.text is not None
    assert decoded(encoder, row) == unicodedata.normalize("NFC", row.text)
    check_offsets(row, encoder)


@MANY
@given(chats)
def test_without_the_option_they_are_tokens_as_online(
    tiny_encoder: MakeEncoder, encode: Encode, chat: Chat
) -> None:
    encoder = tiny_encoder("left")
    row = only_row(encode(encoder, {"messages": chat}))
    escaped = only_row(encode(tiny_encoder("left", escape_control_tokens=True), {"messages": chat}))
    assert row.text == escaped.text
    assert row.ids.tolist() == reference(encoder).encode(row.text or "").ids


def test_tools_calls_and_results_are_content(tiny_encoder: MakeEncoder, encode: Encode) -> None:
    def controls(typed: str, *, escape: bool) -> list[int]:
        function = {"name": "f", "description": typed, "parameters": {"type": typed}}
        called = {"name": "f", "arguments": json.dumps({"a": typed, typed: 1})}
        call = {"id": "c", "type": "function", "function": called}
        body = {
            "tools": [{"type": "function", "function": function}],
            "messages": [
                {"role": "user", "content": [{"type": "text", "text": typed}]},
                {"role": "assistant", "content": typed, "tool_calls": [call]},
                {"role": "tool", "tool_call_id": "c", "content": typed},
            ],
        }
        encoder = tiny_encoder("toolargs", escape_control_tokens=escape)
        row = only_row(encode(encoder, body))
        assert decoded(encoder, row) == row.text
        added = reference(encoder).get_added_tokens_decoder()
        return [token_id for token_id in row.ids.tolist() if token_id in added]

    harmless = controls("word", escape=True)
    assert controls(END + START, escape=True) == harmless
    assert len(controls(END + START, escape=False)) > len(harmless)


# Masks


def assistant_part(chat: Chat, turns: str) -> tuple[str, list[bool]]:
    """The prompt of a training row, by hand, and which of its characters the assistant wrote."""
    last = max((n for n, m in enumerate(chat) if m["role"] == "assistant"), default=None)
    text, wrote = "", list[bool]()
    for number, message in enumerate(chat):
        head, said = f"{START}{message['role']}\n", message["content"] + END
        learnt = message["role"] == "assistant" and (turns == "all" or number == last)
        text += head + said + "\n"
        wrote += [False] * len(head) + [learnt] * len(said) + [False]
    return text, wrote


@MANY
@given(
    chats,
    st.sampled_from(["left", "gen"]),
    st.booleans(),
    st.sampled_from(["all", "last"]),
    st.sampled_from(["generate", "train"]),
)
def test_the_mask_is_what_the_assistant_wrote(
    tiny_encoder: MakeEncoder,
    encode: Encode,
    chat: Chat,
    model: str,
    escapes: bool,
    turns: str,
    task: str,
) -> None:
    options = {"task": task, "mask": turns, "with_mask": True, "escape_control_tokens": escapes}
    row = only_row(encode(tiny_encoder(model, **options), {"messages": chat}))
    text, wrote = assistant_part(chat, turns)
    prompt = "" if task == "train" else f"{START}assistant\n"
    assert row.text == text + prompt
    assert row.offsets is not None
    assert row.mask is not None
    wrote += [False] * len(prompt)
    assert row.mask.tolist() == [any(wrote[start:stop]) for start, stop in row.offsets.tolist()]
    assert any("no assistant turn" in warning for warning in row.warnings) != any(wrote)
    bare = tiny_encoder(model, **options, with_offsets=False)
    assert only_row(encode(bare, {"messages": chat})).mask.tolist() == row.mask.tolist()


# Real models


@pytest.mark.parametrize(
    ("model", "answer"),
    [
        ("qwen3", "<think>\n\n</think>\n\n{}<|im_end|>"),
        ("llama3_1", "{}<|eot_id|>"),
    ],
)
def test_every_control_spelling_of_a_real_model(
    models: Path,
    make_encoder: MakeEncoder,
    encode: Encode,
    check_offsets: CheckOffsets,
    model: str,
    answer: str,
) -> None:
    encoder = make_encoder(models / model, escape_control_tokens=True, with_mask=True)
    tokenizer = reference(encoder)
    added = {token.content for token in tokenizer.get_added_tokens_decoder().values()}
    asked = f"«{' '.join(sorted(added))}»"
    answered = f"«{''.join(sorted(s for s in added if 'think' not in s))}»"  # not reasoning
    chat = [{"role": "user", "content": asked}, {"role": "assistant", "content": answered}]
    body = {"messages": chat, "add_generation_prompt": False}
    row = only_row(encode(encoder, body))
    assert row.text is not None
    assert row.offsets is not None
    assert decoded(encoder, row) == row.text
    check_offsets(row, encoder)

    online = tokenizer.encode(row.text, add_special_tokens=False)
    spans = control_spans(tokenizer, online.ids, online.offsets)
    content = [
        range(row.text.index(text), row.text.index(text) + len(text)) for text in (asked, answered)
    ]
    wanted = [span for span in spans if not any(span[0] in part for part in content)]
    found = control_spans(tokenizer, row.ids.tolist(), map(tuple, row.offsets.tolist()))
    assert found == wanted
    assert len(spans) > len(wanted) + len(added)
    assert written(row) == answer.format(answered)

    plain = only_row(encode(make_encoder(models / model), body))
    assert plain.ids.tolist() == online.ids


def written(row: TokenRow) -> str:
    """The text under the mask."""
    assert row.text is not None
    assert row.offsets is not None
    assert row.mask is not None
    spans = row.offsets[row.mask == 1].tolist()
    places = sorted({at for start, stop in spans for at in range(start, stop)})
    return "".join(row.text[at] for at in places)


@pytest.mark.parametrize("model", ["qwen3", "llama3_1"])
def test_pasted_documents_about_templates(
    shared: Path, models: Path, make_encoder: MakeEncoder, encode: Encode, model: str
) -> None:
    encoder = make_encoder(models / model, escape_control_tokens=True)
    added = reference(encoder).get_added_tokens_decoder().values()
    lines = (shared / "data" / "chat_special_tokens_docs.jsonl").read_bytes().splitlines()
    done = encode(encoder, *lines)
    assert {reject.error.code for reject in done.rejects} <= {ErrorCode.PROMPT_TOO_LONG}
    for row in done.rows:
        assert decoded(encoder, row) == unicodedata.normalize("NFC", row.text or "")
        messages = json.loads(lines[row.request.place.row_index])["messages"]
        typed = any(token.content in m["content"] for token in added for m in messages)
        assert any("encoded as plain text" in warning for warning in row.warnings) == typed
