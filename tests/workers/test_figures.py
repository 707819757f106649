"""What a shard's rows add to the report."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import pytest

from promptmill.pipeline.lengths import bucket
from promptmill.pipeline.reuse import BlockCounter, Reuse
from promptmill.schemas.figures import Cuts
from promptmill.schemas.json_types import Json
from promptmill.schemas.options import JobOptions
from promptmill.schemas.run import Receipt
from promptmill.workers.figures import kind_of
from promptmill.workers.output_folder import OutputFolder
from promptmill.workers.progress import LineReporter
from promptmill.workers.run import run

LONG = "one two three " * 40


def chat(row_id: str, text: str, **more: Json) -> dict[str, Json]:
    return {"id": row_id, "messages": [{"role": "user", "content": text}], **more}


def reuse_in(receipt: Receipt) -> Reuse:
    counter = BlockCounter()
    assert receipt.figures.whole_blocks is not None
    counter.merge(receipt.figures.whole_blocks)
    return counter.reuse()


@pytest.fixture
def receipts(tmp_path: Path, tiny_models: Path) -> Callable[..., list[Receipt]]:
    """The receipts of a run over rows."""

    def make(rows: list[dict[str, Json]], **options: object) -> list[Receipt]:
        (tmp_path / "in.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
        given = {
            "input": (str(tmp_path / "in.jsonl"),),
            "output": str(tmp_path / "out"),
            "model": str(tiny_models / "chatml"),
            "local": True,
            "max_model_len": 64,
        }
        with (tmp_path / "log").open("w") as log:
            run(JobOptions.model_validate(given | options), LineReporter(log))
        found = [receipt for _, receipt in OutputFolder(tmp_path / "out").receipts()]
        return [receipt for receipt in found if receipt is not None]

    return make


def test_lengths_cuts_and_refusals(receipts: Callable[..., list[Receipt]]) -> None:
    rows = [chat(f"g{n}", f"hello {n}") for n in range(4)]
    rows += [chat(f"c{n}", LONG, truncate_prompt_tokens=20) for n in range(5)]
    (receipt,) = receipts([*rows, chat("long", LONG)])
    figures = receipt.figures
    assert sum(figures.before.values()) == sum(figures.after.values()) == 9
    assert figures.after[bucket(20)] >= 5
    assert figures.before[bucket(figures.longest)] == 5
    assert sum(figures.refused.values()) == 1
    cuts = figures.cuts["left"]
    assert (cuts.rows, cuts.tokens, cuts.most) == (
        5,
        5 * (figures.longest - 20),
        figures.longest - 20,
    )
    assert [one.custom_id for one in cuts.examples] == ["c0", "c1", "c2"]
    assert all(one.content is None for one in cuts.examples)
    assert receipt.examples["prompt_too_long"].content is None
    assert figures.cut_blocks is not None
    assert figures.other_blocks is not None
    assert (figures.cut_blocks.rows, figures.other_blocks.rows) == (5, 5)
    assert figures.cuts_not_compared == 0
    assert 0 < receipt.started <= receipt.finished


def test_content_only_when_it_is_asked_for(receipts: Callable[..., list[Receipt]]) -> None:
    rows = [chat("cut", LONG, truncate_prompt_tokens=20), chat("bad", "a secret", role=1)]
    rows.append({"id": "worse", "messages": "a secret"})
    (receipt,) = receipts(rows, report_content=True)
    content = receipt.figures.cuts["left"].examples[0].content
    assert content is not None
    before, after = content.split(" ✂ ")
    assert before + after in LONG + "<|im_end|>\n<|im_start|>assistant\n"
    assert after.endswith("<|im_start|>assistant\n")
    assert "a secret" in (receipt.examples["invalid_request"].content or "")


def test_figures_add_up_and_stay_small() -> None:
    cuts = sum([Cuts(rows=1, tokens=n, most=n) for n in range(10)], Cuts())
    assert (cuts.rows, cuts.tokens, cuts.most) == (10, 45, 9)


def test_kinds_of_warnings_are_few() -> None:
    assert kind_of("double_bos: the prompt starts with two BOS ids (1)") == "double_bos"
    assert kind_of("messages[1]: a part was left out") == "messages[N]: a part was left out"
    assert kind_of("messages[12].name 'Anna' is ignored") == "messages[N].name ... is ignored"


def test_salts_keep_prompts_apart(receipts: Callable[..., list[Receipt]]) -> None:
    text = "one two three " * 9
    salts = [{"cache_salt": salt} for salt in ("anna", "anna", "ben")]
    (receipt,) = receipts([chat(f"s{n}", text, **salt) for n, salt in enumerate(salts)])
    reuse = reuse_in(receipt)
    assert reuse.different * 3 == reuse.blocks * 2


def test_media_keep_prompts_apart_from_where_they_begin(
    receipts: Callable[..., list[Receipt]], tiny_models: Path
) -> None:
    def row(row_id: str, image: str) -> dict[str, Json]:
        url = (tiny_models.parent / "images" / image).as_uri()
        parts: list[Json] = [{"type": "text", "text": "one two three " * 9}]
        parts.append({"type": "image_url", "image_url": {"url": url}})
        parts.append({"type": "text", "text": "four five six " * 9})
        return {"id": row_id, "messages": [{"role": "user", "content": parts}]}

    grey, colour = "gray112x56.png", "rgba112x56.png"
    options = {"model": str(tiny_models / "vl"), "max_model_len": 512}
    options["allowed_media_root"] = str(tiny_models.parent / "images")
    rows = [row("a", grey), row("b", grey), row("c", colour)]
    (receipt,) = receipts(rows, **options)
    reuse = reuse_in(receipt)
    assert receipt.totals.rows_ok == 3
    assert receipt.figures.media_tokens["image"] > 0
    shared = reuse.blocks - reuse.different  # b has all of a, c only what stands before the image
    assert reuse.blocks / 3 < shared < reuse.blocks * 2 / 3
