"""What tokenizers add around a prompt, and their own truncation, against transformers."""

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from tokenizers import Tokenizer, processors
from transformers import AutoTokenizer, PreTrainedTokenizerBase

from promptmill.pipeline.engines.special import added_special_ids
from promptmill.pipeline.params import TokenizeParams
from promptmill.pipeline.tokenize import TextJob, load_tokenizer
from promptmill.schemas.bundle import ModelBundle
from promptmill.schemas.options import EngineName, Side
from promptmill.schemas.request import Rendered

MakeBundle = Callable[..., ModelBundle]
MakeTokenizer = Callable[..., Tokenizer]
FOLDERS = ("bos", "chatml", "llama2", "llama3_1")
MORE_FOLDERS = ("deepseek_v3", "deepseek_v3_llamacls", "gemma3", "gptoss", "internvl_hf", "llava15")


def added_by(bundle: ModelBundle) -> tuple[list[int], list[int]] | None:
    added = added_special_ids(bundle)
    return None if added is None else (added.prefix.tolist(), added.suffix.tolist())


def test_prefix_and_suffix_are_found(make_bundle: MakeBundle, byte_level: MakeTokenizer) -> None:
    tokenizer = byte_level()
    a, b = (tokenizer.token_to_id(token) for token in ("<|a|>", "<|b|>"))
    tokens = [("<|a|>", a), ("<|b|>", b)]
    assert added_by(make_bundle(tokenizer)) == ([], [])
    cases: dict[str, tuple[list[int], list[int]] | None] = {
        "<|a|> $A": ([a], []),
        "$A <|b|>": ([], [b]),
        "<|a|> <|b|> $A <|b|>": ([a, b], [b]),
        "$A <|a|> $A": None,
    }
    for template, wanted in cases.items():
        tokenizer.post_processor = processors.TemplateProcessing(template, None, tokens)
        assert added_by(make_bundle(tokenizer)) == wanted, template
    tokenizer.post_processor = processors.BertProcessing(("<|b|>", b), ("<|a|>", a))
    assert added_by(make_bundle(tokenizer)) == ([a], [b])
    tokenizer.post_processor = processors.Sequence(
        [
            processors.ByteLevel(trim_offsets=False),
            processors.TemplateProcessing("<|a|> $A", None, tokens),
        ]
    )
    assert added_by(make_bundle(tokenizer)) == ([a], [])


@pytest.fixture(
    scope="module",
    params=[*FOLDERS, *(pytest.param(name, marks=pytest.mark.soak) for name in MORE_FOLDERS)],
)
def folder(request: pytest.FixtureRequest, models: Path, tiny_models: Path) -> Path:
    for parent in (models, tiny_models):
        if (parent / request.param / "tokenizer.json").exists():
            return Path(parent / request.param)
    pytest.skip(f"no model folder {request.param}")


@pytest.fixture(scope="module")
def theirs(folder: Path) -> PreTrainedTokenizerBase:
    tokenizer: PreTrainedTokenizerBase = AutoTokenizer.from_pretrained(folder)
    return tokenizer


@pytest.mark.parametrize("side", Side)
def test_truncation_equals_transformers(
    theirs: PreTrainedTokenizerBase, make_bundle: MakeBundle, side: Side
) -> None:
    bundle = make_bundle(theirs.backend_tokenizer)
    bundle = replace(bundle, facts=replace(bundle.facts, truncation_side=side))
    ours = load_tokenizer(bundle, EngineName.TOKENIZERS)
    theirs.truncation_side = side.value
    bos = theirs.bos_token or theirs.eos_token
    for text in ("", "a", "a b c d e", f"{bos}a {bos} b", "😀 e\u0301 中"):
        for limit in (0, 1, 2, 3, 9, None):
            for add in (True, False):
                params = TokenizeParams(
                    max_total_tokens=None if limit is None else 100,
                    truncate_prompt_tokens=limit,
                    add_special_tokens=add,
                    return_token_offsets=True,
                )
                [got] = ours.encode([TextJob(rendered=Rendered(text=text), params=params)])
                assert not isinstance(got, Exception)
                wanted = theirs(
                    text,
                    add_special_tokens=add,
                    truncation=limit is not None,
                    max_length=limit,
                    return_offsets_mapping=True,
                )
                assert got.ids.tolist() == wanted["input_ids"], (text, limit, add)
                assert got.offsets is not None
                spans = np.asarray(wanted["offset_mapping"], np.int32).reshape(-1, 2)
                assert np.array_equal(got.offsets, spans), (text, limit, add)
