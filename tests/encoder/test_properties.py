"""What holds for any prompt under any budget: its length, what is cut, what runs parallel."""

import json
from collections import ChainMap, Counter
from collections.abc import Callable
from itertools import pairwise
from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st

from promptmill.pipeline.encoder import Encoder
from promptmill.schemas.errors import ErrorCode
from promptmill.schemas.request import EncodedBatch, Endpoint, RawRow, TokenRow, TokensPrompt

Body = dict[str, Any]
Encode = Callable[..., EncodedBatch]
MakeEncoder = Callable[..., Encoder]

CONTEXT = 40
ROOMY = 4000
VOCABULARY = 436
MODELS = ("bos", "gen", "left", "trunc8")
"""Byte-level BPE behind NFC. `bos` adds an id in front, `gen` marks what is generated; `left` and
`trunc8` have a side and a truncation saved, which must do nothing."""
TASKS = ("generate", "pooling", "train")
MANY = settings(max_examples=100, deadline=None)

words = st.sampled_from(
    [
        *("hello", " world", " seven", "\n", " ", "e\u0301", "é", "中文", "🙂", "\u200d", "\0"),
        *("<|im_end|>", "<|im_start|>", "<s>", "</s>", "<|im", "_end|>", "<think>"),
    ]
)
texts = st.lists(words | st.text(max_size=4), max_size=12).map("".join)
ids = st.lists(st.integers(0, VOCABULARY - 1), max_size=60)
turns = st.fixed_dictionaries({"role": st.sampled_from(["user", "assistant"]), "content": texts})
prompts = st.one_of(
    st.fixed_dictionaries({"messages": st.lists(turns, min_size=1, max_size=3)}),
    st.fixed_dictionaries({"prompt": texts | ids}),
    st.fixed_dictionaries({"prompt": st.lists(texts, max_size=3) | st.lists(ids, max_size=3)}),
)
outputs = st.fixed_dictionaries(
    {},
    optional={"max_tokens": st.integers(0, CONTEXT + 1), "add_special_tokens": st.booleans()},
)
cuts = st.fixed_dictionaries(
    {"truncate_prompt_tokens": st.integers(-1, CONTEXT)},
    optional={"truncation_side": st.sampled_from(["left", "right"])},
)
models, tasks = st.sampled_from(MODELS), st.sampled_from(TASKS)


@MANY
@given(prompts, outputs, cuts | st.just({}), models, tasks, st.booleans())
def test_no_prompt_exceeds_its_budget(
    tiny_encoder: MakeEncoder,
    encode: Encode,
    prompt: Body,
    output: Body,
    cut: Body,
    model: str,
    task: str,
    truncates: bool,
) -> None:
    policy = "truncate" if truncates else "error"
    body = prompt | output | cut
    encoder = tiny_encoder(model, task=task, max_model_len=CONTEXT, on_overlong=policy)
    for row in encode(encoder, body).rows:
        length, keep = len(row.ids), body.get("truncate_prompt_tokens", -1)
        assert 0 < length <= (CONTEXT if keep < 0 else keep)
        if task == "generate":
            assert length < CONTEXT
            assert row.max_tokens is not None
            assert 0 <= row.max_tokens <= min(CONTEXT - length, body.get("max_tokens", CONTEXT))
        else:
            assert row.max_tokens is None


@MANY
@given(prompts, outputs, cuts, models, tasks)
def test_a_cut_leaves_the_asked_end_of_all_that_is_parallel(
    tiny_encoder: MakeEncoder,
    encode: Encode,
    prompt: Body,
    output: Body,
    cut: Body,
    model: str,
    task: str,
) -> None:
    roomy, tight = (
        tiny_encoder(model, task=task, with_mask=True, max_model_len=n) for n in (ROOMY, CONTEXT)
    )
    whole = {row.request.custom_id: row for row in encode(roomy, prompt | output).rows}
    for row in encode(tight, prompt | output | cut).rows:
        full = whole[row.request.custom_id]
        kept = kept_places(full, cut, bos=model == "bos", task=task)
        assert row.ids.tolist() == full.ids[kept].tolist()
        for ours, theirs in ((row.offsets, full.offsets), (row.mask, full.mask)):
            assert (ours is None) == (theirs is None) == came_as_ids(full)
            assert ours is None or ours.tolist() == theirs[kept].tolist()
        assert row.text == full.text
        assert row.original_num_tokens == len(full.ids)
        assert row.truncated_left + len(row.ids) + row.truncated_right == len(full.ids)


def came_as_ids(row: TokenRow) -> bool:
    return isinstance(row.request.prompt, TokensPrompt)


