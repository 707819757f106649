"""What a worker's process imports: its start must not wait for libraries that it does not use."""

import pickle
import subprocess
import sys
from pathlib import Path

import pytest

from promptmill.pipeline.model.load import load_bundle
from promptmill.schemas.options import JobOptions

UNUSED = ("transformers", "pandas", "mistral_common", "huggingface_hub", "torch", "datasets", "ray")

WORKER = """
import pickle, sys
from datetime import UTC, datetime
from pathlib import Path
import pyarrow as pa
from promptmill.schemas.options import JobOptions
from promptmill.workers.tuning import calm_collector, leave_pandas_out
leave_pandas_out()
import promptmill.workers.work
from promptmill.pipeline.encoder import Encoder
bundle = pickle.loads(Path(sys.argv[1]).read_bytes())
Encoder(bundle, JobOptions(input=("-",), output="-", model="-"), datetime.now(UTC))
calm_collector()
pa.array([1])
print(*sorted(sys.modules))
"""


def _modules(*command: str | Path) -> set[str]:
    done = subprocess.run(
        [sys.executable, *command], check=True, capture_output=True, text=True, encoding="utf-8"
    )
    return set(done.stdout.split())


def test_a_worker_imports_only_what_it_uses(tiny_models: Path, tmp_path: Path) -> None:
    options = JobOptions(input=("-",), output="-", model=str(tiny_models / "chatml"))
    saved = tmp_path / "bundle"
    saved.write_bytes(pickle.dumps(load_bundle(options)))
    assert _modules("-c", WORKER, saved).isdisjoint(UNUSED)


def test_a_model_seen_before_needs_no_transformers(
    tiny_models: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PROMPTMILL_CACHE", str(tmp_path))
    program = (
        "import sys; from promptmill.schemas.options import JobOptions; "
        "import promptmill.workers.run; "
        "from promptmill.pipeline.model.bundle_cache import load_bundle_cached; "
        "load_bundle_cached(JobOptions(input=('-',), output='-', model=sys.argv[1])); "
        "print(*sys.modules)"
    )
    first = _modules("-c", program, tiny_models / "chatml")
    assert "transformers" in first
    assert first.isdisjoint({"mistral_common", "pandas", "torch", "datasets", "ray"})
    assert _modules("-c", program, tiny_models / "chatml").isdisjoint(UNUSED)
