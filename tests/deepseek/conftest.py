"""DeepSeek models: made-up ones that only render, and the released tokenizers."""

import json
from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path
from types import ModuleType

import pytest

from facts import tokenizer_facts
from promptmill.pipeline.model.deepseek_tokens import IMAGE_ID, SYSTEM, V4, V4_SPELLINGS, V41
from promptmill.pipeline.model.load import load_bundle
from promptmill.pipeline.render.official import OfficialRenderer
from promptmill.schemas.bundle import ModelBundle
from promptmill.schemas.json_types import JsonObject
from promptmill.schemas.options import JobOptions
from promptmill.schemas.request import Api, ApiPrompt, Endpoint, Place, Rendered, Request

MakeBundle = Callable[..., ModelBundle]
Render = Callable[..., Rendered]
RELEASES = {V4: "deepseek_recipe_v4", V41: "deepseek_recipe_v41"}


@pytest.fixture(scope="session")
def library() -> ModuleType:
    """The official library; tests that need it skip without it."""
    module: ModuleType = pytest.importorskip("deepseek_recipe")
    return module


@pytest.fixture(scope="session")
def make_bundle() -> MakeBundle:
    """A bundle whose tokenizer has added tokens only: enough to render."""

    def make(mode: str = V41, tokens: dict[str, int] | None = None) -> ModelBundle:
        if tokens is None:
            spellings = (*V4_SPELLINGS, SYSTEM)
            tokens = {spelling: i for i, spelling in enumerate(spellings)} | {
                "<｜image｜>": IMAGE_ID
            }
        facts = tokenizer_facts(
            max_chars_per_token=128,
            max_token_id=IMAGE_ID,
            vocab_size=1,
            length=1,
            bos_token_id=0,
            eos_token_id=1,
            tokenizer_class="",
        )
        added = [{"id": i, "content": spelling} for spelling, i in tokens.items()]
        return ModelBundle(
            name="models/made-up",
            revision=None,
            tokenizer_mode=mode,
            facts=facts,
            backend=json.dumps({"added_tokens": added}),
            derived_max_model_len=4096,
        )

    return make


@pytest.fixture(scope="session")
def render(make_bundle: MakeBundle, library: ModuleType) -> Render:
    """Renders one body: render(body, api=..., mode=..., **job options)."""

    def made(
        body: JsonObject, api: Api = Api.CHAT_COMPLETIONS, mode: str = V41, **options: object
    ) -> Rendered:
        job = JobOptions.model_validate(
            {"input": ("rows",), "output": "out", "model": "made-up", **options}
        )
        renderer = OfficialRenderer(make_bundle(mode), job, datetime(2026, 1, 1, tzinfo=UTC))
        return renderer.render(request_of(body, api))

    return made


def request_of(body: JsonObject, api: Api = Api.CHAT_COMPLETIONS) -> Request:
    return Request(
        custom_id="row",
        place=Place("rows", 0),
        endpoint=Endpoint.CHAT,
        prompt=ApiPrompt(api, body),
    )


@pytest.fixture(scope="session")
def released(models: Path, library: ModuleType) -> Callable[[str], ModelBundle]:
    """The bundle of a mode's released tokenizer; loaded once."""
    loaded: dict[str, ModelBundle] = {}

    def bundle(mode: str) -> ModelBundle:
        if mode not in loaded:
            options = JobOptions(
                input=("rows",),
                output="out",
                model=str(models / RELEASES[mode]),
                tokenizer_mode=mode,
            )
            loaded[mode] = load_bundle(options)
        return loaded[mode]

    return bundle
