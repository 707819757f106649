"""What decides bytes changes the fingerprint; what does not, does not."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime

import pytest

from facts import tokenizer_facts
from promptmill.schemas.bundle import ModelBundle
from promptmill.schemas.options import EngineName, JobOptions, OnError
from promptmill.schemas.shard import InputCompression, InputFile, InputKind, Plan, Shards
from promptmill.workers.fingerprint import (
    NOT_IN_THE_BYTES,
    differences,
    fingerprint,
    identity,
)

FACTS = tokenizer_facts(eos_token_id=1, all_special_ids=(1,), all_special_tokens=("</s>",))
BUNDLE = ModelBundle(
    name="m",
    revision=None,
    tokenizer_mode="hf",
    facts=FACTS,
    backend="{}",
    chat_templates={"default": "{{ messages }}"},
    derived_max_model_len=100,
)
FILE = InputFile("/a/in.jsonl", "in.jsonl", InputKind.JSONL, InputCompression.NONE, 10)
PLAN = Plan(files=(FILE,), shards=Shards(), content={"in.jsonl": "aa"})
OPTIONS = JobOptions(input=("/a/in.jsonl",), output="/out", model="m")
NOON = datetime(2026, 1, 1, 12, tzinfo=UTC)
PLAIN = identity(PLAN, BUNDLE, OPTIONS, NOON)


def test_every_exception_is_an_option() -> None:
    assert set(JobOptions.model_fields) >= NOT_IN_THE_BYTES


@pytest.mark.parametrize(
    "change",
    [
        {"output": "/b"},
        {"input": ("/b/in.jsonl",)},
        {"model": "elsewhere/m"},
        {"workers": 7},
        {"local": True},
        {"engine": EngineName.TOKENIZERS},
        {"render_timeout": 1.0},
        {"on_error": OnError.FAIL},
        {"max_rejects": 3},
        {"address": "auto"},
    ],
    ids=str,
)
def test_how_and_where_it_runs_does_not_count(change: dict[str, object]) -> None:
    other = OPTIONS.model_copy(update=change)
    assert identity(PLAN, BUNDLE, other, NOON) == PLAIN


def test_a_moved_or_touched_input_is_the_same() -> None:
    moved = replace(PLAN, files=(replace(FILE, url="/b/in.jsonl"),))
    assert identity(moved, BUNDLE, OPTIONS, NOON) == PLAIN


def test_the_difference_is_named() -> None:
    cases = {
        "options.max_model_len: null -> 5": identity(
            PLAN, BUNDLE, OPTIONS.model_copy(update={"max_model_len": 5}), NOON
        ),
        "input.in.jsonl.sha256: aa -> bb": identity(
            replace(PLAN, content={"in.jsonl": "bb"}), BUNDLE, OPTIONS, NOON
        ),
        "tokenizer: ": identity(PLAN, replace(BUNDLE, backend="{1}"), OPTIONS, NOON),
        "chat template: ": identity(PLAN, replace(BUNDLE, chat_templates={}), OPTIONS, NOON),
        "model config: ": identity(PLAN, replace(BUNDLE, config={"a": 1}), OPTIONS, NOON),
    }
    for text, other in cases.items():
        assert fingerprint(other) != fingerprint(PLAIN)
        (line,) = differences(PLAIN, other)
        assert line.startswith(text)


def test_other_input_files_are_named() -> None:
    two = replace(
        PLAN,
        files=(FILE, replace(FILE, name="b.jsonl")),
        content=dict.fromkeys(("in.jsonl", "b.jsonl"), "aa"),
    )
    both = identity(two, BUNDLE, OPTIONS, NOON)
    assert list(differences(PLAIN, both)) == ["input.b.jsonl: only here"]
    assert list(differences(both, PLAIN)) == ["input.b.jsonl: only there"]
    turned = identity(replace(two, files=two.files[::-1]), BUNDLE, OPTIONS, NOON)
    assert list(differences(both, turned)) == ["input: the same files in another order"]


@pytest.mark.parametrize("where", ["model", "job", "row"])
def test_the_clock_counts_where_a_template_may_ask_for_it(where: str) -> None:
    asks = "{{ strftime_now('%Y') }}"
    bundle, options = BUNDLE, OPTIONS
    if where == "model":
        bundle = replace(BUNDLE, chat_templates={"default": asks})
    elif where == "job":
        options = OPTIONS.model_copy(update={"chat_template": asks})
    else:
        options = OPTIONS.model_copy(update={"trust_request_chat_template": True})
    later = NOON.replace(hour=13)
    assert identity(PLAN, BUNDLE, OPTIONS, later) == PLAIN
    assert identity(PLAN, bundle, options, later) != identity(PLAN, bundle, options, NOON)