def kept_places(full: TokenRow, cut: Body, *, bos: bool, task: str) -> list[int]:
    """Which places of a whole prompt the server keeps."""
    budget, places = full.request.budget, list(range(len(full.ids)))
    keep, side = cut["truncate_prompt_tokens"], cut.get("truncation_side")
    if keep < 0:
        keep = CONTEXT - (task == "generate" and budget.max_tokens != 0)
    if keep >= len(places):
        return places
    asked = budget.add_special_tokens
    adds = full.request.endpoint is not Endpoint.CHAT if asked is None else asked
    # The tokenizer keeps what it adds, and counts it; an explicit side cuts all alike.
    added = int(bos and adds and side is None and not came_as_ids(full))
    rest, count = places[added:], keep - added
    left = (side or ("left" if task == "generate" else "right")) == "left"
    return places[:added] + (rest[len(rest) - count :] if left else rest[:count])


@MANY
@given(st.lists(words, min_size=150, max_size=400).map("".join), st.integers(1, CONTEXT), models)
def test_the_gate_of_characters_changes_no_cut_and_no_offset(
    tiny_encoder: MakeEncoder, encode: Encode, text: str, keep: int, model: str
) -> None:
    body = {"prompt": text, "add_special_tokens": False}
    roomy, tight = (tiny_encoder(model, max_model_len=length) for length in (ROOMY, CONTEXT))
    (whole,) = encode(roomy, body).rows
    for side, kept in (("left", slice(-keep, None)), ("right", slice(keep))):
        cut = {"truncate_prompt_tokens": keep, "truncation_side": side, "max_tokens": 0}
        done = encode(tight, body | cut)
        if keep == CONTEXT:
            assert [reject.error.code for reject in done.rejects] == [ErrorCode.PROMPT_TOO_LONG]
            continue
        (row,) = done.rows
        assert row.ids.tolist() == whole.ids[kept].tolist()
        assert row.offsets is not None
        assert whole.offsets is not None
        assert row.offsets.tolist() == whole.offsets[kept].tolist()
        assert row.text == text


@MANY
@given(prompts, models)
def test_offsets_point_into_the_text(
    tiny_encoder: MakeEncoder,
    encode: Encode,
    check_offsets: Callable[[TokenRow, Encoder], None],
    prompt: Body,
    model: str,
) -> None:
    encoder = tiny_encoder(model, max_model_len=ROOMY)
    for row in encode(encoder, prompt).rows:
        if not came_as_ids(row):
            check_offsets(row, encoder)


ODD_LINES = (
    *(b"", b" \t\r", b"{", b"null", b"[]", b"7", b'"x"', b"\xff\xfe{}", b"\xef\xbb\xbf{}"),
    *(b'{"messages": []}', b'{"messages": 1}', b'{"messages": [{}]}', b'{"prompt": []}'),
    *(b'{"prompt": NaN}', b'{"prompt": "\\ud800"}', b'{"prompt": "a", "prompt": "b"}'),
    *(b'{"prompt": [1, "a"]}', b'{"prompt": [[]]}', b'{"prompt": [99999999999999999999]}'),
    *(b'{"prompt": [436]}', b'{"body": 3}', b'{"body": {"prompt": "x"}, "url": "/v1/other"}'),
    *(b'{"input": "x"}', b'{"text": "x"}', b'{"prompt": "x", "max_tokens": "many"}'),
    b"[" * 2000 + b"]" * 2000,
)
scalars = st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=5)
names = st.sampled_from(["id", "messages", "prompt", "role", "content", "body", "max_tokens"])
anything = st.recursive(
    scalars, lambda inner: st.lists(inner, max_size=3) | st.dictionaries(names, inner, max_size=4)
)
identities = st.fixed_dictionaries({}, optional={"id": st.sampled_from(["a", "b", 7])})
bodies = st.builds(lambda *parts: dict(ChainMap(*parts)), prompts, outputs, cuts, identities)
lines = st.lists(
    st.one_of(
        bodies.map(json.dumps).map(str.encode),
        anything.map(json.dumps).map(str.encode),
        st.sampled_from(ODD_LINES),
        st.binary(max_size=12).map(lambda data: data.replace(b"\n", b"")),
    ),
    max_size=8,
)
Place = tuple[int, int]


def outcomes(*batches: EncodedBatch) -> dict[Place, tuple[object, ...]]:
    """What became of every prompt, by the row and the prompt in it; each once."""
    found: dict[Place, tuple[object, ...]] = {}
    for done in batches:
        rows = {(r.request.place.row_index, r.request.place.prompt_index): r for r in done.rows}
        rejects = {(r.row.row_index, r.prompt_index): r for r in done.rejects}
        assert list(rows) == sorted(rows)
        assert list(rejects) == sorted(rejects)
        assert len(rows) + len(rejects) == len(done.rows) + len(done.rejects)
        assert rows.keys().isdisjoint(rejects)
        found |= {place: written(row) for place, row in rows.items()}
        found |= {
            place: (r.custom_id, r.error.code, r.error.stage, r.error.message)
            for place, r in rejects.items()
        }
    return found


