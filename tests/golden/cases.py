"""Golden cases of every kind, each run the way a row of a job goes."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from msgspec.structs import replace

from compare import Verdict, difference, error_difference
from models import Encoders
from official import explain
from promptmill.pipeline.encoder import Encoder
from promptmill.pipeline.params import TokenizeParams
from promptmill.pipeline.parse.rows import parse_row
from promptmill.pipeline.render.harmony import HarmonyRenderer
from promptmill.pipeline.render.hf import HfRenderer
from promptmill.pipeline.render.official import OfficialRenderer
from promptmill.pipeline.render.variables import merged_kwargs
from promptmill.pipeline.steps import Job, TokenizedJob
from promptmill.schemas.errors import ErrorCode, RowError, Stage
from promptmill.schemas.media import MediaItem, Modality
from promptmill.schemas.request import (
    ChatPrompt,
    Endpoint,
    Place,
    RawRow,
    Reject,
    Rendered,
    Request,
    TextPrompt,
    TokensPrompt,
)
from units import run_unit

CHAT_FIELDS = (
    "messages",
    "tools",
    "chat_template",
    "chat_template_kwargs",
    "add_generation_prompt",
    "continue_final_message",
    "documents",
    "reasoning_effort",
)
MEDIA_OPTIONS = (
    "limit_mm_per_prompt",
    "mm_processor_kwargs",
    "allowed_media_domains",
    "interleave_mm_strings",
)
"""Settings of the server's engine that are options of a job."""
MEDIA_MODELS = ("_vl", "llava", "gemma3_mm", "internvl", "pixtral")


def is_in_group(case: dict[str, Any], group: str | None) -> bool:
    """Whether a case belongs to one of the groups text, media, deepseek."""
    if group is None:
        return True
    model = str(case.get("model_dir") or case["input"].get("model_dir", ""))
    mode = str((case["input"].get("engine") or {}).get("tokenizer_mode", ""))
    if mode.startswith("deepseek_v4") or "deepseek_recipe" in model:
        found = "deepseek"
    elif model.startswith("media/") or any(name in model for name in MEDIA_MODELS):
        found = "media"
    else:
        found = "text"
    return found == group


class CaseRunner:
    """Runs cases; loads each model once."""

    def __init__(self, models: Path | None) -> None:
        self._encoders = Encoders(models)

    def run(self, case: dict[str, Any]) -> Verdict:
        """One case, whatever its kind."""
        given, expected = case["input"], case["expected"]
        label = f"{given['kind']} {given.get('model_dir', '')}".strip()
        if given["kind"] == "unit":
            return run_unit(case)
        if not self._encoders.folder(given["model_dir"]).is_dir():
            return Verdict(case["id"], label, False, f"no model folder {given['model_dir']}")
        encoder = self.encoder(given)
        if given["kind"] == "tokenizer_info":
            reason = tokenizer_info_difference(encoder, expected["result"])
        else:
            reason, rule = self._row_difference(encoder, given, expected)
            if reason is not None and isinstance(encoder.renderer, OfficialRenderer):
                rule = explain(body_of(given), reason)
                reason = None if rule is not None else reason
            return Verdict(case["id"], label, reason is None, reason or "", rule)
        return Verdict(case["id"], label, reason is None, reason or "")

    def encoder(self, given: dict[str, Any]) -> Encoder:
        """The encoder for a case's model and the settings of its server."""
        engine, server = given.get("engine") or {}, given.get("server") or {}
        options: dict[str, object] = {
            "max_model_len": engine.get("max_model_len", 4096),
            "tokenizer_mode": engine.get("tokenizer_mode", "auto"),
            "trust_request_chat_template": server.get("trust_request_chat_template", True),
            "default_chat_template_kwargs": server.get("default_chat_template_kwargs") or {},
            "trust_request_mm_kwargs": server.get("trust_request_mm_kwargs", True),
        } | {name: engine[name] for name in MEDIA_OPTIONS if name in engine}
        for name in ("chat_template", "chat_template_content_format"):
            if server.get(name) is not None:
                options[name] = server[name]
        return self._encoders.get(given["model_dir"], **options)

    def _row_difference(
        self, encoder: Encoder, given: dict[str, Any], expected: dict[str, Any]
    ) -> tuple[str | None, str | None]:
        """Why a row differs (None: it does not), and the rule that explains a difference."""
        found = run_prompts(encoder, given)
        if isinstance(found, RowError):
            if expected.get("error") is not None:
                return error_difference(found, expected["error"]), None
            if found.parameter == "pad_prompt_tokens":
                return None, "no_pad_token"
            if found.code is ErrorCode.PLACEHOLDER_IN_TEXT:
                return None, "typed_placeholder"
            return f"refused: {found.code} {found.message}", None
        if expected.get("error") is not None:
            return f"accepted, the reference refused: {expected['error']['message'][:200]}", None
        wanted = expected.get("batch") or [expected]
        if len(found) != len(wanted):
            return f"{len(found)} prompts, the reference has {len(wanted)}", None
        reasons = (
            prompt_difference(encoder, item, one) for item, one in zip(found, wanted, strict=True)
        )
        rule = "harmony_text" if isinstance(encoder.renderer, HarmonyRenderer) else None
        return next((reason for reason in reasons if reason), None), rule


def body_of(given: dict[str, Any]) -> dict[str, Any]:
    """The request body a client would have sent."""
    request = dict(given.get("request") or {})
    if given["kind"] == "chat":
        return {k: given[k] for k in CHAT_FIELDS if k in given} | request
    return {"prompt": given["prompt"], **request}


