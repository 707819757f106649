"""Answers of models without a library: whole text, counted oddities, batch lines."""

import json
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from tokenizers import Tokenizer

from promptmill.pipeline.decode.plain import PlainReader
from promptmill.pipeline.model.load import load_bundle
from promptmill.schemas.bundle import ModelBundle
from promptmill.schemas.errors import JobError, RowError
from promptmill.schemas.json_types import Json
from promptmill.schemas.options import JobOptions
from promptmill.schemas.outputs import EngineOutput, TokenLogprob
from promptmill.workers.decode import DecodeJob, decode_outputs

Ids = Callable[[str], list[int]]


@pytest.fixture(scope="module")
def bundle(tiny_models: Path) -> ModelBundle:
    folder = str(tiny_models / "chatml")
    return load_bundle(JobOptions(input=("ids",), output="out", model=folder))


@pytest.fixture(scope="module")
def ids_of(bundle: ModelBundle) -> Ids:
    tokenizer = Tokenizer.from_str(bundle.backend or "")
    return lambda text: list(tokenizer.encode(text, add_special_tokens=False).ids)


def choice(body: Json) -> dict[str, Json]:
    assert isinstance(body, dict)
    choices = body["choices"]
    assert isinstance(choices, list)
    assert isinstance(choices[0], dict)
    return choices[0]


def output(ids: list[int], **fields: object) -> EngineOutput:
    return EngineOutput(custom_id="row", token_ids=ids, **fields)  # type: ignore[arg-type]


def test_text_without_its_end(bundle: ModelBundle, ids_of: Ids) -> None:
    eos = bundle.facts.eos_token_id
    assert eos is not None
    reply = PlainReader(bundle, 7).read(output([*ids_of("Zwölf 🦀"), eos, eos]))
    answer = choice(reply.body)
    assert answer["message"] == {"role": "assistant", "content": "Zwölf 🦀"}
    assert answer["finish_reason"] == "stop"
    assert reply.body["created"] == 7
    assert reply.warnings == []


@pytest.mark.parametrize(("ending", "more"), [("", 0), ("e", 1), ("ee", 1), ("epp", 1), ("pp", 0)])
def test_usage_counts_the_end_and_no_padding(
    bundle: ModelBundle, ids_of: Ids, ending: str, more: int
) -> None:
    eos, text = bundle.facts.eos_token_id, ids_of("Zwölf 🦀")
    pad = ids_of("p")[0]
    assert eos is not None
    padded = replace(bundle, facts=replace(bundle.facts, pad_token_id=pad))
    ids = [*text, *({"e": eos, "p": pad}[letter] for letter in ending)]
    counted = len(text) + more
    reply = PlainReader(padded, 0).read(output(ids, prompt_tokens=3))
    assert reply.body["usage"] == {
        "prompt_tokens": 3,
        "completion_tokens": counted,
        "total_tokens": 3 + counted,
    }
    assert PlainReader(padded, 0).read(output(ids)).body["usage"] is None, "nothing is made up"


def test_odd_outputs_are_counted(bundle: ModelBundle, ids_of: Ids) -> None:
    reader, crab = PlainReader(bundle, 0), ids_of("a🦀")
    assert len(crab) > 2
    reply = reader.read(output([10**9, -1, *crab[:-1]]))
    assert choice(reply.body)["message"] == {"role": "assistant", "content": "a"}
    assert (reply.unknown_ids, reply.incomplete) == (2, True)
    assert len(reply.warnings) == 2


@pytest.mark.parametrize(
    ("reason", "limit", "wanted"),
    [
        (None, None, "stop"),
        (None, 3, "length"),
        (None, 4, "stop"),
        ("length", None, "length"),
        ("abort", 3, "stop"),
    ],
)
def test_finish_reasons(
    bundle: ModelBundle, ids_of: Ids, reason: str | None, limit: int | None, wanted: str
) -> None:
    request = {} if limit is None else {"max_tokens": limit}
    ids = (ids_of("aaaa bbbb cccc") * 3)[:3]
    reply = PlainReader(bundle, 0).read(output(ids, finish_reason=reason, request=request))
    assert choice(reply.body)["finish_reason"] == wanted


