"""Choose the engine for a tokenizer."""

from __future__ import annotations

from collections.abc import Sequence

from promptmill.pipeline.engines.base import Engine
from promptmill.pipeline.engines.pool import reference_pool
from promptmill.pipeline.engines.reference import ReferenceEngine
from promptmill.schemas.bundle import ModelBundle
from promptmill.schemas.options import EngineName


def load_engine(
    bundle: ModelBundle, choice: EngineName = EngineName.AUTO, probe_texts: Sequence[str] = ()
) -> Engine:
    """The engine for a model.

    Raises:
        JobError: the model's tokenizer is no serialisable backend.
    """
    return ReferenceEngine(reference_pool(bundle))
