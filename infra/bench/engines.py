"""The fast engines beside the reference: speed on unique text, and every row compared.

    python infra/bench/engines.py --model DIR [DIR ...] --data FILE [FILE ...] [--fuzz 50000]

FILE is JSONL (also .xz) with `messages` or `text` in its rows, or a JSON list of strings. Times are
CPU milliseconds of this process per MB of UTF-8, with one native thread, each engine fresh and in
one pass. A difference is a row whose ids or offsets are not the reference's; rows redone are those
that the fast engine itself took from the reference.
"""

from __future__ import annotations

import argparse
import json
import os
import time
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path

# Before the libraries are loaded.
os.environ.update(RAYON_NUM_THREADS="1", FASTOKENS_BPE_THREADS="1", TOKENIZERS_PARALLELISM="false")

from promptmill.pipeline.engines.base import Engine, FlatTokens
from promptmill.pipeline.engines.checked import same_row
from promptmill.pipeline.engines.load import load_engine
from promptmill.pipeline.engines.spec import added_tokens
from promptmill.pipeline.model.load import load_bundle
from promptmill.schemas.bundle import ModelBundle
from promptmill.schemas.options import EngineName, JobOptions
from texts import batches, fuzz, read


@dataclass(frozen=True, slots=True)
class Result:
    """One model on one set of texts; times in ms of CPU per MB."""

    model: str
    texts: str
    engine: str
    rows: int
    mb: float
    reference_ids: float
    reference_offsets: float
    fast_ids: float
    fast_offsets: float
    different: int
    redone: int


def timed(engine: Engine, texts: Sequence[str], *, offsets: bool) -> tuple[float, list[FlatTokens]]:
    """CPU seconds and tokens of one pass."""
    seconds = 0.0
    found = []
    for batch in batches(texts):
        start = time.process_time()
        tokens = engine.encode(batch, offsets=offsets)
        seconds += time.process_time() - start
        found.append(tokens)
    return seconds, found


def differing(ours: Sequence[FlatTokens], wanted: Sequence[FlatTokens]) -> int:
    """Rows that are not equal."""
    pairs = zip(ours, wanted, strict=True)
    return sum(not same_row(a, row, b, row) for a, b in pairs for row in range(len(b)))


def measure(bundle: ModelBundle, choice: EngineName, name: str, texts: Sequence[str]) -> Result:
    """One model on one set of texts."""
    reference = load_engine(bundle, EngineName.TOKENIZERS)
    mb = sum(len(text.encode()) for text in texts) / 1e6
    slow_ids = timed(reference, texts, offsets=False)
    slow_both = timed(reference, texts, offsets=True)
    fast_ids = timed(load_engine(bundle, choice), texts, offsets=False)
    fast = load_engine(bundle, choice)
    fast_both = timed(fast, texts, offsets=True)
    return Result(
        model=Path(bundle.name).name,
        texts=name,
        engine=fast.fallback_reason or fast.name,
        rows=len(texts),
        mb=round(mb, 2),
        reference_ids=round(1000 * slow_ids[0] / mb, 1),
        reference_offsets=round(1000 * slow_both[0] / mb, 1),
        fast_ids=round(1000 * fast_ids[0] / mb, 1),
        fast_offsets=round(1000 * fast_both[0] / mb, 1),
        different=differing(fast_ids[1], slow_ids[1]) + differing(fast_both[1], slow_both[1]),
        redone=fast.counts.rows_redone,
    )


def main() -> None:
    """Parse the command line, measure, print a table and write JSON."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--model", type=Path, nargs="+", required=True)
    parser.add_argument("--data", type=Path, nargs="*", default=[])
    parser.add_argument("--rows", type=int, help="take so many rows of each file")
    parser.add_argument("--fuzz", type=int, default=0, help="random strings to compare as well")
    parser.add_argument("--engine", type=EngineName, default=EngineName.AUTO)
    parser.add_argument("--json", type=Path, help="write the figures here")
    options = parser.parse_args()
    results = []
    print(
        "model texts engine | rows MB | reference ids +offsets | fast ids +offsets | x x | "
        "different redone"
    )
    for folder in options.model:
        job = JobOptions(input=("-",), output="-", model=str(folder))
        bundle = load_bundle(job)
        spellings = [t.content for t in added_tokens(bundle.backend)] if bundle.backend else []
        sets = {path.name: list(read(path, spellings))[: options.rows] for path in options.data}
        if options.fuzz:
            sets["fuzz"] = list(fuzz(options.fuzz, spellings))
        for name, texts in sets.items():
            one = measure(bundle, options.engine, name, texts)
            results.append(one)
            print(
                f"{one.model} {one.texts} {one.engine} | {one.rows} {one.mb} | {one.reference_ids} "
                f"{one.reference_offsets} | {one.fast_ids} {one.fast_offsets} | "
                f"{one.reference_ids / one.fast_ids:.1f} "
                f"{one.reference_offsets / one.fast_offsets:.1f} | {one.different} {one.redone}",
                flush=True,
            )
    if options.json:
        options.json.write_text(json.dumps([asdict(one) for one in results], indent=1) + "\n")


if __name__ == "__main__":
    main()
