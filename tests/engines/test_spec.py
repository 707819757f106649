"""Every tokenizer that the library can write is read."""

from tokenizers import Tokenizer, models, normalizers, pre_tokenizers, processors

from promptmill.pipeline.engines.spec import parse

NORMALIZERS = normalizers.Sequence(
    [
        normalizers.BertNormalizer(),
        normalizers.ByteLevel(),
        normalizers.Lowercase(),
        normalizers.NFC(),
        normalizers.NFD(),
        normalizers.NFKC(),
        normalizers.NFKD(),
        normalizers.Nmt(),
        normalizers.Prepend("▁"),
        normalizers.Replace("a", "b"),
        normalizers.Strip(),
        normalizers.StripAccents(),
    ]
)
PRE_TOKENIZERS = pre_tokenizers.Sequence(
    [
        pre_tokenizers.BertPreTokenizer(),
        pre_tokenizers.ByteLevel(),
        pre_tokenizers.CharDelimiterSplit("x"),
        pre_tokenizers.Digits(individual_digits=True),
        pre_tokenizers.Metaspace(),
        pre_tokenizers.Punctuation(),
        pre_tokenizers.Split("a", "removed", invert=True),
        pre_tokenizers.UnicodeScripts(),
        pre_tokenizers.Whitespace(),
        pre_tokenizers.WhitespaceSplit(),
    ]
)
PROCESSORS = processors.Sequence(
    [
        processors.BertProcessing(("a", 0), ("b", 1)),
        processors.ByteLevel(),
        processors.RobertaProcessing(("a", 0), ("b", 1)),
        processors.TemplateProcessing("a $A", None, [("a", 0)]),
    ]
)
MODELS = (
    models.BPE({"a": 0, "b": 1, "ab": 2}, [("a", "b")], dropout=0.1),
    models.Unigram([("<unk>", 0.0), ("a", -1.5)], unk_id=0),
    models.WordLevel({"a": 0, "b": 1}, unk_token="a"),
    models.WordPiece({"a": 0, "b": 1}, unk_token="a"),
)


def test_every_component_is_read() -> None:
    for model in MODELS:
        tokenizer = Tokenizer(model)
        assert parse(tokenizer.to_str()).normalizers() == ()
        tokenizer.normalizer = normalizers.Sequence([NORMALIZERS, normalizers.NFC()])
        tokenizer.pre_tokenizer = PRE_TOKENIZERS
        tokenizer.post_processor = PROCESSORS
        tokenizer.add_tokens(["[added]"])
        spec = parse(tokenizer.to_str())
        assert [part.type for part in spec.normalizers()][-2:] == ["StripAccents", "NFC"]
        assert len(spec.normalizers()) == 13
        assert len(spec.pre_tokenizers()) == 10
        assert [part.trim_offsets for part in spec.post_processors()] == [False, True, True, False]
        assert spec.model.type == type(model).__name__
        assert spec.model.ids() == tokenizer.get_vocab(with_added_tokens=False)
        [added] = spec.added_tokens
        assert (added.content, added.normalized) == ("[added]", True)
