from collections import Counter
from collections.abc import Sequence
from typing import Any

import pytest

from promptmill.pipeline.render.conversation import Conversation, ConversationBuilder
from promptmill.schemas.errors import ErrorCode, RowError
from promptmill.schemas.json_types import Json
from promptmill.schemas.media import MediaItem, Modality
from promptmill.schemas.options import ContentFormat

IMAGE = {"type": "image_url", "image_url": {"url": "data:image/png;base64,AA=="}}
VIDEO = {"type": "video_url", "video_url": {"url": "http://x/v.mp4"}}
SOUND = {"type": "input_audio", "input_audio": {"data": "AAAA", "format": "wav"}}


def text(value: str | None, **extra: Any) -> dict[str, Any]:
    return {"type": "text", "text": value, **extra}


class Rules:
    """Media rules of a made-up family whose audio placeholder is numbered."""

    def __init__(self) -> None:
        self.supported = {Modality.IMAGE: 9, Modality.AUDIO: 9, Modality.VIDEO: 9}

    def placeholder(self, modality: Modality, index: int) -> str | None:
        names = {Modality.IMAGE: "<image>", Modality.AUDIO: f"<audio{index}>"}
        return names.get(modality)

    def check_items(self, items: Sequence[MediaItem]) -> None:
        if len(items) > 2:
            raise RowError(ErrorCode.MEDIA_LIMIT, "At most 2 image(s)")

    def check_typed(self, messages: Json, items: Sequence[MediaItem]) -> None:
        if items and "<image>" in str(messages):
            raise RowError(ErrorCode.PLACEHOLDER_IN_TEXT, "typed")


def build(*messages: dict[str, Any], parts: bool = False, **options: Any) -> Conversation:
    wanted = ContentFormat.OPENAI if parts else ContentFormat.STRING
    return ConversationBuilder(wanted, model="tiny", **options).build(messages)


def content_of(content: object, *, role: str = "user", **options: Any) -> Any:
    return build({"role": role, "content": content}, **options).messages[0]["content"]


@pytest.mark.parametrize(
    ("content", "as_string", "as_parts"),
    [
        ("hi", "hi", [text("hi")]),
        ("", "", [text("")]),
        (None, "", []),
        ([], "", []),
        ([text("a"), text(""), text("b")], "a\nb", [text("a"), text(""), text("b")]),
        ([{"type": "input_text", "text": "a"}], "a", [text("a")]),
        ([{"type": "output_text", "text": None}], "", [text(None)]),
        ([{"type": "refusal", "refusal": "no"}], "no", [text("no")]),
        ([{"type": "thinking", "thinking": "hm", "closed": True}], "hm", [text("hm")]),
        ([text("a", cache_control={"x": 1})], "a", [text("a", cache_control={"x": 1})]),
        ([text(None), {"type": "refusal", "refusal": None}, text("a")], "a", [text("a")]),
        (
            [{"type": "tool_reference", "name": "f"}],
            "f",
            [{"type": "tool_reference", "name": "f"}],
        ),
        (["a", "b"], "a\nb", [text("a"), text("b")]),
    ],
)
def test_text_content(content: object, as_string: str, as_parts: list[Any]) -> None:
    assert content_of(content) == as_string
    assert content_of(content, parts=True) == as_parts


def test_only_known_keys_reach_the_template() -> None:
    message = {
        "role": "assistant",
        "content": "a",
        "reasoning": "r",
        "tool_calls": None,
        "name": "bob",
        "task": "t",
        "weight": 1,
        "tool_call_id": "x",
    }
    assert list(build(message).messages[0].items()) == [
        ("role", "assistant"),
        ("content", "a"),
        ("reasoning", "r"),
        ("reasoning_content", "r"),
        ("name", "bob"),
        ("task", "t"),
    ]
    user = build({"role": "user", "content": "a", "reasoning": "r", "name": 1}).messages[0]
    assert user == {"role": "user", "content": "a"}
    developer = build({"role": "developer", "content": "a"}).messages[0]
    assert developer == {"role": "developer", "content": "a", "tools": None}


