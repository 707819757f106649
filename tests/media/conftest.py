"""A small tokenizer with every token that families name, and bundles of real config files."""

from __future__ import annotations

import io
import json
from collections.abc import Callable
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path

import numpy as np
import pytest
from PIL import Image
from tokenizers import AddedToken, Tokenizer, decoders, models, pre_tokenizers

from facts import tokenizer_facts
from promptmill.pipeline.media.base import (
    Family,
    ImageInfo,
    MediaRule,
    Replacement,
    Site,
    find_builder,
)
from promptmill.pipeline.media.expander import Expander
from promptmill.pipeline.media.fetch import MediaReader
from promptmill.pipeline.media.http_fetch import HttpFetcher
from promptmill.pipeline.media.sizer import MediaSizer
from promptmill.schemas.bundle import ModelBundle
from promptmill.schemas.json_types import JsonObject
from promptmill.schemas.media import MediaItem, Modality
from promptmill.schemas.request import Ids, Offsets

FILES = ("preprocessor_config.json", "processor_config.json", "video_preprocessor_config.json")
SPECIAL = """
<|image_pad|> <|video_pad|> <|audio_pad|> <|vision_start|> <|vision_end|> <|audio_start|>
<|audio_end|> <|IMAGE|> <|VIDEO|> <|AUDIO|> <image> <video> <start_of_image> <end_of_image>
<image_soft_token> <|image> <image|> <|image|> <|video|> <|audio> <|audio|> <audio|> <img> </img>
<IMG_CONTEXT> [IMG] [IMG_BREAK] [IMG_END] <fake_token_around_image> <global-img> <|image_start|>
<|image_end|> <|patch|> <|tile_x_separator|> <|tile_y_separator|> <|begin_of_image|>
<|end_of_image|> <|begin_of_video|> <|end_of_video|> <bos> </image> <slice> </slice> <image_id>
</image_id> <｜deepseek_image｜> <|media_pad|> <|endoftext10|> <|endoftext11|> <|audio_bos|>
<|audio_eos|> <|vision_bos|> <|vision_eos|>
"""


@dataclass(frozen=True)
class TokenizerCodec:
    """A `tokenizers` tokenizer as families use one."""

    tokenizer: Tokenizer

    def encode(self, text: str) -> tuple[Ids, Offsets]:
        made = self.tokenizer.encode(text, add_special_tokens=False)
        return np.array(made.ids, np.int32), np.array(made.offsets, np.int32).reshape(-1, 2)

    def decode(self, ids: Ids) -> str:
        return str(self.tokenizer.decode(ids.tolist(), skip_special_tokens=False))


@pytest.fixture(scope="session")
def codec() -> TokenizerCodec:
    """Bytes as tokens, runs of newlines and every special token as one id each."""
    letters = sorted(pre_tokenizers.ByteLevel.alphabet())
    newlines = ["Ċ" * n for n in range(2, 5)]
    vocab = {token: n for n, token in enumerate([*letters, *newlines])}
    merges = [("Ċ", "Ċ"), ("ĊĊ", "Ċ"), ("ĊĊ", "ĊĊ")]
    tokenizer = Tokenizer(models.BPE(vocab=vocab, merges=merges))
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    tokenizer.decoder = decoders.ByteLevel()
    tokenizer.add_special_tokens([AddedToken(token, normalized=False) for token in SPECIAL.split()])
    return TokenizerCodec(tokenizer)


def make_bundle(
    config: JsonObject,
    processor_configs: dict[str, JsonObject] | None = None,
    special_tokens_map: dict[str, str | list[str]] | None = None,
    files: dict[str, bytes] | None = None,
) -> ModelBundle:
    """A bundle of which only what media need is real."""
    facts = tokenizer_facts(max_token_id=1000, vocab_size=1000, length=1000)
    return ModelBundle(
        name="model",
        revision=None,
        tokenizer_mode="mistral" if files else "hf",
        facts=facts,
        backend=None,
        files=files or {},
        special_tokens_map=special_tokens_map or {},
        config=config,
        processor_configs=processor_configs or {},
        derived_max_model_len=32_768,
    )


@pytest.fixture(scope="session")
def bundle_of() -> Callable[..., ModelBundle]:
    """`make_bundle`, for test modules."""
    return make_bundle


@pytest.fixture(scope="session")
def load_family(models: Path, codec: TokenizerCodec) -> Callable[..., Family]:
    """The family of a model folder: name, what to lay over config.json, further settings."""

    def load(name: str, overlay: JsonObject, files: JsonObject) -> Family:
        folder = models / "media" / name
        config = _json(folder / "config.json")
        if not folder.is_dir():  # the processor is remote code: `files` is all there is
            config = {"model_type": name}
        elif config is None:  # Mistral's own format, as the model loader makes it
            config = {"architectures": ["PixtralForConditionalGeneration"]}
        texts = _json(folder / "tokenizer_config.json") or {}
        named = {k: v for k, v in texts.items() if k.endswith("_token") and isinstance(v, str)}
        extra = texts.get("extra_special_tokens")
        tekken = folder / "tekken.json"
        found = {f: read for f in FILES if (read := _json(folder / f)) is not None}
        bundle = make_bundle(
            {**config, **overlay},
            {"preprocessor_config.json": files, **found},
            {**named, **extra} if isinstance(extra, dict) else named,
            {"tekken.json": tekken.read_bytes()} if tekken.exists() else None,
        )
        builder = find_builder(bundle.config)
        assert builder is not None
        return builder(bundle, codec)

    return load


def _json(path: Path) -> JsonObject | None:
    return json.loads(path.read_text(encoding="utf-8")) if path.exists() else None


@lru_cache
def png(width: int, height: int = 1) -> bytes:
    """A small picture of a given size."""
    file = io.BytesIO()
    Image.new("1", (width, height)).save(file, "PNG")
    return file.getvalue()


@pytest.fixture(scope="session")
def picture() -> Callable[..., MediaItem]:
    """Makes an image item of a given size."""

    def make(width: int, height: int = 1) -> MediaItem:
        return MediaItem(Modality.IMAGE, data=png(width, height))

    return make


@pytest.fixture(scope="session")
def make_expander(codec: TokenizerCodec) -> Callable[..., Expander]:
    """An expander of a family, or of one whose images are as many ids as they are wide."""

    def make(
        family: Family | None = None,
        *,
        target: str = "<image>",
        content: str = "<image>",
        codec: TokenizerCodec = codec,
        limit: int = 9,
    ) -> Expander:
        def expand(info: ImageInfo, site: Site) -> Replacement:
            return Replacement(codec.encode(content * info.width)[0])

        rule = MediaRule(expand=expand, placeholder=target, target=target)
        reader = MediaReader(None, HttpFetcher(frozenset()))
        return Expander(
            family or Family(name="test", image=rule),
            codec,
            MediaSizer(reader),
            {Modality.IMAGE: limit},
        )

    return make