def written(row: TokenRow) -> tuple[object, ...]:
    """Everything of a row that is stored."""
    arrays = (None if a is None else a.tolist() for a in (row.ids, row.offsets, row.mask))
    cut = (row.original_num_tokens, row.truncated_left, row.truncated_right, row.max_tokens)
    request = row.request
    return (request.custom_id, row.text, *arrays, *cut, request.passthrough, row.warnings)


@MANY
@given(lines, models, tasks)
def test_every_line_ends_once(
    tiny_encoder: MakeEncoder, encode: Encode, lines: list[bytes], model: str, task: str
) -> None:
    encoder = tiny_encoder(model, task=task, max_model_len=CONTEXT)
    done = encode(encoder, *lines)
    prompts = Counter(row for row, _ in outcomes(done))
    assert len(prompts) + done.blank_lines == len(lines)
    assert done.blank_lines == sum(not line.strip() for line in lines)
    for row, count in prompts.items():
        assert {place for place in outcomes(done) if place[0] == row} == {
            (row, index) for index in range(count)
        }
    for reject in done.rejects:
        assert reject.row.data == lines[reject.row.row_index]
        assert reject.error.code is not ErrorCode.INTERNAL_ERROR
        assert reject.error.stage is not None


@MANY
@given(lines, st.lists(st.integers(0, 8), max_size=3).map(sorted), models)
def test_batches_make_no_difference(
    tiny_encoder: MakeEncoder, encode: Encode, lines: list[bytes], cuts: list[int], model: str
) -> None:
    encoder = tiny_encoder(model, max_model_len=CONTEXT, with_mask=model == "gen")
    whole = encode(encoder, *lines)
    rows = [RawRow("rows.jsonl", index, line) for index, line in enumerate(lines)]
    encoder.start_shard()
    parts = [encoder.encode(rows[a:b]) for a, b in pairwise([0, *cuts, len(rows)])]
    assert outcomes(*parts) == outcomes(whole)
    assert sum(part.blank_lines for part in parts) == whole.blank_lines


@MANY
@given(lines)
def test_an_id_is_taken_once_in_a_shard(
    tiny_encoder: MakeEncoder, encode: Encode, lines: list[bytes]
) -> None:
    seen = set[object]()
    done = outcomes(encode(tiny_encoder("left", max_model_len=CONTEXT), *lines))
    for custom_id, second, *_ in (done[place] for place in sorted(done)):
        assert second is not ErrorCode.DUPLICATE_ID or custom_id in seen
        assert isinstance(second, ErrorCode) or custom_id not in seen
        seen.add(custom_id)


@MANY
@given(st.lists(prompts, max_size=5), st.sampled_from([{}, {"max_tokens": 5}]), models, tasks)
def test_what_becomes_of_overlong_prompts(
    tiny_encoder: MakeEncoder,
    encode: Encode,
    prompts: list[Body],
    output: Body,
    model: str,
    task: str,
) -> None:
    refused, dropped, truncated = (
        outcomes(
            encode(
                tiny_encoder(model, task=task, max_model_len=CONTEXT, on_overlong=policy),
                *(prompt | output for prompt in prompts),
            )
        )
        for policy in ("error", "drop", "truncate")
    )
    assert refused.keys() == dropped.keys() == truncated.keys()
    for place, outcome in refused.items():
        if outcome[1] is ErrorCode.PROMPT_TOO_LONG:
            assert dropped[place][1] is ErrorCode.DROPPED_OVERLONG
            assert dropped[place][2:] == outcome[2:]
            assert not isinstance(truncated[place][1], ErrorCode)
        else:
            assert outcome == dropped[place] == truncated[place]


@MANY
@given(st.lists(texts, min_size=2, max_size=4) | st.lists(ids, min_size=2, max_size=4), cuts)
def test_several_prompts_are_as_many_rows(
    tiny_encoder: MakeEncoder, encode: Encode, several: list[Any], cut: Body
) -> None:
    encoder = tiny_encoder("bos", max_model_len=CONTEXT)
    together = outcomes(encode(encoder, {"id": "x", "prompt": several, **cut}))
    alone = outcomes(encode(encoder, *({"prompt": [one], **cut} for one in several)))
    assert len(together) == len(alone) == len(several)
    for index in range(len(several)):
        custom_id, *outcome = together[0, index]
        assert custom_id == f"x-{index}"
        assert outcome == list(alone[index, 0][1:])
