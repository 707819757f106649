import pytest

from promptmill.schemas.errors import ErrorCode, RowError
from promptmill.schemas.options import MaskTurns, Task
from promptmill.schemas.request import Endpoint, Place, Request, TextPrompt

USER = {"role": "user", "content": "hello"}
ANSWER = {"role": "assistant", "content": "tell me "}
LAST = {"role": "assistant", "content": "cat"}
TALK = (USER, ANSWER, USER, LAST)
TAGGED = (
    "{% for m in messages %}{{ '<|im_start|>' + m.role + '\n' }}{% if m.role == 'assistant' %}"
    "{% generation %}{{ m.content + '<|im_end|>' }}{% endgeneration %}{% else %}"
    "{{ m.content + '<|im_end|>' }}{% endif %}{{ '\n' }}{% endfor %}"
)
IN_MACRO = (
    "{% macro turn(m) %}<{% generation %}{{ m.content }}{% endgeneration %}>{% endmacro %}"
    "{% for m in messages %}{% if m.role == 'assistant' %}{{ turn(m) }}{% else %}{{ m.content }}"
    "{% endif %}{% endfor %}"
)
REWRITING = (
    "{% for m in messages %}{{ m.role }}: {% if loop.last %}{{ m.content }}{% else %}"
    "{{ m.content | trim }}{% endif %};{% endfor %}{% if add_generation_prompt %}assistant: "
    "{% endif %}"
)
COUNTING = (
    "{% for m in messages %}{{ m.role }}: {% if not loop.last %}{{ m.content | trim }}"
    "{% else %}{{ m.content }} (last){% endif %};{% endfor %}{% if add_generation_prompt %}"
    "assistant: {% endif %}"
)


def marked(rendered) -> list[str]:
    assert rendered.assistant_spans is not None
    return [rendered.text[start:stop] for start, stop in rendered.assistant_spans]


def test_no_mask_unless_wanted(chat) -> None:
    assert chat(*TALK).assistant_spans is None


@pytest.mark.parametrize("template", [TAGGED, None])
def test_turns_with_their_end_token(chat, template: str | None) -> None:
    given = {} if template is None else {"template": template}
    rendered = chat(*TALK, task=Task.TRAIN, **given)
    assert marked(rendered) == ["tell me <|im_end|>", "cat<|im_end|>"]
    assert marked(chat(*TALK, task=Task.TRAIN, mask=MaskTurns.LAST, **given)) == ["cat<|im_end|>"]


def test_a_span_at_the_very_start(chat) -> None:
    template = "{% generation %}{{ messages[0].content }}{% endgeneration %}."
    assert chat(LAST, template=template, task=Task.TRAIN).assistant_spans == ((0, 3),)


def test_tags_inside_a_macro(chat) -> None:
    rendered = chat(USER, LAST, template=IN_MACRO, with_mask=True)
    assert rendered.text == "hello<cat>"
    assert marked(rendered) == ["cat"]


def test_a_continued_turn_ends_with_the_text(chat) -> None:
    row = {"continue_final_message": True, "add_generation_prompt": False}
    for given in ({}, {"template": TAGGED}):
        rendered = chat(USER, ANSWER, with_mask=True, row=row, **given)
        assert rendered.text.endswith("assistant\ntell me ")
        assert marked(rendered) == ["tell me "]


def test_without_an_assistant_turn_the_row_says_so(chat) -> None:
    rendered = chat(USER, with_mask=True)
    assert rendered.assistant_spans == ()
    assert any("no assistant turn" in warning for warning in rendered.warnings)


def test_white_space_of_a_turn_without_end_token_counts(chat) -> None:
    template = (
        "{% for m in messages %}{{ m.role }}: {{ m.content }}\n{% endfor %}"
        "{% if add_generation_prompt %}assistant: {% endif %}"
    )
    assert marked(chat(USER, LAST, template=template, with_mask=True)) == ["cat\n"]


@pytest.mark.parametrize(
    ("template", "reason"),
    [
        (REWRITING, "differently when others follow"),
        ("{{ messages[0].content }}{{ messages | length }}", "differently when others follow"),
        (
            "{% for m in messages %}{{ m.content }}{% endfor %}"
            "{% if add_generation_prompt %}assistant:{% endif %}",
            "does not begin as the generation prompt",
        ),
        (
            "{% for m in messages if m.role == 'user' %}{{ m.content }}{% endfor %}",
            "leaves message 1 out",
        ),
        (
            "{% if messages | length < 4 %}{{ raise_exception('too short') }}{% endif %}x",
            "too short",
        ),
        (
            "{% for m in messages %}{% if false %}{% generation %}x{% endgeneration %}"
            "{% endif %}{% endfor %}",
            "wrote nothing",
        ),
        (
            "{% set text %}{% generation %}abc{% endgeneration %}{% endset %}{{ text | length }}",
            "looks at or changes",
        ),
    ],
)
def test_a_row_whose_turns_cannot_be_told_is_refused(chat, template: str, reason: str) -> None:
    with pytest.raises(RowError, match=reason) as caught:
        chat(*TALK, template=template, with_mask=True)
    assert caught.value.code is ErrorCode.MASK_UNAVAILABLE


@pytest.mark.parametrize(
    ("talk", "mask", "way_out"),
    [
        (TALK, MaskTurns.ALL, "follow (--mask last may do). Give"),
        (
            (*TALK, USER),
            MaskTurns.ALL,
            "(leave out what follows the last assistant turn, then --mask last may do). Give",
        ),
        ((*TALK, USER), MaskTurns.LAST, "(leave out what follows the last assistant turn). Give"),
    ],
)
def test_the_way_out_is_one_that_helps(chat, talk, mask: MaskTurns, way_out: str) -> None:
    with pytest.raises(RowError) as caught:
        chat(*talk, template=COUNTING, task=Task.TRAIN, mask=mask)
    assert way_out in caught.value.message
    assert caught.value.message.endswith("or leave masks out with --no-mask.")


def test_the_last_turn_of_uneven_tags_is_refused(chat) -> None:
    twice = TAGGED.replace("{{ '\n' }}", "{% generation %}!{% endgeneration %}")
    with pytest.raises(RowError, match="--mask all"):
        chat(*TALK, template=twice, with_mask=True, mask=MaskTurns.LAST)


def test_documents_are_learnt_as_a_whole(make_renderer) -> None:
    request = Request(
        custom_id="a",
        place=Place("rows.jsonl", 0),
        endpoint=Endpoint.DOCUMENT,
        prompt=TextPrompt("some text"),
    )
    assert make_renderer(task=Task.TRAIN).render(request).assistant_spans == ((0, 9),)
