"""Qwen2.5-Omni and Qwen3-Omni: images, sounds, videos."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import partial

from promptmill.pipeline.media.base import (
    AudioInfo,
    Family,
    MediaRule,
    Replacement,
    Site,
    TextCodec,
    VideoInfo,
    refused,
    register_family,
)
from promptmill.pipeline.media.families.qwen_audio import halved_twice, heard
from promptmill.pipeline.media.families.qwen_vl import (
    QWEN2_IMAGE,
    QWEN2_VIDEO,
    expand_image,
    expand_qwen2_video,
)
from promptmill.pipeline.media.patch_grid import PatchGrid
from promptmill.pipeline.media.resample import samples_at
from promptmill.pipeline.media.resize import AreaBounds
from promptmill.pipeline.media.tokens import need_id, repeated, special_token
from promptmill.pipeline.media.values import (
    feature_extractor,
    image_processor,
    row_values,
    video_processor,
)
from promptmill.schemas.bundle import ModelBundle
from promptmill.schemas.errors import ErrorCode, RowError
from promptmill.schemas.media import Modality

QWEN25_BOUNDS = AreaBounds(128 * 28 * 28, 768 * 28 * 28)
"""Frame sizes of the processor class; it sets them over those of the model's files."""
QWEN3_BOUNDS = AreaBounds(128 * 32 * 32, 768 * 32 * 32)

_CHUNK_FRAMES, _CHUNK_TOKENS = 100, 13
"""Qwen3-Omni's encoder hears chunks of so many frames, each so many ids."""


@dataclass(frozen=True, slots=True)
class OmniAudio:
    """Sounds of any length the server decodes."""

    audio_id: int
    rate: int
    hop: int
    """Samples from frame to frame."""
    most_frames: int
    """Where a row asks for `truncation`."""
    count: Callable[[int, int], int]
    """Samples and hop to frames."""
    tokens: Callable[[int], int]
    """Frames to ids."""

    def expand(self, info: AudioInfo, site: Site) -> Replacement:
        """Ids by duration."""
        samples = samples_at(info, self.rate)
        frames = self.count(samples, self.hop)
        if row_values(site.kwargs, Modality.AUDIO).flag("truncation", False):
            frames = min(frames, self.most_frames)
        return Replacement(repeated(self.audio_id, heard(self.tokens(frames), samples)))


def _expand_video(video_id: int, grid: PatchGrid, info: VideoInfo, site: Site) -> Replacement:
    """A video as in Qwen2-VL.

    Raises:
        RowError: as there; UNSUPPORTED_REQUEST where its sound is to be woven in.
    """
    if row_values(site.kwargs, Modality.VIDEO).flag("use_audio_in_video", False):
        raise RowError(
            ErrorCode.UNSUPPORTED_REQUEST,
            "use_audio_in_video is not supported: the sound of a video is not woven into it. "
            "Leave the argument out, or give the sound as an item of its own.",
            parameter="mm_processor_kwargs",
        )
    return expand_qwen2_video(video_id, grid, info, site)


def whole_hops(samples: int, hop: int) -> int:
    """Frames that a mask sees which is padded on the left: the last one must be full."""
    return samples // hop


def begun_hops(samples: int, hop: int) -> int:
    """Frames that a mask sees which is padded on the right."""
    return -(-samples // hop)


def padded_hops(samples: int, hop: int) -> int:
    """Frames of a sound that the server fills up to whole hops.

    Raises:
        RowError: one hop is too little to transform.
    """
    if samples <= hop:
        raise refused(Modality.AUDIO, f"it has {samples} samples, and {hop + 1} are the least")
    return begun_hops(samples, hop)


def chunked(frames: int) -> int:
    """Ids of a spectrogram in Qwen3-Omni's encoder: whole chunks, and what is left."""
    chunks, rest = divmod(frames, _CHUNK_FRAMES)
    for _ in range(3):
        rest = (rest - 1) // 2 + 1
    return rest + chunks * _CHUNK_TOKENS


@register_family("Qwen2_5OmniModel", "Qwen2_5OmniForConditionalGeneration", "qwen2_5_omni")
def qwen25_omni_family(bundle: ModelBundle, codec: TextCodec) -> Family:
    """Qwen2.5-Omni."""
    left = feature_extractor(bundle).text("padding_side", "right") == "left"
    sounds = partial(_sounds, bundle, codec, whole_hops if left else begun_hops, halved_twice)
    return _family("Qwen2.5-Omni", bundle, codec, QWEN25_BOUNDS, sounds)


@register_family("Qwen3OmniMoeForConditionalGeneration", "qwen3_omni_moe")
def qwen3_omni_family(bundle: ModelBundle, codec: TextCodec) -> Family:
    """Qwen3-Omni."""
    sounds = partial(_sounds, bundle, codec, padded_hops, chunked)
    return _family("Qwen3-Omni", bundle, codec, QWEN3_BOUNDS, sounds)


def _sounds(
    bundle: ModelBundle,
    codec: TextCodec,
    count: Callable[[int, int], int],
    tokens: Callable[[int], int],
    token: str,
) -> OmniAudio:
    files = feature_extractor(bundle)
    return OmniAudio(
        need_id(codec, token),
        rate=files.integer("sampling_rate", 16_000),
        hop=files.integer("hop_length", 160),
        most_frames=files.integer("nb_max_frames", 3000),
        count=count,
        tokens=tokens,
    )


def _family(
    name: str,
    bundle: ModelBundle,
    codec: TextCodec,
    video_bounds: AreaBounds,
    sounds: Callable[[str], OmniAudio],
) -> Family:
    begin = special_token(bundle, "vision_bos_token", "<|vision_start|>")
    end = special_token(bundle, "vision_eos_token", "<|vision_end|>")
    image = special_token(bundle, "image_token", "<|image_pad|>")
    video = special_token(bundle, "video_token", "<|video_pad|>")
    audio = special_token(bundle, "audio_token", "<|audio_pad|>")
    hear = special_token(bundle, "audio_bos_token", "<|audio_start|>")
    heard_all = special_token(bundle, "audio_eos_token", "<|audio_end|>")
    video_grid: PatchGrid = replace(QWEN2_VIDEO.read(video_processor(bundle)), bounds=video_bounds)
    return Family(
        name=name,
        image=MediaRule(
            expand=partial(
                expand_image, need_id(codec, image), QWEN2_IMAGE.read(image_processor(bundle))
            ),
            placeholder=begin + image + end,
            target=image,
        ),
        audio=MediaRule(
            expand=sounds(audio).expand, placeholder=hear + audio + heard_all, target=audio
        ),
        video=MediaRule(
            expand=partial(_expand_video, need_id(codec, video), video_grid),
            placeholder=begin + video + end,
            target=video,
        ),
    )