def run_prompts(encoder: Encoder, given: dict[str, Any]) -> list[TokenizedJob] | RowError:
    """A row's prompts, cut and expanded, or the error it ends in."""
    refused: list[RowError] = []

    def refuse(job: Job, error: RowError, stage: Stage) -> None:
        refused.append(error)

    raw = RawRow("case", 0, json.dumps(body_of(given)).encode())
    try:
        jobs = [
            Job(raw, one, rules_of(encoder, one, given)) for one in requests(encoder, raw, given)
        ]
        rendered = encoder.render(jobs, refuse)
        if given["kind"] == "prompt_dict":
            rendered = [replace(one, rendered=with_media(one.rendered, given)) for one in rendered]
    except RowError as error:
        return error
    done = encoder.tokenize(rendered, refuse)
    return refused[0] if refused else done


def requests(encoder: Encoder, raw: RawRow, given: dict[str, Any]) -> list[Request]:
    """The requests of a case: parsed from its body, or made from a dict prompt.

    Raises:
        RowError: the body is refused.
    """
    if given["kind"] == "prompt_dict":
        prompt = given["prompt"]
        made = TokensPrompt(prompt["prompt_token_ids"]) if "prompt_token_ids" in prompt else None
        text = TextPrompt(prompt.get("prompt", ""))
        # As offline: no endpoint, so no endpoint's default budget.
        place, endpoint = Place("case", 0), Endpoint.CHAT
        return [Request(custom_id="case", place=place, endpoint=endpoint, prompt=made or text)]
    found: list[Request] = []
    for one in parse_row(raw, encoder.options):
        if isinstance(one, Reject):
            raise one.error
        found.append(one)
    return found


def with_media(rendered: Rendered, given: dict[str, Any]) -> Rendered:
    """A dict prompt's media beside its text or ids."""
    media = given["prompt"].get("multi_modal_data") or {}
    items = [
        MediaItem(Modality(modality), url=url) for modality, urls in media.items() for url in urls
    ]
    return replace(rendered, media=tuple(items))


def rules_of(encoder: Encoder, request: Request, given: dict[str, Any]) -> TokenizeParams:
    """The case's own TokenizeParams where it has them, else those of the request."""
    if given["kind"] == "prompt_dict":
        params = TokenizeParams(max_total_tokens=encoder.max_model_len)
        if given.get("params"):
            params = TokenizeParams(**given["params"])
        return params.with_kwargs(**given["with_kwargs"]) if given.get("with_kwargs") else params
    rules = encoder.admit(request)
    if given.get("params"):
        rules = TokenizeParams(**given["params"])
    return replace(rules, return_token_offsets=True)


def prompt_difference(encoder: Encoder, item: TokenizedJob, expected: dict[str, Any]) -> str | None:
    """None when a prompt equals the reference's in every field that it gives."""
    tokens, row = item.tokens, encoder.settler.token_row(item)
    text = row.text if tokens.fitted_text is None else tokens.fitted_text
    if isinstance(encoder.renderer, HarmonyRenderer):
        text = None  # the deliberate difference harmony_text
    checks = [
        difference(row.ids.tolist(), expected["prompt_token_ids"], "ids"),
        difference(text, expected["prompt"], "prompt"),
    ]
    if expected.get("prompt_token_offsets") is not None:
        ours = None if tokens.offsets is None else tokens.offsets.tolist()
        checks.append(difference(ours, expected["prompt_token_offsets"], "offsets"))
    if expected.get("conversation") is not None:
        checks.append(conversation_difference(encoder, item.job, expected["conversation"]))
    checks.append(engine_difference(encoder, item, expected.get("engine") or {}))
    return next((reason for reason in checks if reason), None)


def conversation_difference(encoder: Encoder, job: Job, expected: list[Any]) -> str | None:
    """None when the template sees what the reference's template saw."""
    request, renderer = job.request, encoder.renderer
    if not isinstance(renderer, HfRenderer):
        return None  # other renderers take the messages as they came
    assert isinstance(request.prompt, ChatPrompt)
    ours = renderer.conversation(
        request.prompt, merged_kwargs(request, request.prompt, encoder.options)
    )
    return difference(ours.messages, expected, "conversation")


def engine_difference(encoder: Encoder, item: TokenizedJob, expected: dict[str, Any]) -> str | None:
    """The output budget, and what the engine refuses after rendering."""
    error: RowError | None = None
    budget: int | None = None
    try:
        budget = encoder.settler.settle(item).max_tokens
    except RowError as refused:
        error = refused
    wanted = expected.get("error") or expected.get("max_tokens_error")
    if wanted is None:
        if error is not None:
            return f"refused after rendering: {error.message}"
        return difference(budget, expected.get("max_tokens"), "max_tokens")
    if error is None:
        return f"the engine refuses: {wanted['message']}"
    return error_difference(error, wanted)


def tokenizer_info_difference(encoder: Encoder, expected: dict[str, Any]) -> str | None:
    """None when the derived facts of the tokenizer are the server's."""
    facts = encoder.bundle.facts
    ours = {
        "is_fast": facts.is_fast,
        "vocab_size": facts.vocab_size,
        "len": facts.length,
        "max_token_id": facts.max_token_id,
        "max_chars_per_token": facts.max_chars_per_token,
        "truncation_side": str(facts.truncation_side),
        "pad_token_id": facts.pad_token_id,
        "bos_token_id": facts.bos_token_id,
        "eos_token_id": facts.eos_token_id,
        "n_special": len(facts.all_special_ids),
        "model_vocab_size": encoder.bundle.model_vocab_size,
    }
    wanted = {name: expected[name] for name in ours if name in expected}
    return difference({name: ours[name] for name in wanted}, wanted, "facts")
