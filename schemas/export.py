"""Forms of a finished run that other tools read."""

from __future__ import annotations

from enum import StrEnum


class ExportTo(StrEnum):
    """Who reads the export."""

    MEGATRON = "megatron"
    """`DEST.bin` and `DEST.idx`: ids only."""
    HF = "hf"
    """A folder for `datasets.load_from_disk`."""
    JSONL_VLLM = "jsonl-vllm"
    """A file of bodies for vLLM's `/inference/v1/generate`, one a line."""
