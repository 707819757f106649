"""Which reader a model needs."""

from __future__ import annotations

from promptmill.pipeline.decode.base import ReplyReader
from promptmill.pipeline.decode.deepseek import DeepseekReader
from promptmill.pipeline.decode.plain import PlainReader
from promptmill.pipeline.model.deepseek_tokens import is_deepseek
from promptmill.schemas.bundle import ModelBundle


def load_reader(
    bundle: ModelBundle, created: int, *, thinking: bool, tool_calls: bool
) -> ReplyReader:
    """The reader of a model's outputs.

    Args:
        bundle: the model; its tokenizer mode decides.
        created: Unix time of the answers.
        thinking: see `DeepseekReader`; other models' reasoning stays in the text.
        tool_calls: likewise.

    Raises:
        JobError: the model's outputs cannot be read here.
    """
    if is_deepseek(bundle.tokenizer_mode):
        return DeepseekReader(bundle, created, thinking=thinking, tool_calls=tool_calls)
    return PlainReader(bundle, created)
