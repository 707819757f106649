"""Which template is taken, and how templates fail."""

from pathlib import Path
from typing import Any

import pytest

from promptmill.pipeline.render import template as template_module
from promptmill.pipeline.render.resolve import template_text
from promptmill.schemas.errors import ErrorCode, JobError, RowError

USER = {"role": "user", "content": "Hi"}
TOOLS = [{"type": "function", "function": {"name": "f"}}]
NAMED = {"default": "D", "tool_use": "T", "rag": "R"}
TRUSTED = {"trust_request_chat_template": True}


def test_the_row_s_template_wins(chat) -> None:
    row = {"chat_template": "row", "chat_template_kwargs": {"chat_template": "kwargs"}}
    assert chat(USER, row=row, **TRUSTED, chat_template="{{ 'job' }}").text == "row"
    row["chat_template"] = ""
    assert chat(USER, row=row, **TRUSTED, chat_template="{{ 'job' }}").text == "job"
    assert chat(USER, row=row, **TRUSTED).text == "kwargs"
    assert chat(USER, chat_template="{{ 'job' }}").text == "job"


@pytest.mark.parametrize(
    "row", [{"chat_template": "x"}, {"chat_template_kwargs": {"chat_template": "x"}}]
)
def test_rows_must_be_trusted_to_bring_templates(chat, row: dict[str, Any]) -> None:
    with pytest.raises(RowError, match="--trust-request-chat-template") as caught:
        chat(USER, row=row)
    assert caught.value.code is ErrorCode.UNTRUSTED_TEMPLATE


def test_named_templates(chat, make_bundle) -> None:
    bundle = make_bundle(chat_templates=NAMED, templates_are_named=True)
    assert chat(USER, bundle=bundle).text == "D"
    assert chat(USER, bundle=bundle, row={"tools": TOOLS}).text == "T"
    assert chat(USER, bundle=bundle, row={"chat_template": "rag"}, **TRUSTED).text == "R"
    assert chat(USER, bundle=bundle, chat_template="rag").text == "R"
    assert chat(USER, row={"chat_template": "tool_use"}, **TRUSTED).text == "tool_use"


def test_the_processor_s_template_is_taken_without_tools(chat, make_bundle) -> None:
    bundle = make_bundle("tokenizer", processor_template="processor")
    assert chat(USER, bundle=bundle).text == "processor"
    assert chat(USER, bundle=bundle, row={"tools": TOOLS}).text == "tokenizer"


def test_a_template_file(chat, tmp_path: Path) -> None:
    path = tmp_path / "mine.jinja"
    path.write_bytes("é {{ messages[0].content }}\r\n".encode())
    assert chat(USER, chat_template=str(path)).text == "é Hi"
    with pytest.raises(JobError, match="nor a file that can be read"):
        chat(USER, chat_template=str(tmp_path / "none.jinja"))
    path.write_text("no template")
    with pytest.raises(JobError, match="holds no template"):
        chat(USER, chat_template=str(path))


def test_what_the_option_means_is_settled_once(tmp_path: Path, make_bundle) -> None:
    path = tmp_path / "mine.jinja"
    path.write_text("{{ messages }}")
    named = make_bundle(chat_templates=NAMED, templates_are_named=True)
    for given, text in (
        (None, None),
        ("rag", "rag"),
        ("a\n", "a\n"),
        (str(path), "{{ messages }}"),
    ):
        assert template_text(given, named) == text
        assert template_text(text, named) == text


def test_a_model_without_template(chat, make_bundle) -> None:
    with pytest.raises(RowError, match=r"provide a chat template.*--chat-template") as caught:
        chat(USER, template=None)
    assert caught.value.code is ErrorCode.NO_CHAT_TEMPLATE
    names = make_bundle(chat_templates={"rag": "R", "x": "X"}, templates_are_named=True)
    with pytest.raises(RowError, match="chat templates rag, x"):
        chat(USER, bundle=names)


def test_a_template_in_the_arguments_keeps_the_model_s_content_format(chat) -> None:
    loop = "{% for m in messages %}{% for p in m.content %}<{{ p.text }}>{% endfor %}{% endfor %}"
    kwargs = {"chat_template_kwargs": {"chat_template": "{{ messages[0].content }}"}}
    assert chat(USER, template=loop).text == "<Hi>"
    assert chat(USER, template=loop, row=kwargs, **TRUSTED).text == (
        "[{'type': 'text', 'text': 'Hi'}]"
    )
    assert chat(USER, template=loop, chat_template_content_format="string").text == "<><>"


