"""The rules profile: which serving front end "the same as online" means, and its numbers.

The next profile is a change here and in the modules whose docstrings say "profile rule".
"""

from typing import Final

NAME: Final = "vllm-0.33"
"""Recorded in every run and part of its fingerprint."""

TRANSFORMERS_RANGE: Final = ">=5.16.1,<5.21"
"""The transformers releases this profile was checked with (loading only)."""

COMPLETION_MAX_TOKENS: Final = 16
"""`max_tokens` of a completion body that gives none."""

DEFAULT_CONTEXT_LENGTH: Final = 2048
"""Context length where no key of config.json names one."""

MEDIA_PER_PROMPT: Final = 999
"""Items of one modality that a prompt may have."""

RENDER_TIMEOUT_SECONDS: Final = 30.0
"""Time one template may take."""

MEDIA_MAX_PIXELS: Final = 178_956_970
"""Pixels that an image (or a frame) may have."""

MEDIA_MAX_BYTES: Final = 256 * 1024 * 1024
"""Bytes of one media file."""

AUDIO_MAX_BYTES: Final = 25 * 1024 * 1024
"""Bytes of one audio file."""

AUDIO_MAX_SECONDS: Final = 600
"""Duration of one audio file."""

AUDIO_DECODE_BYTES: Final = 256 * 1024 * 1024
"""Decoded bytes of one audio file: four a sample."""

MEDIA_DECODE_BYTES: Final = 4 * MEDIA_MAX_PIXELS
"""Decoded bytes of all media of one prompt."""

STOP_STRINGS: Final = 4
"""Stop strings that a request may give."""

PROMPTS_PER_COMPLETION: Final = 1024
"""Prompts that one completion request may have."""

CACHE_SALT_LENGTH: Final = 128
"""Characters of a cache salt."""
