"""Ids per image against what the server counts, for every size it was asked for."""

import csv
import json
from collections.abc import Callable
from functools import cache
from pathlib import Path

import pytest

from promptmill.pipeline.media.base import (
    AudioInfo,
    Family,
    ImageInfo,
    MediaKwargs,
    Site,
    TextCodec,
    find_builder,
)
from promptmill.schemas.bundle import ModelBundle
from promptmill.schemas.errors import ErrorCode, RowError

ALIGNED = 3
"""A position at which DeepSeek V4 puts no pads in front."""
NEVER = {("deepseek_ocr", "no cropping")}
"""Counted by a function of the server's that its own requests never reach."""
FOLDERLESS = {"kimi_vl", "phi4mm"}
"""Families whose processor is remote code: there is no folder to read."""
AUDIO = "audio samples@16000"
"""A table of sounds: W is their samples."""

Rows = list[dict[str, str]]


@pytest.fixture(scope="session")
def counts(shared: Path) -> dict[tuple[str, str], Rows]:
    found: dict[tuple[str, str], Rows] = {}
    with (shared / "golden" / "media_counts.tsv").open(encoding="utf-8") as file:
        for row in csv.DictReader(file, delimiter="\t"):
            found.setdefault((row["family"], row["config"]), []).append(row)
    return found


def kwargs_of(config: str) -> MediaKwargs:
    """`a=1,b.c=2` as processor arguments."""
    made: dict[str, object] = {}
    for setting in config.split(","):
        name, equals, value = setting.partition("=")
        if equals:
            outer, dot, inner = name.partition(".")
            made[outer] = {inner: json.loads(value)} if dot else json.loads(value)
    return MediaKwargs(made)  # type: ignore[arg-type] # JSON values, as read


def chat_overlay(config: str) -> dict[str, object]:
    """InternVL's published config with the settings of a table."""
    return {
        "max_dynamic_patch": 12 if "12" in config else 6,
        "use_thumbnail": "no thumbnail" not in config,
    }


def test_every_size(
    counts: dict[tuple[str, str], Rows], load_family: Callable[..., Family]
) -> None:
    family_of = cache(load_family)
    wrong = []
    for (name, config), rows in counts.items():
        if name in FOLDERLESS or (name, config) in NEVER:
            continue
        chat = name == "internvl_chat"
        family = load_family(name, **chat_overlay(config)) if chat else family_of(name)
        kwargs = MediaKwargs() if chat else kwargs_of(config)
        site = Site(count=3 if config == "no cropping" else 1, position=ALIGNED, kwargs=kwargs)
        wrong += [problem for row in rows if (problem := differs(family, row, site))]
    assert not wrong


@pytest.mark.parametrize("name", sorted(FOLDERLESS))
def test_every_size_of_remote_processors(
    counts: dict[tuple[str, str], Rows],
    codec: TextCodec,
    bundle_of: Callable[..., ModelBundle],
    name: str,
) -> None:
    wrong = []
    for (family_name, config), rows in counts.items():
        if family_name == name:
            settings = kwargs_of(config).processor
            builder = find_builder({"model_type": name})
            assert builder is not None
            bundle = bundle_of({"model_type": name}, {"preprocessor_config.json": settings})
            family = builder(bundle, codec)
            wrong += [problem for row in rows if (problem := differs(family, row, Site()))]
    assert not wrong


def differs(family: Family, row: dict[str, str], site: Site) -> str | None:
    """What is wrong with a size; lengths are left to the golden cases, they need the model's
    own tokenizer where text stands between ids."""
    where = f"{row['family']} {row['config']} {row['W']}x{row['H']}"
    try:
        if row["config"] == AUDIO:
            made = family.expand(AudioInfo(int(row["W"]), 16_000), site)
        else:
            made = family.expand(ImageInfo(int(row["W"]), int(row["H"])), site)
    except RowError as error:
        refused = row["embeds"] == "ERR" and error.code is ErrorCode.MEDIA_UNSUPPORTED
        return None if refused else f"{where}: {error}"
    runs = made.embed_runs() or ((0, len(made.ids)),)
    embeds = sum(length for _, length in runs)
    return None if str(embeds) == row["embeds"] else f"{where}: {embeds}, not {row['embeds']}"