FOLDING = (
    "{% for m in messages %}[{{ m.role }}:{{ m.content }}:{{ m.tools }}:{{ m.name }}]{% endfor %}"
)
DEVELOPER = {"role": "developer", "content": "D", "name": "n"}
SYSTEM = {"role": "system", "content": "S"}


@pytest.mark.parametrize(
    ("messages", "text"),
    [
        ([DEVELOPER, USER], "[system:D::n][user:Hi::]"),
        ([SYSTEM, DEVELOPER, USER, DEVELOPER], "[system:S\n\nD\n\nD::][user:Hi::]"),
        ([USER, DEVELOPER], "[system:D::][user:Hi::]"),
        ([SYSTEM, {**DEVELOPER, "content": ""}, USER], "[system:S::][user:Hi::]"),
        ([SYSTEM, USER, SYSTEM], "[system:S::][user:Hi::][system:S::]"),
    ],
)
def test_developers_become_system(chat, messages: list[dict[str, Any]], text: str) -> None:
    rendered = chat(*messages, template=FOLDING)
    assert rendered.text == text
    assert bool(rendered.warnings) is (DEVELOPER["role"] in {m["role"] for m in messages})


def test_developers_stay_where_the_template_knows_them(chat) -> None:
    rendered = chat(DEVELOPER, USER, template="{# 'developer' #}" + FOLDING)
    assert rendered.text == "[developer:D:None:n][user:Hi::]"
    assert rendered.warnings == ()


def test_folded_parts_are_flattened(chat) -> None:
    template = (
        "{% for m in messages %}{% if m.content is string %}{{ m.content }}{% else %}"
        "{% for p in m.content %}<{{ p.text }}>{% endfor %}{% endif %}{% endfor %}"
    )
    parts = [{"type": "text", "text": "a"}, {"type": "text", "text": "b"}]
    rendered = chat(SYSTEM, {"role": "developer", "content": parts}, USER, template=template)
    assert rendered.text == "S\n\na\nb<Hi>"


@pytest.mark.parametrize(
    ("template", "reason"),
    [
        ("{{ raise_exception('use low|high') }}", "use low|high"),
        ("{{ foo.bar }}", "'foo' is undefined"),
        ("{{ messages[0].content.__class__.x }}", "access to attribute '__class__' of 'str'"),
        ("{{ 1 / 0 }}", "division by zero"),
        ("{{ messages + 1 }}", 'can only concatenate list (not "int") to list'),
        ("{{ messages[0].content.append(1) }}", "'str object' has no attribute 'append'"),
        ("{{ range(1000000) }}", "Range too big"),
        ("{% macro m() %}{{ m() }}{% endmacro %}{{ m() }}", "maximum recursion depth exceeded"),
        ("{{ x | tojson }}", "Undefined is not JSON serializable"),
        ("{% include 'other' %}", "no loader"),
        ("{% for %}", "Expected an expression, got 'end of statement block'"),
        ("{{ 'a' | nope }}", "No filter named 'nope'"),
        ("{% if %}{{", "Expected an expression"),
        ("{{ 'a' * 99999999999 }}", "MAX_PRODUCT"),
    ],
)
def test_failures_carry_the_template_s_own_reason(chat, template: str, reason: str) -> None:
    for _ in range(2):
        with pytest.raises(RowError) as caught:
            chat(USER, template=template)
        assert caught.value.code is ErrorCode.TEMPLATE_ERROR
        assert reason in caught.value.message


def test_failures_are_the_rows_own(make_renderer, make_request) -> None:
    renderer = make_renderer("{{ messages[0].content.x() }}")
    first, second = (_failure(renderer, make_request(USER)) for _ in range(2))
    assert first is not second


def _failure(renderer: Any, request: Any) -> RowError:
    with pytest.raises(RowError) as caught:
        renderer.render(request)
    return caught.value


def test_output_is_bounded(chat, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(template_module, "MAX_OUTPUT", 1000)
    endless = "{% for a in range(99999) %}{% for b in range(99999) %}xy{% endfor %}{% endfor %}"
    with pytest.raises(RowError, match="more than 1000 characters") as caught:
        chat(USER, template=endless)
    assert caught.value.code is ErrorCode.TEMPLATE_OUTPUT_TOO_LARGE


def test_the_clock_is_fixed(chat) -> None:
    text = chat(USER, template="{{ strftime_now('%d %b %Y %H:%M:%S') }}").text
    assert text == "15 Jan 2026 12:00:00"
