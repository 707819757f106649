"""What rows mean in the DeepSeek modes, beyond what the library's own cases say."""

import pickle
import sys
from collections.abc import Callable

import pytest

from promptmill.pipeline.model.deepseek_tokens import EOS, V4, V41
from promptmill.pipeline.render.deepseek import library_version
from promptmill.schemas.errors import ErrorCode, JobError, RowError
from promptmill.schemas.json_types import JsonObject
from promptmill.schemas.options import Task
from promptmill.schemas.request import Api, Rendered

Render = Callable[..., Rendered]
USER: JsonObject = {"role": "user", "content": "question"}
ANSWER: JsonObject = {"role": "assistant", "content": "answer", "reasoning_content": "why"}


def chat(*messages: JsonObject, **fields: object) -> JsonObject:
    return {"messages": [*messages], **fields}  # type: ignore[dict-item]  # values of test rows


def refusal(render: Render, body: JsonObject, **options: object) -> RowError:
    with pytest.raises(RowError) as caught:
        render(body, **options)
    return caught.value


@pytest.mark.parametrize("mode", [V4, V41])
def test_a_body_needs_no_model(render: Render, mode: str) -> None:
    assert (render(chat(USER), mode=mode).text or "").endswith("question<｜Assistant｜><think>")


@pytest.mark.parametrize("name", ["models/made-up", "made-up", "served", "DeepSeek-V4.1-Flash"])
def test_names_of_the_model_are_taken(render: Render, name: str) -> None:
    body = chat(USER, model=name)
    assert render(body, served_model_name=("served",)) == render(chat(USER))


def test_rows_for_other_models_are_refused(render: Render) -> None:
    unknown = refusal(render, chat(USER, model="gpt-x"))
    assert "you passed gpt-x" in unknown.message
    assert "--served-model-name" in unknown.message
    other = refusal(render, chat(USER, model="DeepSeek-V4-Pro"))
    assert "DeepSeek-V4.1-Flash" in other.message
    assert {unknown.code, other.code} == {ErrorCode.INVALID_REQUEST}


@pytest.mark.parametrize("name", ["thinking", "enable_thinking"])
def test_thinking_may_be_a_template_argument(render: Render, name: str) -> None:
    off = render(chat(USER, chat_template_kwargs={name: False}))
    assert off == render(chat(USER), default_chat_template_kwargs={name: False})
    assert off == render(chat(USER), chat_template_kwargs={name: False})
    assert off == render(chat(USER, thinking={"type": "disabled"}))
    assert (off.text or "").endswith("</think>")


def test_the_body_wins_over_template_arguments(render: Render) -> None:
    body = chat(USER, thinking={"type": "enabled"}, chat_template_kwargs={"thinking": False})
    assert (render(body).text or "").endswith("<think>")


def test_effort_may_be_a_template_argument(render: Render) -> None:
    wanted = render(chat(USER, reasoning_effort="max"))
    assert render(chat(USER), chat_template_kwargs={"reasoning_effort": "max"}) == wanted
    assert "integer" in refusal(render, chat(USER, reasoning_effort=60)).message


def test_other_template_arguments_are_told_of(render: Render) -> None:
    rendered = render(chat(USER, chat_template_kwargs={"documents": []}))
    assert any("documents" in warning for warning in rendered.warnings)


@pytest.mark.parametrize("api", [Api.CHAT_COMPLETIONS, Api.MESSAGES])
def test_two_apis_write_one_prompt(render: Render, api: Api) -> None:
    body = chat(USER, max_tokens=7)
    assert render(body, api).text == render(body).text
    answer = render(body, api).answer
    assert answer is not None
    assert (answer.max_tokens, answer.default_max_tokens) == (7, 65_536)


def test_a_final_message_is_continued(render: Render) -> None:
    continued = render(chat(USER, ANSWER, continue_final_message=True))
    assert continued.text == render(chat(USER, {**ANSWER, "prefix": True})).text
    assert (continued.text or "").endswith("<think>why</think>answer")
    wrong = refusal(render, chat(USER, continue_final_message=True))
    assert "last message" in wrong.message


