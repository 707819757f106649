"""Peers that bring their own parallelism: datasets, Ray Data, datatrove.

    python infra/bench/frameworks.py KIND INPUT OUTPUT MODEL

KIND: datasets, ray-data, datatrove, or render, which writes the rendered rows that datatrove's step
takes (not measured). Rows go in as lines of text: their tools have no common schema.
"""

from __future__ import annotations

import json
import os
import sys
from pathlib import Path
from typing import Any

WORKERS = 2


def _tokenizer(model: str) -> Any:
    from transformers import AutoTokenizer

    return AutoTokenizer.from_pretrained(model)


class Tokenize:
    """A batch of lines to ids."""

    def __init__(self, model: str) -> None:
        self._tokenizer = _tokenizer(model)

    def __call__(self, batch: dict[str, Any]) -> dict[str, Any]:
        """Render and tokenize."""
        from plain import text_of

        rows = [json.loads(line) for line in batch["text"]]
        texts = [text_of(self._tokenizer, row) for row in rows]
        ids = self._tokenizer(texts, add_special_tokens=False)["input_ids"]
        return {"id": [row["id"] for row in rows], "input_ids": ids}


def datasets_map(source: str, target: str, model: str) -> None:
    """`Dataset.map` with processes, then to Parquet."""
    from datasets import load_dataset

    cache = str(Path(target).with_suffix(".cache"))
    rows = load_dataset("text", data_files=source, split="train", cache_dir=cache)
    done = rows.map(
        Tokenize(model),
        batched=True,
        num_proc=WORKERS,
        remove_columns=["text"],
        batch_size=1000,
        load_from_cache_file=False,
    )
    done.to_parquet(target)


def ray_data(source: str, target: str, model: str) -> None:
    """`map_batches` with actors, then to Parquet."""
    import ray

    # Twice as many as actors: where the actors take all, nothing reads or writes, and all wait.
    ray.init(num_cpus=2 * WORKERS, include_dashboard=False, log_to_driver=False)
    rows = ray.data.read_text(source, override_num_blocks=2 * WORKERS)
    rows.map_batches(
        Tokenize, fn_constructor_args=(model,), batch_size=1000, concurrency=WORKERS
    ).write_parquet(target)
    ray.shutdown()


def datatrove(source: str, target: str, model: str) -> None:
    """`DocumentTokenizer` over rendered texts; to datatrove's own token files."""
    from datatrove.executor import LocalPipelineExecutor
    from datatrove.pipeline.readers import JsonlReader
    from datatrove.pipeline.tokens import DocumentTokenizer

    steps = [
        JsonlReader(str(Path(source).parent), glob_pattern=Path(source).name),
        DocumentTokenizer(target, tokenizer_name_or_path=f"{model}/tokenizer.json", eos_token=None),
    ]
    logs = str(Path(target).with_suffix(".logs"))
    LocalPipelineExecutor(steps, tasks=1, workers=1, logging_dir=logs, skip_completed=False).run()


def render(source: str, target: str, model: str) -> None:
    """Rows with a `text`: chats rendered, documents as they are."""
    from plain import text_of

    tokenizer = _tokenizer(model)
    with Path(source).open(encoding="utf-8") as lines, Path(target).open("w") as out:
        for line in lines:
            row = json.loads(line)
            json.dump({"id": row["id"], "text": text_of(tokenizer, row)}, out)
            out.write("\n")


KINDS = {
    "datasets": datasets_map,
    "ray-data": ray_data,
    "datatrove": datatrove,
    "render": render,
}

if __name__ == "__main__":
    os.environ["PYTHONPATH"] = os.pathsep.join(sys.path)  # actors import this module, too
    KINDS[sys.argv[1]](*sys.argv[2:])
