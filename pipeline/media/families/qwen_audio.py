"""Qwen2-Audio, and how Qwen's audio encoders shorten a spectrogram."""

from __future__ import annotations

from dataclasses import dataclass

from promptmill.pipeline.media.base import (
    INDEX,
    AudioInfo,
    Family,
    MediaRule,
    Replacement,
    Site,
    TextCodec,
    refused,
    register_family,
)
from promptmill.pipeline.media.resample import samples_at
from promptmill.pipeline.media.tokens import need_id, repeated
from promptmill.pipeline.media.values import feature_extractor
from promptmill.schemas.bundle import ModelBundle
from promptmill.schemas.media import Modality


def halved_twice(frames: int) -> int:
    """Ids of a spectrogram in Qwen2's audio encoder. Floor division, also of negatives."""
    return ((frames - 1) // 2 + 1 - 2) // 2 + 1


@dataclass(frozen=True, slots=True)
class Qwen2Audio:
    """Sounds of at most one chunk; the rest is not heard."""

    audio_id: int
    rate: int
    hop: int
    """Samples from frame to frame."""
    most_frames: int

    def expand(self, info: AudioInfo, site: Site) -> Replacement:
        """One id for four frames."""
        samples = samples_at(info, self.rate)
        count = halved_twice(min(-(-samples // self.hop), self.most_frames))
        return Replacement(repeated(self.audio_id, heard(count, samples)))


def heard(count: int, samples: int) -> int:
    """`count`, refused where nothing is left.

    Raises:
        RowError: MEDIA_UNSUPPORTED.
    """
    if count <= 0:
        raise refused(Modality.AUDIO, f"its {samples} samples are too short for one token")
    return count


@register_family("Qwen2AudioForConditionalGeneration", "qwen2_audio")
def qwen2_audio_family(bundle: ModelBundle, codec: TextCodec) -> Family:
    """Qwen2-Audio."""
    files = feature_extractor(bundle)
    token = "<|AUDIO|>"
    sounds = Qwen2Audio(
        need_id(codec, token),
        rate=files.integer("sampling_rate", 16_000),
        hop=files.integer("hop_length", 160),
        most_frames=files.integer("nb_max_frames", 3000),
    )
    rule = MediaRule(
        expand=sounds.expand,
        placeholder=f"Audio {INDEX}: <|audio_bos|>{token}<|audio_eos|>",
        target=token,
    )
    return Family(name="Qwen2-Audio", audio=rule)
