"""Whisper: the sound goes to the encoder, the prompt stays as it is."""

from __future__ import annotations

from functools import partial

from promptmill.pipeline.media.base import (
    AudioInfo,
    Family,
    MediaRule,
    Replacement,
    Site,
    TextCodec,
    register_family,
)
from promptmill.pipeline.media.tokens import repeated
from promptmill.pipeline.media.values import config_values
from promptmill.schemas.bundle import ModelBundle


def _expand(positions: int, info: AudioInfo, site: Site) -> Replacement:
    """The encoder's prompt: as many zeros as it has positions, whatever the duration."""
    return Replacement(repeated(0, positions))


@register_family("WhisperForConditionalGeneration", "whisper")
def whisper_family(bundle: ModelBundle, codec: TextCodec) -> Family:
    """Whisper."""
    positions = config_values(bundle).integer("max_source_positions", 1500)
    rule = MediaRule(expand=partial(_expand, positions), placeholder=None, target="", limit=1)
    return Family(name="Whisper", audio=rule, in_encoder=True)
