"""Every text through the engine that `auto` picks and through the reference; each row compared.

    python infra/bench/exactness.py --models FOLDER --data FILE [FILE ...] --json OUT

FOLDER holds model folders, at any depth; a tokenizer that several of them share is compared once.
The random strings of `texts.py` are a further set. One process, at low priority (`--nice`). OUT
gets a line for each tokenizer and set as soon as that is done, and what it holds is not done again,
so a run that was stopped goes on. Tokenizers that `--first` does not name get one row in `--stride`
of files over 2 MB. Each set ends with `different`, rows whose ids or offsets are not the
reference's, and `redone`, rows that the fast engine itself took from the reference (counted
fallbacks: text that NFC changes, say). The table is printed at the end; exit code 1: differences.
"""

from __future__ import annotations

import argparse
import hashlib
import os
import sys
from collections.abc import Iterable, Iterator
from itertools import islice
from pathlib import Path

# Before the libraries are loaded.
os.environ.update(RAYON_NUM_THREADS="1", FASTOKENS_BPE_THREADS="1", TOKENIZERS_PARALLELISM="false")

import msgspec

from promptmill.pipeline.engines.base import EngineMismatch, encodable
from promptmill.pipeline.engines.checked import same_row
from promptmill.pipeline.engines.load import load_engine
from promptmill.pipeline.engines.spec import added_tokens
from promptmill.pipeline.model.load import load_bundle
from promptmill.schemas.bundle import ModelBundle
from promptmill.schemas.errors import JobError
from promptmill.schemas.options import EngineName, JobOptions
from texts import batches, fuzz, read

FUZZ = 50_000
LARGE = 2_000_000
"""Bytes of a file of which some tokenizers get a share."""


class Compared(msgspec.Struct, frozen=True):
    """One tokenizer on one set of texts."""

    tokenizer: str
    """The first digits of its hash."""
    model: str
    """The first folder that has it."""
    texts: str
    engine: str
    rows: int = 0
    mb: float = 0
    tokens: int = 0
    different: int = 0
    redone: int = 0
    stride: int = 1
    """One row in so many."""
    reason: str | None = None
    """Why the reference does the work, so that there is nothing to compare."""


def model_folders(root: Path, first: Iterable[str]) -> list[Path]:
    """Folders with a config.json, those named first in front."""
    found = sorted(path.parent for path in root.rglob("config.json"))
    wanted = [root / name for name in first]
    return [*wanted, *(path for path in found if path not in wanted)]


def compare(bundle: ModelBundle, name: str, texts: Iterable[str], stride: int) -> Compared:
    """One set of texts, in batches, ids and offsets."""
    fast, reference = load_engine(bundle), load_engine(bundle, EngineName.TOKENIZERS)
    rows = size = tokens = different = 0
    for batch in batches(filter(encodable, texts)):
        wanted = reference.encode(batch, offsets=True)
        rows += len(batch)
        size += sum(len(text.encode()) for text in batch)
        tokens += len(wanted.ids)
        try:
            found = fast.encode(batch, offsets=True)
        except EngineMismatch:  # its own check was first
            different += 1
            continue
        pairs = (same_row(found, row, wanted, row) for row in range(len(batch)))
        different += sum(not same for same in pairs)
    return Compared(
        **_who(bundle),
        texts=name,
        engine=fast.name,
        rows=rows,
        mb=round(size / 1e6, 2),
        tokens=tokens,
        different=different,
        redone=fast.counts.rows_redone,
        stride=stride,
    )


def _who(bundle: ModelBundle) -> dict[str, str]:
    digest = hashlib.sha256((bundle.backend or bundle.name).encode()).hexdigest()[:12]
    return {"tokenizer": digest, "model": Path(bundle.name).name}


def compare_all(
    folders: Iterable[Path],
    files: list[Path],
    done: set[tuple[str, str]],
    *,
    whole: int,
    stride: int,
) -> Iterator[Compared]:
    """Every tokenizer on every set that is not done; from folder `whole` on, shares of some."""
    for number, folder in enumerate(folders):
        try:
            bundle = load_bundle(JobOptions(input=("-",), output="-", model=str(folder)))
        except JobError as error:
            print(f"{folder.name}: {error}", file=sys.stderr)
            continue
        who = _who(bundle)
        names = [*(path.name for path in files), "fuzz"]
        if all((who["tokenizer"], name) in done for name in names):
            continue
        reason = "no Hugging Face tokenizer: the model's own library does the work"
        if bundle.backend is not None:
            reason = load_engine(bundle).fallback_reason
        spellings = [t.content for t in added_tokens(bundle.backend)] if bundle.backend else []
        for name, path in zip(names, [*files, None], strict=True):
            if (who["tokenizer"], name) in done:
                continue
            if reason is not None:
                one = Compared(**who, texts=name, engine="reference", reason=reason)
            else:
                large = path is not None and path.stat().st_size > LARGE and number >= whole
                texts = fuzz(FUZZ, spellings) if path is None else read(path, spellings)
                step = stride if large else 1
                one = compare(bundle, name, islice(texts, None, None, step), step)
            done.add((one.tokenizer, one.texts))
            yield one


def table(results: Iterable[Compared]) -> Iterator[str]:
    """A line of Markdown for each tokenizer, its sets added up."""
    yield "| tokenizer of | engine | share | rows | MB | tokens | differences | rows redone |"
    yield "| --- | --- | --- | --- | --- | --- | --- | --- |"
    by_tokenizer: dict[str, list[Compared]] = {}
    for one in results:
        by_tokenizer.setdefault(one.tokenizer, []).append(one)
    for sets in by_tokenizer.values():
        rows, mb, tokens, different, redone = (
            sum(getattr(one, name) for one in sets)
            for name in ("rows", "mb", "tokens", "different", "redone")
        )
        engine, reason = sets[0].engine, sets[0].reason
        if reason is not None:
            engine = f"reference: {reason.partition(': ')[2].rstrip('.') or reason}"
        yield (
            f"| {sets[0].model} | {engine} | "
            f"1/{max(one.stride for one in sets)} | {rows:,} | {mb:.0f} | "
            f"{tokens:,} | {different} | {redone:,} |"
        )


def main() -> None:
    """Parse the command line, go on where the last run stopped, print the table."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--models", type=Path, required=True)
    parser.add_argument("--first", nargs="*", default=[], help="folders to begin with")
    parser.add_argument("--data", type=Path, nargs="*", default=[])
    parser.add_argument("--stride", type=int, default=1, help="of large files, for the others")
    parser.add_argument("--nice", type=int, default=19)
    parser.add_argument("--json", type=Path, required=True, help="a line for each result")
    options = parser.parse_args()
    os.nice(options.nice)
    decode = msgspec.json.Decoder(Compared).decode_lines
    results = decode(options.json.read_bytes()) if options.json.exists() else []
    done = {(one.tokenizer, one.texts) for one in results}
    with options.json.open("ab") as out:
        folders = model_folders(options.models, options.first)
        shares = {"whole": len(options.first), "stride": options.stride}
        for one in compare_all(folders, options.data, done, **shares):
            results.append(one)
            out.write(msgspec.json.encode(one) + b"\n")
            out.flush()
    print("\n".join(table(results)))
    sys.exit(any(one.different for one in results))


if __name__ == "__main__":
    main()
