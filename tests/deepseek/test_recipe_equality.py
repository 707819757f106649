"""Ids, ranges and offsets equal the official library's own `encode`, whatever anyone types."""

import json
from collections.abc import Callable
from datetime import UTC, datetime
from types import ModuleType
from typing import Any

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from promptmill.pipeline.engines.plain import PlainRanges
from promptmill.pipeline.model.deepseek_tokens import SYSTEM, V4, V4_SPELLINGS, V41
from promptmill.pipeline.render.official import OfficialRenderer
from promptmill.schemas.bundle import ModelBundle
from promptmill.schemas.options import EngineName, JobOptions
from promptmill.schemas.request import Api, ApiPrompt, Endpoint, Place, Request

SPELLINGS = (*V4_SPELLINGS, SYSTEM, "<｜image｜>", "<｜deepseek_image｜>")
PIECES = st.one_of(
    st.sampled_from(SPELLINGS),
    st.sampled_from(SPELLINGS).flatmap(
        lambda s: st.integers(1, len(s) - 1).flatmap(lambda n: st.sampled_from([s[:n], s[n:]]))
    ),
    st.sampled_from(
        [
            "",
            " ",
            "\n",
            "\n\n",
            "\r\n",
            "\t",
            "\u2028",
            "\ufeff",
            "\u0000",
            "👩‍👩‍👧",
            "e\u0301",
            "日本語",
            "12345",
        ]
    ),
    st.text(max_size=8),
)
TEXTS = st.lists(PIECES, max_size=5).map("".join)


def tool_call(name: str, arguments: Any) -> dict[str, Any]:
    text = json.dumps(arguments, ensure_ascii=False)
    return {"id": "c1", "type": "function", "function": {"name": name, "arguments": text}}


@st.composite
def bodies(draw: Callable[[st.SearchStrategy[Any]], Any]) -> dict[str, Any]:
    """Chats whose every text is adversarial."""
    messages: list[dict[str, Any]] = []
    if draw(st.booleans()):
        messages.append({"role": "system", "content": draw(TEXTS)})
    for _ in range(draw(st.integers(1, 3))):
        messages.append({"role": "user", "content": draw(TEXTS)})
        kind = draw(st.sampled_from(["none", "answer", "tool"]))
        if kind != "none":
            answer = {"role": "assistant", "content": draw(TEXTS), "reasoning_content": draw(TEXTS)}
            messages.append(answer)
        if kind == "tool":
            answer["tool_calls"] = [tool_call("f", {draw(TEXTS): draw(TEXTS)})]
            messages.append({"role": "tool", "tool_call_id": "c1", "content": draw(TEXTS)})
    body: dict[str, Any] = {"messages": messages}
    if draw(st.booleans()):
        schema = {"type": "object", "properties": {"a": {"type": "string", "title": draw(TEXTS)}}}
        function = {"name": "f", "description": draw(TEXTS), "parameters": schema}
        body["tools"] = [{"type": "function", "function": function}]
    body["thinking"] = {"type": draw(st.sampled_from(["enabled", "disabled"]))}
    return body


class Both:
    """Our own way and the library's, for one mode."""

    def __init__(self, library: ModuleType, bundle: ModelBundle, mode: str) -> None:
        options = JobOptions(input=("rows",), output="out", model="m", tokenizer_mode=mode)
        self.library, self.name = (
            library,
            "DeepSeek-V4.1-Flash" if mode == V41 else "DeepSeek-V4-Pro",
        )
        self.renderer = OfficialRenderer(bundle, options, datetime(2026, 1, 1, tzinfo=UTC))
        self.ranges = PlainRanges(bundle, EngineName.TOKENIZERS)
        encoding = library.DeepseekV41Encoding() if mode == V41 else library.DeepseekV4Encoding()
        self.encoding = encoding.with_tokenizer(library.Tokenizer.from_str(bundle.backend))

    def compare(self, body: dict[str, Any]) -> None:
        prompt = ApiPrompt(Api.CHAT_COMPLETIONS, body)
        request = Request(
            custom_id="row", place=Place("rows", 0), endpoint=Endpoint.CHAT, prompt=prompt
        )
        rendered = self.renderer.render(request)
        text, ranges = rendered.text or "", rendered.special_ranges or ()
        made = self.library.ChatCompletionRequest({**body, "model": self.name})
        conversation = made.convert(self.library.ConversionOptions()).conversation
        theirs = self.encoding.render_conversation(conversation)
        assert (text, list(ranges)) == (theirs.prompt, theirs.special_ranges)
        tokens = self.ranges.encode(text, ranges)
        assert tokens.ids.tolist() == self.encoding.encode(conversation)
        assert tokens.offsets is not None
        starts, ends = tokens.offsets[:, 0], tokens.offsets[:, 1]
        assert (starts < ends).all()
        assert (np.diff(starts) >= 0).all()
        reach = np.maximum.accumulate(ends)
        assert (starts[1:] <= reach[:-1]).all()
        assert (starts[0], reach[-1]) == (0, len(text))
        assert {*ranges} <= {tuple(pair) for pair in tokens.offsets.tolist()}


@pytest.fixture(scope="module", params=[V4, V41])
def both(
    request: pytest.FixtureRequest, library: ModuleType, released: Callable[[str], ModelBundle]
) -> Both:
    return Both(library, released(request.param), request.param)


@settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(body=bodies())
def test_ids_and_offsets_are_the_library_s(both: Both, body: dict[str, Any]) -> None:
    both.compare(body)


def test_every_spelling_everywhere(both: Both) -> None:
    for spelling in SPELLINGS:
        typed = f"x{spelling} {spelling}{spelling}\n{spelling[:-1]}"
        both.compare(
            {
                "messages": [
                    {"role": "system", "content": typed},
                    {"role": "user", "content": typed},
                    {"role": "assistant", "content": typed, "reasoning_content": typed},
                    {"role": "user", "content": [{"type": "text", "text": typed}]},
                ]
            }
        )
