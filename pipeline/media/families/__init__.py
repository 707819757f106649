"""The families that are built in; importing this registers them."""

from promptmill.pipeline.media.families import (
    gemma3,
    gemma4,
    glm4v,
    idefics3,
    internvl,
    llama4,
    llava,
    paligemma,
    pixtral,
    qwen_audio,
    qwen_vl,
    whisper,
)

__all__ = [
    "gemma3",
    "gemma4",
    "glm4v",
    "idefics3",
    "internvl",
    "llama4",
    "llava",
    "paligemma",
    "pixtral",
    "qwen_audio",
    "qwen_vl",
    "whisper",
]
