"""The bundle gives the ids that transformers gives, in processes that never import transformers."""

import json
import pickle
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import TypeAlias

import pytest
from transformers import AutoTokenizer, PreTrainedTokenizerBase
from transformers.models.auto.tokenization_auto import MODELS_WITH_INCORRECT_HUB_TOKENIZER_CLASS
from transformers.tokenization_utils_tokenizers import TokenizersBackend

from promptmill.pipeline.model.load import load_bundle
from promptmill.schemas.bundle import ModelBundle
from promptmill.schemas.options import JobOptions

Load: TypeAlias = Callable[..., ModelBundle]

MODELS = ("deepseek_v3_llamacls", "llama2", "llava15", "qwen3")
"""The classes that rebuild their backend, added tokens, and byte-level BPE; all are soaked."""
TINY = ("bos", "chatml", "left", "rstrip", "trunc8", "vl")
TEXTS = (
    "",
    " ",
    "\n",
    "  two  spaces\t\ttabs \r\n\r\n\n end ",
    "Hello, world! It's 12345.678 and 9999999",
    "don't DON'T l'été naïve Straße İstanbul ﬁne ½ №",
    "e\u0301 vs \u00e9, \u1100\u1161\u11a8 vs 각, ＦＵＬＬ ｗｉｄｔｈ",
    "你好，世界。こんにちは。안녕하세요. สวัสดี नमस्ते مرحبا שלום",
    "👍🏽 👩‍👩‍👧‍👦 🏳️‍🌈 🦀 \u200d \ufe0f \ufeff \u2028 \u2029 \u0000 \u00a0",
    "𝔘𝔫𝔦𝔠𝔬𝔡𝔢 \U0010ffff \ud7ff \ue000",
    "<|im_start|>user\n<s></s><bos><|eot_id|><｜User｜><start_of_turn>[INST]",
    "<|im_end|>  <|im_end|>\n\n<|im_end|>x<|im_end",
    "▁under▁score Ġbyte Ċ ##piece <0x0A>",
    "def f(x):\n    return {'a': [1, 2.5e-3], \"b\": x ** 2}  # ok\n",
    "a" * 300 + " " * 50 + "ab" * 100,
)
ENCODE = """
import pickle, sys, json
bundles, texts = pickle.load(open(sys.argv[1], "rb"))
from tokenizers import Tokenizer
ids = {}
for name, bundle in bundles.items():
    tokenizer = Tokenizer.from_str(bundle.backend)
    ids[name] = [[tokenizer.encode(text, add_special_tokens=special).ids for text in texts[name]]
                 for special in (False, True)]
    ids[name].append([bundle.sha256(), bundle.sha256(templates=True)])
assert not {"transformers", "huggingface_hub", "mistral_common"} & set(sys.modules)
print(json.dumps(ids))
"""


def encoded_elsewhere(
    bundles: dict[str, ModelBundle], texts: dict[str, list[str]], tmp_path: Path
) -> dict[str, list[list[object]]]:
    """Ids as a worker gets them: unpickled in a fresh process, backend only."""
    pickled = tmp_path / "bundles.pickle"
    pickled.write_bytes(pickle.dumps((bundles, texts)))
    done = subprocess.run(
        [sys.executable, "-c", ENCODE, str(pickled)], check=True, capture_output=True, text=True
    )
    found: dict[str, list[list[object]]] = json.loads(done.stdout)
    return found


def reference(folder: Path) -> PreTrainedTokenizerBase:
    """What a folder's ids are held to: tokenizer.json itself where its class is not heeded."""
    model_type = json.loads((folder / "config.json").read_text())["model_type"]
    listed = model_type in MODELS_WITH_INCORRECT_HUB_TOKENIZER_CLASS
    chosen = TokenizersBackend if listed else AutoTokenizer
    found: PreTrainedTokenizerBase = chosen.from_pretrained(folder)
    return found


def compare(folders: dict[str, Path], load: Load, tmp_path: Path) -> None:
    bundles = {name: load(folder) for name, folder in folders.items()}
    texts = {
        name: [*TEXTS, " ".join(bundle.facts.all_special_tokens)]
        for name, bundle in bundles.items()
    }
    found = encoded_elsewhere(bundles, texts, tmp_path)
    for name, folder in folders.items():
        tokenizer = reference(folder)
        for i, special in enumerate((False, True)):
            for text, ids in zip(texts[name], found[name][i], strict=True):
                wanted = tokenizer(text, add_special_tokens=special)["input_ids"]
                assert ids == wanted, (name, text)
        bundle = bundles[name]
        assert found[name][2] == [bundle.sha256(), bundle.sha256(templates=True)]


def test_real_models(load: Load, models: Path, tmp_path: Path) -> None:
    compare({name: models / name for name in MODELS}, load, tmp_path)


def test_tiny_models(load: Load, tiny_models: Path, tmp_path: Path) -> None:
    compare({name: tiny_models / name for name in TINY}, load, tmp_path)


@pytest.mark.soak
def test_all_models(load: Load, models: Path, tiny_models: Path, tmp_path: Path) -> None:
    folders = [
        path.parent
        for root in (models, models / "media", tiny_models)
        for path in sorted(root.glob("*/tokenizer.json"))
        if (path.parent / "config.json").exists()
    ]
    for folder in folders:
        compare({folder.name: folder}, load, tmp_path)


def test_a_folder_always_gives_an_equal_bundle(tiny_models: Path) -> None:
    job = JobOptions(input=("x",), output="o", model=str(tiny_models / "chatml"))
    assert load_bundle(job) == load_bundle(job)