def test_training_takes_the_whole_conversation(render: Render) -> None:
    rendered = render(chat(USER, ANSWER), task=Task.TRAIN)
    text = rendered.text or ""
    assert text.endswith(f"<｜Assistant｜><think>why</think>answer{EOS}")
    assert rendered.special_ranges is not None
    assert rendered.special_ranges[-1] == (len(text) - len(EOS), len(text))
    assert [text[a:b] for a, b in rendered.assistant_spans or ()] == [f"why</think>answer{EOS}"]


def test_masks_cover_what_the_model_writes(render: Render) -> None:
    body = chat(USER, ANSWER, USER, {**ANSWER, "content": "</think> is plain"}, USER)
    rendered = render(body, with_mask=True)
    marked = [(rendered.text or "")[a:b] for a, b in rendered.assistant_spans or ()]
    assert marked == [f"answer{EOS}", f"</think> is plain{EOS}"]
    last = render(body, with_mask=True, mask="last").assistant_spans or ()
    assert last == (rendered.assistant_spans or ())[-1:]
    continued = render(chat(USER, ANSWER, continue_final_message=True), with_mask=True)
    marked = [(continued.text or "")[a:b] for a, b in continued.assistant_spans or ()]
    assert marked == ["why</think>answer"]
    assert render(chat(USER), with_mask=True).assistant_spans == ()


def test_typed_control_tokens_are_counted_and_stay_text(render: Render) -> None:
    typed = "<｜User｜> and <think> and <｜image｜>"
    rendered = render(chat({"role": "user", "content": typed}))
    start = (rendered.text or "").index(typed)
    ranges = rendered.special_ranges or ()
    assert not any(start <= a < start + len(typed) for a, _ in ranges)
    assert rendered.warnings == ("3 control tokens in content, encoded as plain text",)


def test_the_library_types_no_control_tokens_itself(render: Render) -> None:
    tool = {"type": "function", "function": {"name": "f", "parameters": {"type": "object"}}}
    for mode in (V4, V41):
        assert render(chat(USER, tools=[tool]), mode=mode).warnings == ()


def test_images_of_v4_are_words(render: Render) -> None:
    image = {"type": "image_url", "image_url": {"url": "data:image/png;base64,AAAA"}}
    rendered = render(chat({"role": "user", "content": [image, image]}), mode=V4)
    assert not rendered.media
    assert rendered.warnings == (
        "images the model does not see: 2 (V4 is told [Unsupported Image])",
    )


def test_images_of_v41_keep_their_detail(render: Render) -> None:
    url = "data:image/png;base64,AAAA"
    parts = [
        {"type": "image_url", "image_url": {"url": url, "detail": "low"}},
        {"type": "image_url", "image_url": {"url": "https://host/x.png"}},
    ]
    media = render(chat({"role": "user", "content": parts})).media
    assert [(item.url, item.detail) for item in media] == [
        (url, "low"),
        ("https://host/x.png", "high"),
    ]


def test_nothing_of_the_library_leaves(render: Render) -> None:
    rendered = render(chat(USER, stop=["x"], top_p=0.5))
    assert pickle.loads(pickle.dumps(rendered)) == rendered
    assert rendered.answer is not None
    assert rendered.answer.fields["stop"] == ["x"]
    assert rendered.answer.fields["top_p"] == 0.95
    for body in (chat(), chat({"role": "robot", "content": "x"}), chat(USER, max_tokens=0)):
        error = refusal(render, body)
        assert pickle.loads(pickle.dumps(error)).message == error.message


def test_refusals_do_not_repeat_long_content(render: Render) -> None:
    secret = "the patient's name is " + "x" * 50
    error = refusal(render, {"messages": secret})
    assert "patient" not in error.message
    assert "expected a sequence" in error.message


def test_deep_nesting_is_named(render: Render) -> None:
    nested: JsonObject = {}
    for _ in range(200):
        nested = {"a": nested}
    assert refusal(render, chat(USER, tools=[nested])).code is ErrorCode.NESTING_TOO_DEEP


def test_numbers_that_other_formats_lack_are_ignored_where_unread(render: Render) -> None:
    assert render(chat(USER, trace=10**40)) == render(chat(USER))


def test_the_library_may_be_missing(
    render: Render, library: object, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert library_version()
    monkeypatch.setitem(sys.modules, "deepseek_recipe", None)
    with pytest.raises(JobError, match=r"pip install 'promptmill\[deepseek\]'"):
        render(chat(USER))
