"""The families that are built in; importing this registers them."""

from promptmill.pipeline.media.families import (
    deepseek_v4,
    deepseek_vl,
    gemma3,
    gemma4,
    glm4v,
    idefics3,
    internvl,
    llama4,
    llava,
    minicpmv,
    paligemma,
    pixtral,
    qwen_audio,
    qwen_omni,
    qwen_vl,
    whisper,
)

__all__ = [
    "deepseek_v4",
    "deepseek_vl",
    "gemma3",
    "gemma4",
    "glm4v",
    "idefics3",
    "internvl",
    "llama4",
    "llava",
    "minicpmv",
    "paligemma",
    "pixtral",
    "qwen_audio",
    "qwen_omni",
    "qwen_vl",
    "whisper",
]
