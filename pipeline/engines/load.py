"""Choose the engine for a tokenizer: the fastest one that is shown to equal the reference."""

from __future__ import annotations

from collections.abc import Sequence

from tokenizers import Tokenizer

from promptmill.pipeline.engines import spec
from promptmill.pipeline.engines.base import Engine, EngineCounts, encodable
from promptmill.pipeline.engines.checked import CheckedEngine, same_row
from promptmill.pipeline.engines.fast import FastEngine
from promptmill.pipeline.engines.natives import FASTEST, doubts, load_native
from promptmill.pipeline.engines.offsets import OffsetTables
from promptmill.pipeline.engines.pool import Pool, backend_of, reference_pool
from promptmill.pipeline.engines.probes import probes_for
from promptmill.pipeline.engines.reference import ReferenceEngine
from promptmill.pipeline.engines.traits import NotProven, proven_traits
from promptmill.schemas.bundle import ModelBundle
from promptmill.schemas.options import EngineName, SegmentCache


def load_engine(
    bundle: ModelBundle,
    choice: EngineName = EngineName.AUTO,
    probe_texts: Sequence[str] = (),
    segment_cache: SegmentCache = SegmentCache.OFF,
) -> Engine:
    """The engine for a model, with a segment cache where it has one.

    A fast engine is compared with the reference on a built-in set of texts and on `probe_texts`
    (the first texts of the run); if anything differs, or if it is missing or not proven for this
    tokenizer, the reference does the work and its `fallback_reason` says why.

    Raises:
        JobError: the model's tokenizer is no serialisable backend.
    """
    pool = reference_pool(bundle)
    if bundle.facts.split_special_tokens and choice is not EngineName.TOKENIZERS:
        return _fallback(pool, NotProven("the tokenizer splits special tokens"))
    return choose_engine(backend_of(bundle), pool, choice, probe_texts, segment_cache)


def choose_engine(
    backend: str,
    pool: Pool[Tokenizer],
    choice: EngineName,
    probe_texts: Sequence[str] = (),
    segment_cache: SegmentCache = SegmentCache.OFF,
) -> Engine:
    """As `load_engine`, for a tokenizer's JSON and a pool of its copies."""
    reference = ReferenceEngine(pool)
    if choice is EngineName.TOKENIZERS:
        return reference
    try:
        engine = _proven_engine(backend, reference, choice, probe_texts, segment_cache)
    except NotProven as reason:
        return _fallback(pool, reason)
    return CheckedEngine(engine, reference)


def _fallback(pool: Pool[Tokenizer], reason: NotProven) -> ReferenceEngine:
    return ReferenceEngine(
        pool, f"Tokenizing with tokenizers, many times slower than a fast engine: {reason}."
    )


def _proven_engine(
    backend: str,
    reference: ReferenceEngine,
    choice: EngineName,
    probe_texts: Sequence[str],
    segment_cache: SegmentCache,
) -> FastEngine:
    parsed = spec.parse(backend)
    traits = proven_traits(parsed)
    name = FASTEST[traits.family] if choice is EngineName.AUTO else choice
    natives = Pool(lambda: load_native(name, backend, segment_cache))
    tables = OffsetTables(parsed, traits)
    engine = FastEngine(name, natives, tables, reference, doubts(name, traits))
    texts = [*probes_for(parsed), *filter(encodable, probe_texts)]
    wanted = reference.encode(texts, offsets=True)
    for offsets in (False, True):  # offsets are only asked for once the ids are known to be right
        tokens = engine.encode(texts, offsets=offsets)
        differing = sum(not same_row(tokens, row, wanted, row) for row in range(len(texts)))
        if differing:
            raise NotProven(
                f"{name} differs on {differing} of the {len(texts)} texts it was tried with"
            )
    engine.counts = EngineCounts()  # those of the run, not of the trial
    return engine