@pytest.mark.parametrize(
    ("request_", "wanted"),
    [
        ({"stop": "###"}, "one "),
        ({"stop": ["two", "###"]}, "one "),
        ({"stop": ["###"], "include_stop_str_in_output": True}, "one ###"),
        ({"stop": [" two", "\u2028"]}, "one ###"),
        ({"stop": ["one"], "min_tokens": 50}, "one ### two"),
        ({"stop": []}, "one ### two"),
        ({"stop": "three"}, "one ### two"),
        ({"stop": ""}, "one ### two"),
    ],
)
def test_a_stop_string_ends_the_text(
    bundle: ModelBundle, ids_of: Ids, request_: dict[str, Json], wanted: str
) -> None:
    ids = ids_of("one ### two")
    reply = PlainReader(bundle, 0).read(output(ids, request=request_, finish_reason="length"))
    answer = choice(reply.body)
    assert answer["message"] == {"role": "assistant", "content": wanted}
    assert answer["finish_reason"] == ("length" if wanted == "one ### two" else "stop")


def test_a_stop_string_is_looked_for_after_each_id(bundle: ModelBundle, ids_of: Ids) -> None:
    ids = [i for letter in "a#b#c" for i in ids_of(letter)]
    reader = PlainReader(bundle, 0)
    for stops, wanted in ((["c", "b#"], "a#"), (["#b#", "#"], "a"), (["#b#"], "a")):
        body = reader.read(output(ids, request={"stop": stops})).body
        assert choice(body)["message"] == {"role": "assistant", "content": wanted}
    body = reader.read(output(ids, request={"stop": "#", "min_tokens": 2})).body
    assert choice(body)["message"] == {"role": "assistant", "content": "a#b"}


def test_log_probabilities_are_carried(bundle: ModelBundle, ids_of: Ids) -> None:
    ids = ids_of("a🦀 b")
    found = [TokenLogprob(-0.5 * n, ((ids[0], -2.0),)) for n in range(len(ids))]
    logprobs = choice(PlainReader(bundle, 0).read(output(ids, logprobs=found)).body)["logprobs"]
    assert isinstance(logprobs, dict)
    entries = logprobs["content"]
    assert isinstance(entries, list)
    assert [entry["logprob"] for entry in entries if isinstance(entry, dict)] == [
        one.logprob for one in found
    ]
    assert "".join(str(entry["token"]) for entry in entries if isinstance(entry, dict)) == "a🦀 b"
    data = [entry["bytes"] for entry in entries if isinstance(entry, dict)]
    assert bytes(b for part in data if isinstance(part, list) for b in part) == "a🦀 b".encode()  # type: ignore[misc]


def test_counts_that_do_not_match_are_refused(bundle: ModelBundle) -> None:
    with pytest.raises(RowError, match="1 log probabilities for 2 ids"):
        PlainReader(bundle, 0).read(output([1, 2], logprobs=[TokenLogprob(0.0)]))


def test_a_file_of_outputs_becomes_batch_lines(
    tiny_models: Path, bundle: ModelBundle, ids_of: Ids, tmp_path: Path
) -> None:
    table = pa.table(
        {
            "custom_id": ["a", "b", "c"],
            "generated_tokens": [ids_of("yes"), ids_of("no"), None],
            "logprobs": [[-1.0] * len(ids_of("yes")), [-1.0] * 50, None],
            "num_tokens": [11, 12, 13],
            "request": [json.dumps({"model": "mine"}), None, None],
        }
    )
    source, target, warned = tmp_path / "ids.parquet", tmp_path / "deep" / "out.jsonl", []
    pq.write_table(table, source)
    job = DecodeJob(inputs=(str(source),), output=target, model=str(tiny_models / "chatml"))
    counts = decode_outputs(job, warned.append)
    lines = [json.loads(line) for line in target.read_text(encoding="utf-8").splitlines()]
    assert [line["custom_id"] for line in lines] == ["a", "b", "c"]
    body = lines[0]["response"]["body"]
    assert (lines[0]["response"]["status_code"], lines[0]["error"]) == (200, None)
    assert body["choices"][0]["message"]["content"] == "yes"
    assert (body["model"], body["usage"]["prompt_tokens"]) == ("mine", 11)
    assert [line["response"]["status_code"] for line in lines[1:]] == [400, 400]
    assert all(line["error"]["code"] == "invalid_request" for line in lines[1:])
    assert counts.startswith("1 answer, 2 errors")
    assert warned == [*bundle.warnings] != []
    assert [path.name for path in target.parent.iterdir()] == ["out.jsonl"]
    before = target.read_bytes()
    with pytest.raises(JobError, match="is there already, and nothing was touched"):
        decode_outputs(job, warned.append)
    assert target.read_bytes() == before


