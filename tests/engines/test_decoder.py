"""Ids back to text, against transformers."""

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest
from tokenizers import Tokenizer, decoders, models
from transformers import AutoTokenizer, PreTrainedTokenizerFast

from promptmill.pipeline.engines.decode import Decoder
from promptmill.schemas.bundle import ModelBundle

MakeBundle = Callable[..., ModelBundle]


@pytest.mark.parametrize(
    "folder",
    [
        "llama2",
        "qwen3",
        *(pytest.param(name, marks=pytest.mark.soak) for name in ("gemma3", "gptoss", "llama3_1")),
    ],
)
def test_equals_transformers(folder: str, models: Path, make_bundle: MakeBundle) -> None:
    theirs = AutoTokenizer.from_pretrained(models / folder)
    bundle = make_bundle(theirs.backend_tokenizer)
    cleans = theirs.clean_up_tokenization_spaces
    facts = replace(bundle.facts, clean_up_tokenization_spaces=cleans)
    ours = Decoder(replace(bundle, facts=facts))
    special = theirs.all_special_tokens[0]
    texts = ["", " Hello , world . it 's", f"{special}a{special} b", "😀 e\u0301 中\n\n", "▁x  y"]
    for text in texts:
        ids = theirs(text, add_special_tokens=True)["input_ids"]
        for cut in (ids, ids[1:], ids[:-1], [*ids, len(theirs) + 10]):
            for skip in (True, False):
                wanted = theirs.decode(cut, skip_special_tokens=skip)
                assert ours.decode(cut, skip_special_tokens=skip) == wanted


def test_spaces_are_cleaned_up_where_the_tokenizer_says(make_bundle: MakeBundle) -> None:
    text = "[UNK] it is n't . I 'm here , you 've ' been we 're what 's ! ?"
    words = text.split()
    backend = Tokenizer(models.WordPiece({word: i for i, word in enumerate(words)}))
    backend.decoder = decoders.WordPiece(cleanup=False)
    ids = list(range(len(words)))
    for cleans in (True, False):
        theirs = PreTrainedTokenizerFast(
            tokenizer_object=backend, clean_up_tokenization_spaces=cleans
        )
        bundle = make_bundle(backend)
        facts = replace(bundle.facts, clean_up_tokenization_spaces=cleans)
        ours = Decoder(replace(bundle, facts=facts))
        assert ours.decode(ids) == theirs.decode(ids)
    assert ours.decode(ids) == text
