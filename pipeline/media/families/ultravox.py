"""Ultravox. Its processor is remote code: nothing is checked."""

from __future__ import annotations

import math
from dataclasses import dataclass

from promptmill.pipeline.media.base import (
    AudioInfo,
    Family,
    MediaRule,
    Replacement,
    Site,
    TextCodec,
    register_family,
)
from promptmill.pipeline.media.resample import samples_at
from promptmill.pipeline.media.tokens import repeated
from promptmill.pipeline.media.values import config_values, processor
from promptmill.schemas.bundle import ModelBundle

PLACEHOLDER = "<|audio|>"
RATE, HOP, CHUNK = 16_000, 160, 3000
"""Samples a second, samples from frame to frame, frames of one chunk of the encoder."""


@dataclass(frozen=True, slots=True)
class UltravoxAudio:
    """Sounds in chunks of half a minute."""

    audio_id: int
    per_id: int
    """Frames of one id."""

    def expand(self, info: AudioInfo, site: Site) -> Replacement:
        """Ids of every chunk, the last one begun or whole."""
        frames = math.ceil(samples_at(info, RATE) / HOP)
        whole, rest = divmod(frames, CHUNK)
        count = whole * math.ceil(CHUNK / self.per_id) + math.ceil(rest / self.per_id)
        return Replacement(repeated(self.audio_id, count))


@register_family("UltravoxModel", "ultravox")
def ultravox_family(bundle: ModelBundle, codec: TextCodec) -> Family:
    """Ultravox."""
    config, texts = config_values(bundle), processor(bundle)
    per_id = texts.integer("encoder_ds_factor", 2) * config.integer("stack_factor", 8)
    sounds = UltravoxAudio(config.integer("audio_token_index"), per_id)
    rule = MediaRule(expand=sounds.expand, placeholder=PLACEHOLDER, target=PLACEHOLDER)
    return Family(name="Ultravox", audio=rule)
