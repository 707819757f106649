"""The families that are built in; importing this registers them.

Profile rule: each counts as the model's processor (transformers 5.20) and its class in vLLM 0.33.0
(`model_executor/models/`) do, or says what it follows.
"""

from promptmill.pipeline.media.families import (
    deepseek_v4,
    deepseek_vl,
    gemma3,
    gemma4,
    glm4v,
    idefics3,
    internvl,
    kimi_vl,
    llama4,
    llava,
    minicpmv,
    paligemma,
    phi,
    pixtral,
    qwen_audio,
    qwen_omni,
    qwen_vl,
    ultravox,
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
    "kimi_vl",
    "llama4",
    "llava",
    "minicpmv",
    "paligemma",
    "phi",
    "pixtral",
    "qwen_audio",
    "qwen_omni",
    "qwen_vl",
    "ultravox",
    "whisper",
]
