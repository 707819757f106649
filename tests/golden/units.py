"""Unit cases: TokenizeParams alone, with a stand-in for the tokenizer's facts."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from compare import Verdict, difference, error_difference
from promptmill.pipeline.fit import Fitter
from promptmill.pipeline.params import TokenizeParams
from promptmill.pipeline.tokenize import Tokens
from promptmill.schemas.errors import RowError

FIELDS = (
    "max_total_tokens",
    "max_output_tokens",
    "pad_prompt_tokens",
    "truncate_prompt_tokens",
    "truncation_side",
    "do_lower_case",
    "add_special_tokens",
    "return_token_offsets",
    "needs_detokenization",
    "max_total_tokens_param",
    "max_output_tokens_param",
    "truncate_prompt_tokens_param",
)
PARALLEL = ("prompt_token_offsets", "prompt_is_token_ids")


def run_unit(case: dict[str, Any]) -> Verdict:
    """One unit case."""
    given, expected = case["input"], case["expected"]
    label = f"unit {given['op']}"
    rule = None
    try:
        ours = OPERATIONS[given["op"]](TokenizeParams(**given["params"]), given)
    except RowError as error:
        if expected["error"] is not None:
            reason = error_difference(error, expected["error"])
        elif _pads_without_token(given):
            reason, rule = None, "no_pad_token"
        else:
            reason = f"refused: {error.message}"
    else:
        reason = difference(ours, expected["result"], given["op"])
        if expected["error"] is not None:
            reason = f"accepted, the reference refused: {expected['error']['message']}"
    return Verdict(case["id"], label, reason is None, reason or "", rule)


def _pads_without_token(given: dict[str, Any]) -> bool:
    asks = given["params"].get("pad_prompt_tokens") is not None
    return asks and (given.get("tokenizer") or {}).get("pad_token_id") is None


def _fields(params: TokenizeParams) -> dict[str, Any]:
    return {name: getattr(params, name) for name in FIELDS}


def _init(params: TokenizeParams, given: dict[str, Any]) -> dict[str, Any]:
    derived = {
        "max_input_tokens": params.max_input_tokens,
        "max_truncation_tokens": params.max_truncation_tokens,
    }
    return derived | _fields(params)


def _pre(params: TokenizeParams, given: dict[str, Any]) -> dict[str, Any]:
    tokenizer = given.get("tokenizer")
    limit = None if tokenizer is None else tokenizer["max_chars_per_token"]
    text, shift = params.fit_text(given["text"], limit)
    return {"char_offset": shift, "prompt": text}


def _post(params: TokenizeParams, given: dict[str, Any]) -> dict[str, Any]:
    facts = given.get("tokenizer") or {}
    side = facts.get("truncation_side", "left")
    prompt = dict(given["prompt"])
    if "prompt_token_ids" in prompt:
        ids = np.array(prompt["prompt_token_ids"], np.int32)
        tokens = Tokens(
            ids=ids,
            offsets=None,
            mask=None,
            text=None,
            fitted_text=None,
            original_num_tokens=len(ids),
        )
        fitter = Fitter(side, facts.get("pad_token_id"))
        prompt["prompt_token_ids"] = fitter.first_cut(tokens, params).ids.tolist()
    for name in PARALLEL:
        if name in prompt:
            prompt[name] = _cut(prompt[name], params, side)
    return prompt


def _cut(values: Sequence[Any], params: TokenizeParams, side: str) -> Sequence[Any]:
    part = params.truncation_slice(len(values), side)
    return values if part is None else values[part]


OPERATIONS = {
    "init": _init,
    "encode_kwargs": lambda params, given: params.encode_kwargs(),
    "with_kwargs": lambda params, given: _fields(params.with_kwargs(**given["kwargs"])),
    "pre": _pre,
    "post": _post,
}
