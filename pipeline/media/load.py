"""From a model bundle to its expander, where a run starts."""

from __future__ import annotations

import ipaddress
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from promptmill.pipeline.engines.base import Engine
from promptmill.pipeline.engines.decode import Decoder
from promptmill.pipeline.media.admit import supported_modalities
from promptmill.pipeline.media.base import FamilyBuilder, TextCodec, find_builder
from promptmill.pipeline.media.expander import Expander
from promptmill.pipeline.media.families.deepseek_v41 import official_v41_family
from promptmill.pipeline.media.fetch import MediaReader
from promptmill.pipeline.media.http_fetch import HttpFetcher
from promptmill.pipeline.media.own_family import family_source, register_source
from promptmill.pipeline.media.sizer import MediaSizer
from promptmill.pipeline.model.deepseek_tokens import V4, V41
from promptmill.schemas.bundle import ModelBundle
from promptmill.schemas.errors import JobError
from promptmill.schemas.json_types import JsonObject
from promptmill.schemas.media import Modality
from promptmill.schemas.options import JobOptions
from promptmill.schemas.request import Ids, Offsets

if TYPE_CHECKING:
    from promptmill.pipeline.engines.mistral import Mistral

_SIGNS = (
    "vision_config",
    "audio_config",
    "vision_encoder",
    "thinker_config",
    "image_token_id",
    "image_token_index",
    "audio_token_id",
    "audio_token_index",
    "video_token_id",
    "mm_vision_tower",
    "img_processor",
    "visual",
)
"""Keys of config.json that only models with media have."""


_BY_MODE: Final[dict[str, FamilyBuilder]] = {V41: official_v41_family}
"""Tokenizer modes whose library has image rules of its own, whatever the config says."""


@dataclass(frozen=True, slots=True)
class EngineCodec:
    """The model's tokenizer as families use it."""

    engine: Engine
    decoder: Decoder | Mistral

    def encode(self, text: str) -> tuple[Ids, Offsets]:
        """Ids and code point spans; nothing added."""
        tokens = self.engine.encode([text], offsets=True)
        assert tokens.offsets is not None
        return tokens.ids, tokens.offsets

    def decode(self, ids: Ids) -> str:
        """Text of ids, special tokens kept."""
        return self.decoder.decode(ids.tolist())


def load_expander(bundle: ModelBundle, options: JobOptions, codec: TextCodec) -> Expander | None:
    """The expander of a model; None for a model that takes text only.

    Args:
        bundle: the model.
        options: limits, processor arguments, where media may come from.
        codec: the model's tokenizer.

    Raises:
        JobError: a model with media whose family is not known, or whose files lack what the
            family needs; a --media-family that fails.
    """
    if _no_media_wanted(options):
        return None
    if bundle.tokenizer_mode == V4:
        return None  # official prompts of V4 say in words that there was an image
    source = family_source(options.media_family)
    if source is not None:
        register_source(source)
    builder = _BY_MODE.get(bundle.tokenizer_mode) or find_builder(bundle.config)
    if builder is None:
        if any(sign in bundle.config for sign in _SIGNS):
            raise JobError(_unknown(bundle.config))
        return None
    family = builder(bundle, codec)
    http = HttpFetcher(
        frozenset(domain.lower() for domain in options.allowed_media_domains),
        [ipaddress.ip_network(network) for network in options.allowed_media_networks],
    )
    return Expander(
        family,
        codec,
        MediaSizer(MediaReader(options.allowed_media_root, http), check=options.check_media),
        supported_modalities(family, options.limit_mm_per_prompt),
    )


def _no_media_wanted(options: JobOptions) -> bool:
    """Whether the job allows no item of any modality."""
    return all(options.limit_mm_per_prompt.get(modality) == 0 for modality in Modality)


def _unknown(config: JsonObject) -> str:
    names = config.get("architectures")
    name = names[0] if isinstance(names, list) and names else config.get("model_type")
    return (
        f"The media rules of {name} are not known. Write a file that registers them with "
        "register_family (for each modality its placeholder, the text that is replaced and how "
        "many ids an item of a given size becomes) and give it with --media-family. If no row has "
        """media, give --limit-mm-per-prompt '{"image": 0, "audio": 0, "video": 0}'."""
    )
