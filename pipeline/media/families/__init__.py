"""The families that are built in; importing this registers them."""

from promptmill.pipeline.media.families import qwen_vl

__all__ = ["qwen_vl"]
