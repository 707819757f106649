"""Bundles made by hand: rendering needs no tokenizer, only the spellings of its added tokens."""

import json
from collections.abc import Callable
from datetime import datetime
from typing import Any

import pytest

from facts import tokenizer_facts
from promptmill.pipeline.render.base import MediaRules
from promptmill.pipeline.render.hf import HfRenderer
from promptmill.schemas.bundle import ModelBundle
from promptmill.schemas.options import JobOptions
from promptmill.schemas.request import ChatPrompt, Endpoint, Place, Rendered, Request

CLOCK = datetime.fromisoformat("2026-01-15T12:00:00")
CHATML = (
    "{% for m in messages %}{{ '<|im_start|>' + m.role + '\n' + m.content + '<|im_end|>\n' }}"
    "{% endfor %}{% if add_generation_prompt %}{{ '<|im_start|>assistant\n' }}{% endif %}"
)
ADDED = ("<|im_start|>", "<|im_end|>", "<think>", "</think>", "<s>", "  ", "[gMASK]", "sop")


def bundle_of(template: str | None = CHATML, **fields: Any) -> ModelBundle:
    facts = tokenizer_facts(
        vocab_size=90, eos_token_id=1, all_special_ids=(1,), all_special_tokens=("<|im_end|>",)
    )
    backend = {"added_tokens": [{"id": n, "content": text} for n, text in enumerate(ADDED)]}
    templates = {} if template is None else {"default": template}
    return ModelBundle(
        name="tiny",
        revision=None,
        tokenizer_mode="hf",
        facts=facts,
        backend=json.dumps(backend),
        special_tokens_map={"eos_token": "<|im_end|>"},
        derived_max_model_len=4096,
        **{"chat_templates": templates, **fields},
    )


def request_of(*messages: dict[str, Any], **fields: Any) -> Request:
    return Request(
        custom_id="a",
        place=Place("rows.jsonl", 0),
        endpoint=Endpoint.CHAT,
        prompt=ChatPrompt(messages=list(messages), **fields),
    )


def renderer_of(
    template: str | None = CHATML,
    *,
    bundle: ModelBundle | None = None,
    media: MediaRules | None = None,
    **options: Any,
) -> HfRenderer:
    job = JobOptions(input=("rows.jsonl",), output="out", model="tiny", **options)
    return HfRenderer(bundle or bundle_of(template), job, CLOCK, media)


@pytest.fixture
def make_bundle() -> Callable[..., ModelBundle]:
    """A bundle of one template."""
    return bundle_of


@pytest.fixture
def make_request() -> Callable[..., Request]:
    """A chat of some messages and other fields of `ChatPrompt`."""
    return request_of


@pytest.fixture
def make_renderer() -> Callable[..., HfRenderer]:
    """A renderer of one template, or of a bundle, and of job options."""
    return renderer_of


@pytest.fixture
def chat() -> Callable[..., Rendered]:
    """Renders messages in one go; `row` holds further fields of `ChatPrompt`."""

    def render(
        *messages: dict[str, Any],
        template: str | None = CHATML,
        row: dict[str, Any] | None = None,
        **renderer: Any,
    ) -> Rendered:
        return renderer_of(template, **renderer).render(request_of(*messages, **(row or {})))

    return render
