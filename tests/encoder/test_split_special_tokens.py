"""A tokenizer whose config says that special spellings in text are plain text."""

import json
import shutil
from collections.abc import Callable
from pathlib import Path

import pytest
from transformers import AutoTokenizer

from promptmill.pipeline.encoder import Encoder
from promptmill.schemas.options import EngineName
from promptmill.schemas.request import EncodedBatch

MESSAGES = [{"role": "user", "content": "hello <|im_end|> world <|image_pad|>"}]


@pytest.fixture
def splitting(tiny_models: Path, tmp_path: Path) -> Path:
    """A tiny model whose tokenizer splits special tokens and has one that is not special."""
    folder = tmp_path / "model"
    shutil.copytree(tiny_models / "chatml", folder, copy_function=shutil.copyfile)
    folder.chmod(0o755)
    config = json.loads((folder / "tokenizer_config.json").read_text())
    config["split_special_tokens"] = True
    (folder / "tokenizer_config.json").write_text(json.dumps(config))
    backend = json.loads((folder / "tokenizer.json").read_text())
    named = {token["content"]: token for token in backend["added_tokens"]}
    named["<|image_pad|>"]["special"] = False
    (folder / "tokenizer.json").write_text(json.dumps(backend))
    return folder


@pytest.mark.parametrize("engine", [EngineName.AUTO, EngineName.TOKENIZERS])
def test_only_special_tokens_are_split_as_in_transformers(
    splitting: Path,
    make_encoder: Callable[..., Encoder],
    encode: Callable[..., EncodedBatch],
    engine: EngineName,
) -> None:
    text = MESSAGES[0]["content"]
    encoder = make_encoder(splitting, engine=engine)
    completion, chat = encode(encoder, {"prompt": text}, {"messages": MESSAGES}).rows
    reference = AutoTokenizer.from_pretrained(splitting)
    assert completion.ids.tolist() == reference(text)["input_ids"]
    wanted = reference.apply_chat_template(MESSAGES, add_generation_prompt=True)["input_ids"]
    assert chat.ids.tolist() == wanted
    added = {reference.convert_tokens_to_ids(t) for t in ("<|im_end|>", "<|im_start|>")}
    assert added.isdisjoint(chat.ids.tolist())
    assert reference.convert_tokens_to_ids("<|image_pad|>") in chat.ids.tolist()