def test_tool_results_of_text_become_a_string() -> None:
    tool = {"role": "tool", "tool_call_id": "c", "content": [text("15 C"), text("cloudy")]}
    for parts in (False, True):
        assert build(tool, parts=parts).messages == [
            {"role": "tool", "content": "15 C\ncloudy", "tool_call_id": "c"}
        ]
    reference = [text("see"), {"type": "tool_reference", "name": "f"}]
    assert content_of(reference, role="tool", parts=True) == reference
    assert content_of([], role="tool", parts=True) == ""


@pytest.mark.parametrize(
    ("content", "left"),
    [
        ("x-anthropic-billing-header: cch=1\nReal\nsystem", "Real\nsystem"),
        ("x-anthropic-billing-header: cch=1", ""),
        ([text("x-anthropic-billing-header: 1"), text("Real")], "Real"),
        ([text("x-anthropic-billing-header: 1\na"), text("Real")], "a\nReal"),
        ("Real\nx-anthropic-billing-header", "Real\nx-anthropic-billing-header"),
    ],
)
def test_billing_headers_of_system_messages_go(content: object, left: str) -> None:
    assert content_of(content, role="system") == left
    assert content_of("x-anthropic-billing-header") == "x-anthropic-billing-header"


@pytest.mark.parametrize(
    ("given", "rendered", "warned"),
    [
        ('{"x": 1e3, "x": 1.0}', {"x": 1.0}, False),
        ("", {}, False),
        (None, {}, False),
        ({"a": 1}, {"a": 1}, False),
        ("{not json", {}, True),
        ("[1]", {}, True),
        ("42", {}, True),
        ('"{}"', {}, True),
    ],
)
def test_arguments_are_objects(given: object, rendered: object, warned: bool) -> None:
    call = {"id": "c", "function": {"arguments": given, "name": "f"}, "type": "function", "x": 1}
    message = {"role": "assistant", "content": None, "tool_calls": [call]}
    made = build(message)
    assert made.messages[0]["tool_calls"] == [
        {**call, "function": {"arguments": rendered, "name": "f"}}
    ]
    assert list(made.messages[0]["tool_calls"][0]) == list(call)
    assert call["function"]["arguments"] is given, "the request itself stays as it is"
    assert bool(made.warnings) is warned


def test_an_empty_list_of_calls_goes() -> None:
    assert build({"role": "assistant", "content": "x", "tool_calls": []}).messages == [
        {"role": "assistant", "content": "x"}
    ]


@pytest.mark.parametrize(
    ("call", "reason"),
    [
        ("f", "must be objects"),
        ({"type": "custom", "function": {}}, "of type 'function'"),
        ({"type": "function"}, "of type 'function'"),
        ({"function": {"arguments": "[" * 100_000}}, "cannot be read"),
        ({"function": {"arguments": "1" * 5_000}}, "cannot be read"),
    ],
)
def test_what_is_no_call_is_refused(call: object, reason: str) -> None:
    with pytest.raises(RowError, match=reason) as caught:
        build({"role": "assistant", "content": "", "tool_calls": [call]})
    assert (caught.value.code, caught.value.parameter) == (
        ErrorCode.INVALID_REQUEST,
        "tool_calls",
    )


@pytest.mark.parametrize(
    ("part", "code", "parameter", "reason"),
    [
        ({"type": "file"}, ErrorCode.INVALID_REQUEST, "type", "part type: 'file'. Supported"),
        ({"text": "x"}, ErrorCode.INVALID_REQUEST, "type", "Missing 'type'"),
        ({"type": 3, "text": "x"}, ErrorCode.INVALID_REQUEST, "type", "Invalid 'type'"),
        (7, ErrorCode.INVALID_REQUEST, "type", "Missing 'type'"),
        (
            {"type": "image_embeds", "image_embeds": "AA=="},
            ErrorCode.UNSUPPORTED_REQUEST,
            "image_embeds",
            "--enable-mm-embeds",
        ),
        (IMAGE, ErrorCode.MEDIA_UNSUPPORTED, None, "tiny is not a multimodal model"),
        ({"image_url": "http://x"}, ErrorCode.MEDIA_UNSUPPORTED, None, "not a multimodal"),
    ],
)
def test_parts_that_are_refused(
    part: object, code: ErrorCode, parameter: str | None, reason: str
) -> None:
    with pytest.raises(RowError, match=reason) as caught:
        build({"role": "user", "content": [part]})
    assert (caught.value.code, caught.value.parameter) == (code, parameter)


