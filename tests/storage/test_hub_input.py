"""Input from a data set on the Hub (`hf://`), read through its real client."""

from __future__ import annotations

import json
import os
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pyarrow as pa
import pyarrow.dataset
import pyarrow.parquet as pq
import pytest

from tests.conftest import BIN, ROOT
from tests.support.hub_server import DATASET, Hub, hub

MODEL = ROOT / "static" / "demo" / "model"


@pytest.fixture
def server(tmp_path: Path) -> Iterator[Hub]:
    with hub() as server:
        texts = [f"hello {i} " * 50 for i in range(3000)]
        lines = "".join(json.dumps({"text": text}) + "\n" for text in texts)
        pq.write_table(pa.table({"text": texts[:7]}), tmp_path / "c.parquet")
        server.files = {
            "README.md": b"# rows",
            "lines/train/a.jsonl": lines.encode(),
            "lines/train/b.jsonl": b'{"text": "world"}\n',
            "table/c.parquet": (tmp_path / "c.parquet").read_bytes(),
        }
        yield server


def run(server: Hub, folder: Path, *words: str) -> subprocess.CompletedProcess[str]:
    kept = {k: v for k, v in os.environ.items() if not k.startswith("HF_")}
    common = ["--model", str(MODEL), "--text-column", "text", "-o", "out"]
    return subprocess.run(
        [BIN / "promptmill", "run", *common, *words],
        cwd=folder,
        env={**kept, "HF_ENDPOINT": server.address, "HF_HOME": str(folder / "hf")},
        capture_output=True,
        text=True,
        check=False,
    )


@pytest.mark.parametrize(
    ("inputs", "rows"),
    [
        ([f"hf://datasets/{DATASET}/lines"], 3001),
        ([f"hf://datasets/{DATASET}@main/lines/**/*.jsonl"], 3001),
        ([f"hf://datasets/{DATASET}/table/c.parquet"], 7),
    ],
    ids=["folder", "pattern", "parquet"],
)
def test_a_data_set_of_the_hub(inputs: list[str], rows: int, server: Hub, tmp_path: Path) -> None:
    server.troubles = [503, 429]
    words = [word for name in inputs for word in ("-i", name)]
    done = run(server, tmp_path, *words, "--local", "--rows-per-shard", "1000")
    assert done.returncode == 0, done.stderr
    table = pyarrow.dataset.dataset(tmp_path / "out").to_table()
    assert table.num_rows == rows
    assert not server.troubles
    again = run(server, tmp_path, *words, "--local", "--rows-per-shard", "1000")
    assert "finished already" in again.stdout + again.stderr


@pytest.mark.ray
def test_workers_read_it_themselves(server: Hub, tmp_path: Path) -> None:
    words = ["-i", f"hf://datasets/{DATASET}/lines", "--rows-per-shard", "500"]
    done = run(server, tmp_path, *words, "--workers", "2")
    assert done.returncode == 0, done.stderr
    assert "3,001 rows out" in done.stdout


def test_what_is_not_there_is_said(server: Hub, tmp_path: Path) -> None:
    done = run(server, tmp_path, "-i", "hf://datasets/org/other/a.jsonl", "--local")
    assert done.returncode == 1
    assert "hf://datasets/org/other/a.jsonl" in done.stderr
    assert "Traceback" not in done.stderr
