"""DeepSeek's outputs, taken apart by the official stream processor."""

from collections.abc import Callable
from typing import Any

import pytest
from tokenizers import Tokenizer

from promptmill.pipeline.decode.deepseek import DeepseekReader
from promptmill.pipeline.decode.load import load_reader
from promptmill.pipeline.model.deepseek_tokens import V41
from promptmill.schemas.bundle import ModelBundle
from promptmill.schemas.errors import RowError
from promptmill.schemas.outputs import EngineOutput, TokenLogprob

EOS_ID = 1
CALL = """think</think>text

<｜DSML｜ calls>
<｜DSML｜ invoke name="ping">
<｜DSML｜ parameter name="a" string="true">v</｜DSML｜ parameter>
</｜DSML｜ invoke>
</｜DSML｜ calls>"""


@pytest.fixture(scope="module")
def ids_of(released: Callable[[str], ModelBundle]) -> Callable[[str], list[int]]:
    tokenizer = Tokenizer.from_str(released(V41).backend or "")
    return lambda text: list(tokenizer.encode(text, add_special_tokens=False).ids)


@pytest.fixture(scope="module")
def reader(released: Callable[[str], ModelBundle]) -> DeepseekReader:
    made = load_reader(released(V41), 5, thinking=True, tool_calls=True)
    assert isinstance(made, DeepseekReader)
    return made


def read(reader: DeepseekReader, ids: list[int], **fields: Any) -> dict[str, Any]:
    reply = reader.read(EngineOutput(custom_id="row", token_ids=ids, **fields))
    body: dict[str, Any] = {**reply.body, "reply": reply}
    return {**body, **body["choices"][0], **body["choices"][0]["message"]}


def parsing(**settings: object) -> dict[str, Any]:
    return {"answer_parsing": settings}


def test_reasoning_text_and_calls(reader: DeepseekReader, ids_of: Callable[..., list[int]]) -> None:
    found = read(reader, [*ids_of(CALL), EOS_ID], prompt_tokens=9)
    assert (found["reasoning_content"], found["content"]) == ("think", "text")
    (call,) = found["tool_calls"]
    assert call["function"] == {"name": "ping", "arguments": '{"a": "v"}'}
    assert found["finish_reason"] == "tool_calls"
    assert found["usage"]["prompt_tokens"] == 9
    assert found["usage"]["completion_tokens"] == len(ids_of(CALL))
    assert found["usage"]["completion_tokens_details"]["reasoning_tokens"] == 1
    assert found["created"] == 5
    again = read(reader, [*ids_of(CALL), EOS_ID])
    assert again["usage"] is None, "nothing tells how long the prompt was"
    assert again["tool_calls"][0]["id"] == call["id"]


def test_rows_say_how_they_are_read(
    reader: DeepseekReader, ids_of: Callable[..., list[int]]
) -> None:
    plain = read(reader, ids_of(CALL), request=parsing(parse_tool_calls=False))
    assert "tool_calls" not in plain
    assert plain["content"].startswith("text\n\n<｜DSML｜ calls>")
    answer = ids_of("\n\nanswer")
    silent = read(reader, answer, request=parsing(thinking_initial_stage=None))
    assert (silent["content"], silent.get("reasoning_content")) == ("answer", None)
    inside = 'ping">\n</｜DSML｜ invoke>\n</｜DSML｜ calls>'
    opened = parsing(thinking_initial_stage=None, parse_tool_calls=True, starts_in_tool_calls=True)
    found = read(reader, ids_of(f'<｜DSML｜ invoke name="{inside}'), request=opened)
    assert [call["function"]["name"] for call in found["tool_calls"]] == ["ping"]


def test_typed_markup_is_text(reader: DeepseekReader, ids_of: Callable[..., list[int]]) -> None:
    typed = [i for character in "</think>" for i in ids_of(character)]
    found = read(reader, [*typed, *ids_of("</think>answer")])
    assert (found["reasoning_content"], found["content"]) == ("</think>", "answer")


def test_stop_sequences_end_the_answer(
    reader: DeepseekReader, ids_of: Callable[..., list[int]]
) -> None:
    for stop in (["STOP"], "STOP"):
        found = read(reader, ids_of("r</think>abc STOP def"), request={"stop": stop})
        assert (found["content"], found["finish_reason"]) == ("abc ", "stop")


def test_finish_reasons_of_deepseek(
    reader: DeepseekReader, ids_of: Callable[..., list[int]]
) -> None:
    ids = ids_of("r</think>abc")
    assert read(reader, ids, finish_reason="length")["finish_reason"] == "length"
    assert read(reader, ids, request={"max_tokens": len(ids)})["finish_reason"] == "length"
    assert read(reader, ids)["finish_reason"] == "stop"


def test_log_probabilities_of_deepseek(
    reader: DeepseekReader, ids_of: Callable[..., list[int]]
) -> None:
    ids = ids_of("r</think>ok")
    values = [TokenLogprob(-0.25 * n, ((5, -3.0),)) for n in range(len(ids))]
    logprobs = read(reader, ids, logprobs=values)["logprobs"]
    assert [entry["logprob"] for entry in logprobs["content"]] == [values[-1].logprob]
    assert [entry["token"] for entry in logprobs["reasoning_content"]] == ["r"]
    assert logprobs["content"][0]["top_logprobs"][0]["logprob"] == -3.0
    with pytest.raises(RowError, match="2 log probabilities for 3 ids"):
        read(reader, ids, logprobs=values[:-1])


def test_odd_ids_of_deepseek(reader: DeepseekReader, ids_of: Callable[..., list[int]]) -> None:
    found = read(reader, [999_999_999, -5, 1 << 40, *ids_of("</think>a🦀")[:-1]])
    assert found["content"] == "a"
    assert (found["reply"].unknown_ids, found["reply"].incomplete) == (3, True)
    assert read(reader, [])["content"] == ""
