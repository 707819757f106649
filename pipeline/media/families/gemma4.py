"""Gemma 4: images, sounds, videos."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, replace

import numpy as np

from promptmill.pipeline.media.base import (
    AudioInfo,
    Family,
    ImageInfo,
    MediaRule,
    Replacement,
    Site,
    TextCodec,
    VideoInfo,
    register_family,
)
from promptmill.pipeline.media.resample import samples_at
from promptmill.pipeline.media.sampling import evenly, sample
from promptmill.pipeline.media.tokens import encoder, need_id, repeated, special_token
from promptmill.pipeline.media.values import (
    Values,
    feature_extractor,
    image_processor,
    processor,
    row_values,
    video_processor,
)
from promptmill.schemas.bundle import ModelBundle
from promptmill.schemas.media import Modality
from promptmill.schemas.request import Ids

SOFT_TOKENS = (70, 140, 280, 560, 1120)
"""What `max_soft_tokens` may be."""


@dataclass(frozen=True, slots=True)
class Pooling:
    """How a picture becomes soft tokens: scaled, up or down, to use what it may."""

    patch: int
    kernel: int
    """Patches along a side that become one token."""
    most: int
    """Soft tokens of one picture."""

    def asked(self, values: Values) -> Pooling:
        """The same under the arguments of a row; raises RowError."""
        most = values.integer("max_soft_tokens", self.most)
        if most not in SOFT_TOKENS:
            values.fail("max_soft_tokens", f"one of {', '.join(map(str, SOFT_TOKENS))}")
        return replace(self, most=most)

    def tokens(self, height: int, width: int) -> int:
        """Soft tokens of a picture."""
        unit = self.patch * self.kernel
        patches = self.most * self.kernel**2
        scale = math.sqrt(patches / ((height / self.patch) * (width / self.patch)))
        rows = max(1, math.floor(height * scale / unit))
        columns = max(1, math.floor(width * scale / unit))
        return min(rows * columns, self.most)


@dataclass(frozen=True, slots=True)
class Framed:
    """Soft tokens of one kind between a begin and an end."""

    begin: int
    soft: int
    end: int

    def ids(self, count: int) -> Ids:
        """`count` soft tokens and their frame."""
        return np.concatenate(
            [repeated(self.begin, 1), repeated(self.soft, count), repeated(self.end, 1)]
        )


@dataclass(frozen=True, slots=True)
class Gemma4Image:
    """Images."""

    pooling: Pooling
    framed: Framed

    def expand(self, info: ImageInfo, site: Site) -> Replacement:
        """Soft tokens by size, framed."""
        pooling = self.pooling.asked(row_values(site.kwargs, Modality.IMAGE))
        count = pooling.tokens(info.height, info.width)
        return Replacement(self.framed.ids(count), self.framed.soft)


@dataclass(frozen=True, slots=True)
class Gemma4Audio:
    """Sounds: frames of a spectrogram, halved twice."""

    rate: int
    hop: int
    """Samples from frame to frame."""
    window: int
    """Samples of a frame."""
    most: int
    framed: Framed

    def expand(self, info: AudioInfo, site: Site) -> Replacement:
        """Soft tokens by duration, framed; a very short sound has none."""
        samples = samples_at(info, self.rate)
        frames = (samples + self.window // 2 - (self.window + 1)) // self.hop + 1
        count = max(0, frames)
        for _ in range(2):
            count = (count - 1) // 2 + 1 if count else 0
        return Replacement(self.framed.ids(min(count, self.most)), self.framed.soft)


@dataclass(frozen=True, slots=True)
class Gemma4Video:
    """Videos: every frame stands alone, with its time in front."""

    pooling: Pooling
    framed: Framed
    encode: Callable[[str], Ids]

    def expand(self, info: VideoInfo, site: Site) -> Replacement:
        """For each frame "mm:ss " and its soft tokens, framed."""
        pooling = self.pooling.asked(row_values(site.kwargs, Modality.VIDEO))
        frame = self.framed.ids(pooling.tokens(info.height, info.width))
        pieces = []
        for number, seconds in enumerate(sample(info, site, evenly, None).seconds()):
            minutes, rest = divmod(int(seconds), 60)
            time = f"{minutes:02d}:{rest:02d} "
            pieces += [self.encode(f" {time}" if number else time), frame]
        return Replacement(np.concatenate(pieces), self.framed.soft)


@register_family("Gemma4ForConditionalGeneration", "gemma4")
def gemma4_family(bundle: ModelBundle, codec: TextCodec) -> Family:
    """Gemma 4."""
    begin = special_token(bundle, "boi_token", "<|image>")
    end = special_token(bundle, "eoi_token", "<image|>")
    image = special_token(bundle, "image_token", "<|image|>")
    video = "<|video|>"
    pictures = Gemma4Image(
        _pooling(image_processor(bundle), 280), _framed(codec, begin, image, end)
    )
    frames = Gemma4Video(
        _pooling(video_processor(bundle), 70), _framed(codec, begin, video, end), encoder(codec)
    )
    return Family(
        name="Gemma 4",
        image=MediaRule(expand=pictures.expand, placeholder=image, target=image),
        audio=_audio_rule(bundle, codec),
        video=MediaRule(expand=frames.expand, placeholder=video, target=video),
    )


def _audio_rule(bundle: ModelBundle, codec: TextCodec) -> MediaRule[AudioInfo] | None:
    """Sounds, for the sizes of the model that hear."""
    if not isinstance(bundle.config.get("audio_config"), dict):
        return None
    token = special_token(bundle, "audio_token", "<|audio|>")
    begin = special_token(bundle, "boa_token", "<|audio>")
    end = special_token(bundle, "eoa_token", "<audio|>")
    files = feature_extractor(bundle)
    rate = files.integer("sampling_rate", 16_000)
    sounds = Gemma4Audio(
        rate=rate,
        hop=round(rate * files.number("hop_length_ms", 10.0) / 1000),
        window=round(rate * files.number("frame_length_ms", 20.0) / 1000),
        most=processor(bundle).integer("audio_seq_length", 750),
        framed=_framed(codec, begin, token, end),
    )
    return MediaRule(expand=sounds.expand, placeholder=token, target=token)


def _pooling(files: Values, most: int) -> Pooling:
    return Pooling(
        patch=files.side("patch_size", 16),
        kernel=files.integer("pooling_kernel_size", 3),
        most=files.integer("max_soft_tokens", most),
    )


def _framed(codec: TextCodec, begin: str, soft: str, end: str) -> Framed:
    return Framed(need_id(codec, begin), need_id(codec, soft), need_id(codec, end))
