"""Golden cases of the official DeepSeek library: prompt, ranges, ids, offsets, budgets, errors."""

from __future__ import annotations

import json
import math
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np

from compare import Verdict, difference
from models import Encoders
from promptmill.pipeline.answer import resolve_answer
from promptmill.pipeline.encoder import Encoder
from promptmill.pipeline.parse.rows import parse_row
from promptmill.pipeline.steps import Job, TokenizedJob
from promptmill.schemas.errors import RowError, Stage
from promptmill.schemas.request import Offsets, RawRow, Reject, Rendered

CONTEXT_LENGTH = 1_048_576
MODELS = {
    "v4": ("deepseek_recipe_v4", "deepseek_v4"),
    "v4.1": ("deepseek_recipe_v41", "deepseek_v41"),
}
"""By the version of a case: model folder and tokenizer mode."""
URLS = {
    "chat_completions": "/v1/chat/completions",
    "messages": "/v1/messages",
    "responses": "/v1/responses",
}


def run_deepseek(path: Path, models: Path | None) -> Iterator[Verdict]:
    """Every case of a file."""
    encoders = Encoders(models)
    with path.open(encoding="utf-8") as lines:
        for line in lines:
            case = json.loads(line)
            folder, mode = MODELS[case["model_version"]]
            options: dict[str, object] = {"tokenizer_mode": mode, "max_model_len": CONTEXT_LENGTH}
            encoder = encoders.get(folder, **options)
            reason = _case_difference(encoder, case)
            if reason is None and case["image_sources"]:
                collapsed = encoders.get(folder, **options, media_ids="collapsed")
                reason = _collapsed_difference(collapsed, case)
            kind = f"deepseek {case['protocol']} {case['model_version']}"
            yield Verdict(
                f"{case['model_version']}/{case['name']}", kind, reason is None, reason or ""
            )


def _row(case: dict[str, Any]) -> RawRow:
    """A case as a line of an OpenAI batch file."""
    line = {"custom_id": "case", "url": URLS[case["protocol"]], "body": case["request"]}
    return RawRow("case", 0, json.dumps(line).encode())


def _case_difference(encoder: Encoder, case: dict[str, Any]) -> str | None:
    wanted = case["error"]
    try:
        item = _run(encoder, _row(case))
    except RowError as error:
        if wanted is None:
            return f"refused: {error.code} {error.message}"
        return None if wanted["message"] in error.message else f"{error.message}, not {wanted}"
    if wanted is not None:
        return f"accepted, the library refused: {wanted['message']}"
    rendered, tokens = item.rendered, item.tokens
    assert tokens.offsets is not None
    checks = (
        difference(rendered.text, case["prompt"], "prompt"),
        difference(
            list(map(list, rendered.special_ranges or ())), case["special_ranges"], "ranges"
        ),
        difference(len(tokens.ids), _expanded_length(case), "number of ids"),
        None
        if case["image_sources"]
        else difference(tokens.ids.tolist(), case["token_ids"], "ids"),
        _offsets_difference(tokens.offsets, case),
        _answer_difference(rendered, case),
        _budget_difference(rendered, len(tokens.ids), case["resolve_max_tokens"]),
    )
    return next((reason for reason in checks if reason), None)


def _run(encoder: Encoder, raw: RawRow) -> TokenizedJob:
    """The one prompt of a row, expanded.

    Raises:
        RowError: the row is refused.
    """

    def refuse(job: Job, error: RowError, stage: Stage) -> None:
        raise error

    (request,) = parse_row(raw, encoder.options)
    if isinstance(request, Reject):
        raise request.error
    jobs = [Job(raw, request, encoder.admit(request))]
    (done,) = encoder.tokenize(encoder.render(jobs, refuse), refuse)
    return done


def _expanded_length(case: dict[str, Any]) -> int:
    return len(case["token_ids"]) + int(case["image_token_adjustment"])


def _offsets_difference(offsets: Offsets, case: dict[str, Any]) -> str | None:
    """None when offsets cover the prompt in order, control tokens each exactly its range."""
    starts, ends = offsets[:, 0], offsets[:, 1]
    if (ends <= starts).any() or (np.diff(starts) < 0).any():
        return "offsets are empty or not in order"
    covered = np.zeros(len(case["prompt"]) + 1, np.int64)
    np.add.at(covered, starts, 1)
    np.add.at(covered, ends, -1)
    if (np.cumsum(covered)[:-1] <= 0).any():
        return "offsets do not cover the prompt"
    ranges = {tuple(pair) for pair in offsets.tolist()}
    missing = [span for span in case["special_ranges"] if tuple(span) not in ranges]
    return f"no token has the range {missing[0]}" if missing else None


def _answer_difference(rendered: Rendered, case: dict[str, Any]) -> str | None:
    """None when sampling and the reading of the answer are the library's."""
    assert rendered.answer is not None
    wanted, fields = case["inference"], rendered.answer.fields
    parsing = fields["answer_parsing"]
    assert isinstance(parsing, dict)
    for name in ("temperature", "top_p"):
        if not math.isclose(wanted[name], float(str(fields[name])), rel_tol=1e-6):
            return f"{name}: ours {fields[name]}, the library {wanted[name]}"
    stage = wanted["thinking_initial_stage"].rpartition(".")[2]
    return (
        difference(fields.get("stop", []), wanted["stop"], "stop")
        or difference(str(parsing["thinking_initial_stage"]), stage, "thinking stage")
        or difference(parsing["parse_tool_calls"], wanted["parse_tool_calls"], "tool calls")
        or difference(
            parsing["starts_in_tool_calls"], wanted["starts_in_tool_calls"], "opened tool call"
        )
    )


def _budget_difference(rendered: Rendered, length: int, table: dict[str, Any]) -> str | None:
    """None when `max_tokens` is the library's under every context length of the table."""
    assert rendered.answer is not None
    if length != table["prompt_tokens"]:
        return f"the prompt has {length} tokens, the library counts {table['prompt_tokens']}"
    for limit, wanted in table.items():
        if limit == "prompt_tokens":
            continue
        try:
            found: int | str = resolve_answer(
                rendered.answer, num_tokens=length, max_model_len=int(limit)
            )
        except RowError as error:
            found = error.message
        expected = wanted["message"] if isinstance(wanted, dict) else wanted
        if found != expected:
            return f"max_tokens under {limit}: ours {found}, the library {expected}"
    return None


def _collapsed_difference(encoder: Encoder, case: dict[str, Any]) -> str | None:
    """None when `--media-ids collapsed` stores the library's own ids."""
    encoder.start_shard()
    done = encoder.encode([_row(case)])
    if done.rejects:
        return f"refused: {done.rejects[0].error.message}"
    return difference(done.rows[0].ids.tolist(), case["token_ids"], "collapsed ids")
