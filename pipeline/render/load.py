"""Which renderer a model needs."""

from __future__ import annotations

from collections.abc import Callable
from datetime import datetime
from typing import Final, TypeAlias

from promptmill.pipeline.render.base import MediaRules, Renderer
from promptmill.pipeline.render.harmony import HarmonyRenderer
from promptmill.pipeline.render.hf import HfRenderer
from promptmill.pipeline.render.official import OfficialRenderer
from promptmill.schemas.bundle import ModelBundle
from promptmill.schemas.errors import JobError
from promptmill.schemas.options import JobOptions

RendererFactory: TypeAlias = Callable[
    [ModelBundle, JobOptions, datetime, MediaRules | None], Renderer
]


def _mistral(
    bundle: ModelBundle, options: JobOptions, clock: datetime, media: MediaRules | None
) -> Renderer:
    from promptmill.pipeline.render.mistral import MistralRenderer  # most of a second

    return MistralRenderer(bundle, options, clock, media)


_RENDERERS: Final[dict[str, RendererFactory]] = {
    "hf": HfRenderer,
    "mistral": _mistral,
    "deepseek_v4": OfficialRenderer,
    "deepseek_v41": OfficialRenderer,
}
"""By tokenizer mode."""

_HARMONY: Final = "gpt_oss"
"""The model type whose chats the server writes without a template, in mode hf."""


def load_renderer(
    bundle: ModelBundle,
    options: JobOptions,
    clock: datetime,
    media: MediaRules | None = None,
) -> Renderer:
    """The renderer of a model.

    Args:
        bundle: the model; its tokenizer mode decides.
        options: the job's.
        clock: what `strftime_now` tells templates.
        media: the model's media rules; None: it takes text only.

    Raises:
        JobError: no renderer for this tokenizer mode, or `--chat-template` names no file.
    """
    factory = _RENDERERS.get(bundle.tokenizer_mode)
    if factory is None:
        raise JobError(
            f"tokenizer_mode {bundle.tokenizer_mode!r} is not supported yet: it would need a "
            f"renderer of its own. Supported: {', '.join(sorted(_RENDERERS))}."
        )
    if bundle.tokenizer_mode == "hf" and bundle.model_type == _HARMONY:
        factory = HarmonyRenderer
    return factory(bundle, options, clock, media)
