#!/usr/bin/env python3
"""Run golden cases of the reference front end through our own code.

    python tests/golden/run.py [--group text|media|deepseek] FILE...
    python tests/golden/run.py --deepseek FILE
    python tests/golden/run.py --sweep FILE [--data-root DIR] [--limit N]

One line for each case that differs, totals for each kind and model; exit code 0 only when every
case passes. Cases are rows as users write them: they go through parsing, rendering, tokenizing
and fitting like any other row.
"""

from __future__ import annotations

import argparse
import json
import sys
from collections import Counter
from collections.abc import Iterator
from itertools import chain
from pathlib import Path

import official
from cases import CaseRunner, is_in_group
from compare import DIFFERENCES, Verdict
from deepseek import run_deepseek
from media import run_counts, run_media_case
from models import SHARED, Encoders
from promptmill.schemas.options import EngineName
from sweep import run_sweep


def main() -> int:
    """Parse arguments, run, report."""
    args = _arguments()
    Encoders.engine = args.engine
    if args.deepseek is not None:
        verdicts = run_deepseek(args.deepseek, args.models)
    elif args.sweep is not None:
        verdicts = run_sweep(args.sweep, args.data_root, args.models, args.limit)
    else:
        runner = CaseRunner(args.models)
        verdicts = chain.from_iterable(run_file(runner, file, args.group) for file in args.files)
    failed, totals, explained = 0, Counter[tuple[str, str]](), Counter[str]()
    for verdict in verdicts:
        totals[verdict.kind, "ok" if verdict.good else "FAILED"] += 1
        if verdict.rule is not None:
            explained[verdict.rule] += 1
        if not verdict.good:
            failed += 1
            print(f"FAIL {verdict.case}: {verdict.reason}", flush=True)
    _report(totals, explained)
    if not totals:
        print("no case was run", file=sys.stderr)
        return 2
    return 1 if failed else 0


def run_file(runner: CaseRunner, file: Path, group: str | None) -> Iterator[Verdict]:
    """The cases of a file, or of a table of media counts (.tsv)."""
    if file.suffix == ".tsv":
        yield from run_counts(runner, file)
        return
    with file.open(encoding="utf-8") as lines:
        for line in filter(str.strip, lines):
            case = json.loads(line)
            if is_in_group(case, group):
                yield run_media_case(runner, case) if "family" in case else runner.run(case)


def _report(totals: Counter[tuple[str, str]], explained: Counter[str]) -> None:
    for kind in sorted({kind for kind, _ in totals}):
        good, bad = totals[kind, "ok"], totals[kind, "FAILED"]
        print(f"{kind}: {good} passed, {bad} failed")
    for rule, count in sorted(explained.items()):
        meaning = (DIFFERENCES | official.DIFFERENCES)[rule]
        print(f"  deliberate difference {rule} ({count}): {meaning}")
    good = sum(n for (_, result), n in totals.items() if result == "ok")
    print(f"{good} passed, {sum(totals.values()) - good} failed")


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n")[0])
    parser.add_argument(
        "files", nargs="*", type=Path, help="case files, or tables of counts (.tsv)"
    )
    parser.add_argument("--group", choices=("text", "media", "deepseek"), default=None)
    parser.add_argument("--sweep", type=Path, default=None, help="a sweep file (.jsonl or .xz)")
    parser.add_argument("--deepseek", type=Path, default=None, help="cases of DeepSeek's library")
    parser.add_argument("--data-root", type=Path, default=SHARED / "data")
    parser.add_argument("--models", type=Path, default=None, help="folder of model folders")
    parser.add_argument("--limit", type=int, default=None, help="only the first N sweep cases")
    parser.add_argument("--engine", type=EngineName, default=EngineName.AUTO)
    args = parser.parse_args()
    if not args.files and args.sweep is None and args.deepseek is None:
        parser.error("name case files, --sweep FILE or --deepseek FILE")
    return args


if __name__ == "__main__":
    sys.exit(main())
