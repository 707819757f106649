"""Golden media cases and tables of counts, run through our own code."""

from __future__ import annotations

import functools
from collections import defaultdict
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from runpy import run_path
from types import SimpleNamespace
from typing import Any

import numpy as np

from cases import CaseRunner, run_prompts
from compare import Verdict, difference, error_difference
from counts import FOLDERLESS, count_differences
from models import SHARED
from ported import MODES, on_ported_text
from promptmill.pipeline.encoder import Encoder
from promptmill.pipeline.media.base import Family, TextCodec, find_builder
from promptmill.pipeline.steps import TokenizedJob
from promptmill.schemas.errors import ErrorCode, JobError, RowError
from promptmill.schemas.media import MediaSpan
from promptmill.schemas.request import Ids, Offsets

CONTEXT_LENGTH = 32_768
"""Of a media case that names none."""

Placed = dict[str, list[tuple[int, int, list[list[int]]]]]
"""By modality: offset, length and runs of embeddings."""


def run_media_case(runner: CaseRunner, case: dict[str, Any]) -> Verdict:
    """One case of media.jsonl."""
    given, label = given_of(case), f"media {case['family']}"
    if case["family"] in MODES:
        given = on_ported_text(given, case["family"])
    try:
        encoder = runner.encoder(given)
    except JobError as error:
        return Verdict(case["id"], label, False, f"the model is refused: {error}")
    reason, rule = media_difference(encoder, run_prompts(encoder, given), case)
    return Verdict(case["id"], label, reason is None, reason or "", rule)


def given_of(case: dict[str, Any]) -> dict[str, Any]:
    """The case's input as other golden cases have it, its media made."""
    given = case["input"]
    engine = {"max_model_len": CONTEXT_LENGTH, **(given.get("engine") or {})}
    messages = made(given["messages"])
    return {**given, "messages": messages, "engine": engine, "kind": "chat"} | {
        "model_dir": case["model_dir"]
    }


def made(value: Any) -> Any:
    """A JSON value with `gen:` specs replaced by the media they describe."""
    if isinstance(value, dict):
        return {key: made(item) for key, item in value.items()}
    if isinstance(value, list):
        return [made(item) for item in value]
    if isinstance(value, str) and value.startswith("genb64:"):
        return genmedia().audio_b64("gen:" + value.removeprefix("genb64:"))
    return genmedia().expand(value)


@functools.cache
def genmedia() -> SimpleNamespace:
    """The module beside the cases that makes their media."""
    return SimpleNamespace(**run_path(str(SHARED / "golden" / "genmedia.py")))


def run_counts(runner: CaseRunner, table: Path) -> Iterator[Verdict]:
    """Every row of a table of counts."""

    def family_of(name: str, overlay: dict[str, Any], files: dict[str, Any]) -> Family:
        model = f"media/{'qwen2_vl' if name in FOLDERLESS else name}"
        mode = "mistral" if name.endswith("_mistral") else "hf"
        encoder = runner.encoder({"model_dir": model, "engine": {"tokenizer_mode": mode}})
        bundle = encoder.bundle
        codec: TextCodec = encoder.tokenizer.codec
        if name in FOLDERLESS:
            settings = {"preprocessor_config.json": files}
            bundle = replace(bundle, config={"model_type": name}, processor_configs=settings)
            codec = OneId()
        bundle = replace(bundle, config={**bundle.config, **overlay})
        builder = find_builder(bundle.config)
        assert builder is not None
        return builder(bundle, codec)

    for name, reason in count_differences(table, family_of):
        yield Verdict(name, f"counts {name.split()[0]}", reason is None, reason or "")


class OneId:
    """A tokenizer that knows every text as one id, for families without a folder."""

    def encode(self, text: str) -> tuple[Ids, Offsets]:
        """One id."""
        return np.zeros(1, np.int32), np.array([[0, len(text)]], np.int32)

    def decode(self, ids: Ids) -> str:
        """Nothing."""
        return ""


def media_difference(
    encoder: Encoder, found: list[TokenizedJob] | RowError, case: dict[str, Any]
) -> tuple[str | None, str | None]:
    """Why a case differs (None: it does not), and the rule that explains a difference."""
    expected = case["expected"]
    wanted = expected.get("error")
    if isinstance(found, RowError):
        if wanted is not None:
            return media_error_difference(found, wanted)
        if found.code is ErrorCode.PLACEHOLDER_IN_TEXT and "typed" in case["id"]:
            return None, "typed_placeholder"
        return f"refused: {found.code} {found.message}", None
    if wanted is not None:
        return f"accepted, the reference refused: {wanted['message'][:200]}", None
    (item,) = found
    engine_error = expected.get("engine_error")
    if engine_error is not None and "encoder cache" in engine_error["message"]:
        return shape_difference(item, expected), "encoder_cache"
    reason = shape_difference(item, expected) or engine_difference(encoder, item, engine_error)
    return reason, "deepseek_text" if case["family"] in MODES else None


def shape_difference(item: TokenizedJob, expected: dict[str, Any]) -> str | None:
    """None when ids and spans are the reference's."""
    return difference(item.tokens.ids.tolist(), ids_of(expected), "ids") or difference(
        placed(item.spans), placed_there(expected), "spans"
    )


def media_error_difference(ours: RowError, theirs: dict[str, Any]) -> tuple[str | None, str | None]:
    """The same for two errors."""
    if ours.code is ErrorCode.INTERNAL_ERROR:
        return f"ours is internal: {ours.message}", None
    if theirs["type"] in ("AssertionError", "RuntimeError"):
        lost = ours.code in {ErrorCode.MEDIA_SPLIT, ErrorCode.PLACEHOLDER_MISMATCH}
        turned = ours.code is ErrorCode.MEDIA_UNSUPPORTED and "EXIF" in ours.message
        return (None if lost or turned else f"{ours.code} for {theirs['type']}"), "media_lost"
    if theirs["http_status"] >= 500:
        return None, "own_500"
    if theirs["type"] == "VLLMValidationError":
        return error_difference(ours, theirs), None
    return None, None


def ids_of(expected: dict[str, Any]) -> list[int]:
    """The ids of an answer, given one by one or by runs."""
    if "prompt_token_ids" in expected:
        return list(expected["prompt_token_ids"])
    return [i for i, count in expected["prompt_token_ids_rle"] for _ in range(count)]


def placed(spans: tuple[MediaSpan, ...]) -> Placed:
    """Our spans by modality."""
    found: Placed = defaultdict(list)
    for span in spans:
        runs = [[a, a + n] for a, n in span.embed_runs or ((0, span.length),) if n]
        found[span.modality.value].append((span.offset, span.length, runs))
    return dict(found)


def placed_there(expected: dict[str, Any]) -> Placed:
    """The reference's."""
    return {
        modality: [
            (one["offset"], one["length"], one.get("is_embed_runs", [[0, one["length"]]]))
            for one in found
        ]
        for modality, found in (expected.get("mm_placeholders") or {}).items()
    }


def engine_difference(
    encoder: Encoder, item: TokenizedJob, wanted: dict[str, Any] | None
) -> str | None:
    """What the engine refuses after rendering, we refuse."""
    try:
        encoder.settler.settle(item)
    except RowError as error:
        return None if wanted is not None else f"refused after rendering: {error.message}"
    return None if wanted is None else f"the engine refuses: {wanted['message']}"
