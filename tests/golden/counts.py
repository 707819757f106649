"""Tables of image sizes and the ids that the server counts for them."""

from __future__ import annotations

import csv
import json
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, TypeAlias

from promptmill.pipeline.media.base import (
    AudioInfo,
    Family,
    ImageInfo,
    MediaKwargs,
    Replacement,
    Site,
)
from promptmill.schemas.errors import ErrorCode, RowError

ALIGNED = 3
"""A position at which DeepSeek V4 puts no pads in front."""

NEVER = {("deepseek_ocr", "no cropping")}
"""Counted by a function of the server's that its own requests never reach."""

FOLDERLESS = {"kimi_vl", "phi4mm"}
"""Families whose processor is remote code: the settings of a table are their files."""

SOUNDS = "audio samples@16000"
"""A table of sounds: W is their samples."""

FamilyOf: TypeAlias = Callable[[str, dict[str, Any], dict[str, Any]], Family]
"""Name, what to lay over config.json and what stands in preprocessor_config.json."""


def count_differences(
    table: Path, family_of: FamilyOf, *, lengths: bool = True
) -> Iterator[tuple[str, str | None]]:
    """For every row of a table its name, and what is wrong with our count of it.

    Args:
        table: families, settings, sizes and counts, separated by tabs.
        family_of: builds a family.
        lengths: compare all ids, not only those that carry embeddings; where text stands between
            them, that takes the model's own tokenizer.
    """
    families: dict[str, Family] = {}
    with table.open(encoding="utf-8") as file:
        for row in csv.DictReader(file, delimiter="\t"):
            name, config = row["family"], row["config"]
            if (name, config) in NEVER:
                continue
            key = f"{name} {config}"
            if key not in families:
                files = settings_of(config) if name in FOLDERLESS else {}
                families[key] = family_of(name, overlay_of(name, config), files)
            yield f"{key} {row['W']}x{row['H']}", _difference(families[key], row, lengths)


def settings_of(config: str) -> dict[str, Any]:
    """`a=1,b.c=2` as processor arguments."""
    made: dict[str, Any] = {}
    for setting in config.split(","):
        name, equals, value = setting.partition("=")
        if equals:
            outer, dot, inner = name.partition(".")
            made[outer] = {inner: json.loads(value)} if dot else json.loads(value)
    return made


def overlay_of(name: str, config: str) -> dict[str, Any]:
    """InternVL's published checkpoints take no arguments: the table is about their configs."""
    if name != "internvl_chat":
        return {}
    most = int(config.partition("max_dynamic_patch=")[2].partition(",")[0])
    return {"max_dynamic_patch": most, "use_thumbnail": "no thumbnail" not in config}


def _difference(family: Family, row: dict[str, str], lengths: bool) -> str | None:
    config = row["config"]
    fixed = row["family"] in FOLDERLESS or row["family"] == "internvl_chat"
    kwargs = MediaKwargs({} if fixed else settings_of(config))
    site = Site(count=3 if config == "no cropping" else 1, position=ALIGNED, kwargs=kwargs)
    size = int(row["W"]), int(row["H"] or 0)
    info = AudioInfo(size[0], 16_000) if config == SOUNDS else ImageInfo(*size)
    try:
        made = family.expand(info, site)
    except RowError as error:
        refused = row["embeds"] == "ERR" and error.code is ErrorCode.MEDIA_UNSUPPORTED
        return None if refused else str(error)
    ours, theirs = [str(embeddings(made))], [row["embeds"]]
    if lengths:
        ours, theirs = [*ours, str(len(made.ids))], [*theirs, row["placeholder_tokens"]]
    return None if ours == theirs else f"ours {ours}, reference {theirs}"


def embeddings(made: Replacement) -> int:
    """Ids of a replacement that carry embeddings."""
    return sum(length for _, length in made.embed_runs() or ((0, len(made.ids)),))
