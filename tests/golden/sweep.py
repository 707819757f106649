"""The sweep: real chats under real tokenizers and templates, compared by hashes."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Iterator
from datetime import UTC, datetime
from itertools import islice
from pathlib import Path
from runpy import run_path
from types import SimpleNamespace
from typing import Any

import numpy as np

from cases import CHAT_FIELDS, run_prompts
from compare import Verdict, error_difference
from models import SHARED, Encoders
from promptmill.pipeline.encoder import Encoder
from promptmill.pipeline.steps import TokenizedJob
from promptmill.schemas.errors import RowError

CLOCK = datetime(2026, 1, 15, 12, 0, 0, tzinfo=UTC)
"""Where the sweep's clock stood."""
TOOL_CHOICE = re.compile("tool.choice.* requires")


def run_sweep(
    path: Path, data_root: Path, models: Path | None, limit: int | None
) -> Iterator[Verdict]:
    """Every case of a sweep file."""
    rebuild = SimpleNamespace(**run_path(str(SHARED / "golden" / "sweep_cases.py")))
    encoders = Encoders(models, CLOCK)
    for case in islice(rebuild.load_cases(str(path)), limit):
        body = rebuild.request_for(case, str(data_root))
        encoder = _encoder(encoders, case, rebuild.template_for(case, str(data_root)))
        found = run_prompts(encoder, {"kind": "chat", **_split(body)})
        reason, rule = _difference(encoder, found, case["expected"])
        label = f"sweep {case['model']}" + (" template" if case["template"] else "")
        yield Verdict(case["id"], label, reason is None, reason or "", rule)


def _split(body: dict[str, Any]) -> dict[str, Any]:
    """A request body as a case has it."""
    named = {name: body[name] for name in CHAT_FIELDS if name in body}
    return named | {"request": {k: v for k, v in body.items() if k not in named}}


def _encoder(encoders: Encoders, case: dict[str, Any], template: str | None) -> Encoder:
    server = case["server"]
    options: dict[str, object] = {"max_model_len": server["max_model_len"]}
    for name in ("tokenizer_mode", "chat_template_content_format"):
        if name in server:
            options[name] = server[name]
    if template is not None:
        options["chat_template"] = template
    return encoders.get(case["model"], **options)


def _difference(
    encoder: Encoder, found: list[TokenizedJob] | RowError, expected: dict[str, Any]
) -> tuple[str | None, str | None]:
    """Why a case differs (None: it does not), and the rule that explains a difference."""
    theirs = expected.get("error") or (expected if expected["status"] == "error" else None)
    if theirs and theirs["type"] == "ErrorResponse" and TOOL_CHOICE.search(theirs["message"]):
        return None, "tool_choice"
    if isinstance(found, RowError):
        if theirs is None:
            return f"refused: {found.code} {found.message[:300]}", None
        return error_difference(found, theirs), None
    if theirs is not None:
        return f"accepted, the reference refused: {theirs['message'][:200]}", None
    return _prompt_difference(encoder, found[0], expected), None


def _prompt_difference(
    encoder: Encoder, item: TokenizedJob, expected: dict[str, Any]
) -> str | None:
    tokens = item.tokens
    ids = tokens.ids
    if expected.get("prompt_sha256") is not None:
        text = tokens.fitted_text or ""
        if hashlib.sha256(text.encode()).hexdigest() != expected["prompt_sha256"]:
            return "prompt text differs"
    if len(ids) != expected["n"]:
        return f"{len(ids)} ids, the reference has {expected['n']}"
    if _sha(ids) != expected["ids_sha256"]:
        return "ids differ"
    if expected.get("offsets_sha256") is not None and (
        tokens.offsets is None or _sha(tokens.offsets) != expected["offsets_sha256"]
    ):
        return "offsets differ"
    return _engine_difference(encoder, item, expected)


def _engine_difference(
    encoder: Encoder, item: TokenizedJob, expected: dict[str, Any]
) -> str | None:
    try:
        budget = encoder.settler.settle(item).max_tokens
    except RowError as error:
        if expected.get("engine_error") is None:
            return f"refused after rendering: {error.message}"
        return None
    if expected.get("engine_error") is not None:
        return f"the engine refuses ({expected['engine_error']}), we do not"
    if budget != expected["max_tokens"]:
        return f"max_tokens {budget}, the reference has {expected['max_tokens']}"
    return None


def _sha(array: np.ndarray[Any, Any]) -> str:
    return hashlib.sha256(np.ascontiguousarray(array, dtype="<i4").tobytes()).hexdigest()
