"""Published strings and ids of real tokenizers, as completions without special tokens."""

import json
import shutil
from collections.abc import Callable
from pathlib import Path

import pytest

from promptmill.pipeline.encoder import Encoder
from promptmill.schemas.errors import ErrorCode
from promptmill.schemas.request import EncodedBatch, TokenRow

SEPARATOR = "\n__ggml_vocab_test__\n"
FOLDERS = {"qwen2": "qwen3", "llama-bpe": "llama3_1"}
"""Vectors, and the model folder that has their tokenizer."""
BARE = ("gpt-2", "falcon", "phi-3")
"""Tokenizers on their own: a config.json makes model folders of them."""


@pytest.fixture
def folder(request: pytest.FixtureRequest, shared: Path, models: Path, tmp_path: Path) -> Path:
    name: str = request.param
    if name in FOLDERS:
        return models / FOLDERS[name]
    made = tmp_path / name
    made.mkdir()
    for file in (shared / "data" / "tokenizers" / name).iterdir():
        shutil.copyfile(file, made / file.name)
    (made / "config.json").write_text(json.dumps({"max_position_embeddings": 4096}))
    return made


@pytest.mark.parametrize(
    ("folder", "vectors"),
    [pytest.param(name, name, id=name) for name in (*FOLDERS, *BARE)],
    indirect=["folder"],
)
def test_published_vectors(
    shared: Path,
    make_encoder: Callable[..., Encoder],
    encode: Callable[..., EncodedBatch],
    check_offsets: Callable[[TokenRow, Encoder], None],
    folder: Path,
    vectors: str,
) -> None:
    path = shared / "data" / "tokenizer_vectors" / vectors
    texts = path.with_suffix(".inp").read_text(encoding="utf-8").split(SEPARATOR)[:-1]
    answers = path.with_suffix(".out").read_text(encoding="utf-8").splitlines()
    wanted = [list(map(int, ids.split())) for ids in answers]
    encoder = make_encoder(folder)
    plain = {"add_special_tokens": False}
    done = encode(encoder, *({"prompt": text, **plain} for text in texts))
    found = {row.request.place.row_index: row for row in done.rows}
    assert [reject.error.code for reject in done.rejects] == [ErrorCode.EMPTY_PROMPT]
    for index, (text, ids) in enumerate(zip(texts, wanted, strict=True)):
        assert (found[index].ids.tolist() if text else []) == ids, text
    for row in done.rows:
        check_offsets(row, encoder)