def test_media_go_in_front_of_string_content() -> None:
    made = build(
        {"role": "user", "content": [text("a"), IMAGE, text("b"), SOUND, IMAGE]},
        {"role": "user", "content": [SOUND]},
        {"role": "user", "content": [VIDEO, text("c")]},
        media=Rules(),
    )
    assert [message["content"] for message in made.messages] == [
        "<image>\n<image>\n<audio0>\na\nb",
        "<audio1>",
        "c",
    ]
    assert Counter(item.modality for item in made.media) == {
        Modality.IMAGE: 2,
        Modality.AUDIO: 2,
        Modality.VIDEO: 1,
    }
    assert [item.url for item in made.media][1] == "data:audio/wav;base64,AAAA"
    assert made.warnings == ["messages[0]: media moved to the front of the message's text"]


def test_media_may_stay_in_their_places() -> None:
    content = [text("A:"), IMAGE, text("B:"), IMAGE, text("same?")]
    made = content_of(content, media=Rules(), interleave=True)
    assert made == "A:\n<image>\nB:\n<image>\nsame?"
    with pytest.raises(RowError, match="Found more '<##IMAGE##>' placeholders"):
        content_of([text("<##IMAGE##>"), IMAGE], media=Rules(), interleave=True)


def test_typed_placeholders_are_never_bound() -> None:
    with pytest.raises(RowError, match="Found more '<image>' placeholders") as caught:
        content_of([text("<image> <image>"), IMAGE], media=Rules())
    assert (caught.value.code, caught.value.parameter) == (
        ErrorCode.PLACEHOLDER_IN_TEXT,
        "messages",
    )


def test_parts_keep_media_in_their_places() -> None:
    content = [text("a"), {**IMAGE, "uuid": 7, "note": "n"}, VIDEO]
    made = build({"role": "user", "content": content}, parts=True, media=Rules())
    assert made.messages[0]["content"] == [
        text("a"),
        {"type": "image", "note": "n"},
        {"type": "video"},
    ]
    assert made.media == [
        MediaItem(Modality.IMAGE, "data:image/png;base64,AA==", uuid="7"),
        MediaItem(Modality.VIDEO, "http://x/v.mp4"),
    ]


@pytest.mark.parametrize(
    ("part", "item"),
    [
        ({"type": "input_image", "image_url": "http://x"}, MediaItem(Modality.IMAGE, "http://x")),
        ({"image_url": "http://x"}, MediaItem(Modality.IMAGE, "http://x")),
        ({"video_url": {"url": "v"}}, MediaItem(Modality.VIDEO, "v")),
        ({"type": "audio_url", "audio_url": {"url": "a"}}, MediaItem(Modality.AUDIO, "a")),
        (
            {"type": "image_url", "image_url": None, "uuid": "u"},
            MediaItem(Modality.IMAGE, uuid="u"),
        ),
        ({"type": "input_audio", "input_audio": {}}, MediaItem(Modality.AUDIO)),
    ],
)
def test_forms_of_media_parts(part: dict[str, Any], item: MediaItem) -> None:
    assert build({"role": "user", "content": [part]}, media=Rules()).media == [item]


@pytest.mark.parametrize(
    ("parts", "code"),
    [
        ([IMAGE, IMAGE, IMAGE], ErrorCode.MEDIA_LIMIT),
        ([IMAGE, text("an <image> typed")], ErrorCode.PLACEHOLDER_IN_TEXT),
    ],
)
def test_the_media_rules_have_their_say(
    make_renderer: Any, make_request: Any, parts: list[Any], code: ErrorCode
) -> None:
    template = "{% for m in messages %}{% for c in m.content %}{{ c.type }}{% endfor %}{% endfor %}"
    renderer = make_renderer(template, media=Rules())
    assert renderer.render(make_request({"role": "user", "content": [IMAGE]})).text == "image"
    with pytest.raises(RowError) as caught:
        renderer.render(make_request({"role": "user", "content": parts}))
    assert caught.value.code is code