def test_several_answers_to_a_row(tiny_models: Path, ids_of: Ids, tmp_path: Path) -> None:
    source, target, warned = tmp_path / "ids.parquet", tmp_path / "out.jsonl", []
    rows = {"custom_id": ["a", "b", "a", "a"], "token_ids": [ids_of("yes")] * 3 + [None]}
    pq.write_table(pa.table(rows), source)
    job = DecodeJob(
        inputs=(str(source),),
        output=target,
        model=str(tiny_models / "chatml"),
        served_model_name="mine",
    )
    decode_outputs(job, warned.append)
    lines = [json.loads(line) for line in target.read_text(encoding="utf-8").splitlines()]
    assert [line["custom_id"] for line in lines] == rows["custom_id"]
    assert len({line["id"] for line in lines}) == 4
    assert lines[0]["response"]["body"]["model"] == "mine"
    assert warned[-1].startswith("2 answers with a custom_id that an answer before has")


def test_answers_without_what_their_rows_asked_for_are_counted(
    tiny_models: Path, ids_of: Ids, tmp_path: Path
) -> None:
    source, warned = tmp_path / "ids.parquet", []
    rows = {"token_ids": [ids_of("yes")] * 3, "num_tokens": [1] * 3, "request": ["{}", None, None]}
    pq.write_table(pa.table(rows), source)
    model = str(tiny_models / "chatml")
    job = DecodeJob(inputs=(str(source),), output=tmp_path / "out.jsonl", model=model)
    counts = decode_outputs(job, warned.append)
    assert warned[-1].startswith("2 answers came without the column request")
    assert counts.startswith("3 answers, 0 errors")


def test_ids_of_another_model_are_warned_of(tiny_models: Path, tmp_path: Path) -> None:
    source, warned = tmp_path / "ids.parquet", []
    pq.write_table(pa.table({"token_ids": [[5, 10**6, 10**6 + 1]]}), source)
    model = str(tiny_models / "chatml")
    job = DecodeJob(inputs=(str(source),), output=tmp_path / "out.jsonl", model=model)
    decode_outputs(job, warned.append)
    assert warned[-1].startswith("2 ids outside of the vocabulary")
    assert warned[-1].endswith(f"is {model} the model that answered?")


def test_inputs_that_cannot_be_decoded(tiny_models: Path, tmp_path: Path) -> None:
    model = str(tiny_models / "chatml")
    pq.write_table(pa.table({"prompt_token_ids": [[1]], "text": ["x"]}), tmp_path / "rows.parquet")
    (tmp_path / "no.parquet").write_bytes(b"no Parquet")

    def run(name: str, output: Path, column: str | None = None) -> None:
        job = DecodeJob(
            inputs=(str(tmp_path / name),), output=output, model=model, ids_column=column
        )
        decode_outputs(job, print)

    out = tmp_path / "out.jsonl"
    for name, column, part in (
        ("rows.parquet", None, "--ids-column"),
        ("rows.parquet", "text", "ids are a list of integers"),
        ("no.parquet", None, r"Parquet.* Parquet magic bytes .*pyarrow\.json\.read_json"),
        ("missing", None, "no such file"),
    ):
        with pytest.raises(JobError, match=part):
            run(name, out, column)
    with pytest.raises(JobError, match="is a folder"):
        run("rows.parquet", tmp_path)
    assert not list(tmp_path.glob("*.jsonl")) + list(tmp_path.glob(".*"))
    run("rows.parquet", out, "prompt_token_ids")
    assert out.exists()
