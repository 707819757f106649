import pytest
from jinja2 import Environment
from jinja2.ext import loopcontrols

from promptmill.pipeline.render.content_format import detect_content_format
from promptmill.schemas.options import ContentFormat

LOOP = "{% for p in m.content %}{{ p.text }}{% endfor %}"

PARTS = {
    "attribute": "{% for m in messages %}" + LOOP + "{% endfor %}",
    "item": "{% for m in messages %}{% for p in m['content'] %}{% endfor %}{% endfor %}",
    "filtered": "{% for m in messages %}{% for p in m.content | list %}{% endfor %}{% endfor %}",
    "sliced": "{% for m in messages[1:] %}{% for p in m.content[:2] %}{% endfor %}{% endfor %}",
    "alias": "{% set rest = messages %}{% for m in rest %}" + LOOP + "{% endfor %}",
    "alias_of_alias": "{% set a = messages[1:] %}{% set b = a %}{% for m in b %}"
    + LOOP
    + "{% endfor %}",
    "namespace": "{% set ns = namespace(rest=messages) %}{% for m in ns.rest %}"
    + LOOP
    + "{% endfor %}",
    "namespace_set": "{% set ns = namespace() %}{% set ns.rest = messages %}"
    "{% for m in ns['rest'] %}" + LOOP + "{% endfor %}",
    "plain_content": "{% for m in messages %}{% set content = m.content %}"
    "{% for p in content %}{% endfor %}{% endfor %}",
    "macro": "{% macro r(x) %}{% for p in x %}{% endfor %}{% endmacro %}"
    "{% for m in messages %}{{ r(m.content) }}{% endfor %}",
    "macro_keyword": "{% macro r(a, x) %}{% for p in x %}{% endfor %}{% endmacro %}"
    "{% for m in messages %}{{ r(1, x=m['content']) }}{% endfor %}",
    "condition": "{% for m in messages %}{% if m.content is string %}{{ m.content }}{% else %}"
    + LOOP
    + "{% endif %}{% endfor %}",
}
TEXT = {
    "printed": "{% for m in messages %}{{ m.content }}{% endfor %}",
    "indexed": "{% for m in messages %}{% if m.content is string %}{{ m.content }}{% else %}"
    "{{ m.content[0].text }}{% endif %}{% endfor %}",
    "measured": "{% for m in messages %}{{ m.content | length }}{% endfor %}",
    "other_loop": "{% for m in messages %}{% for t in m.tool_calls %}{% endfor %}{% endfor %}",
    "other_list": "{% for m in others %}" + LOOP + "{% endfor %}",
    "content_in_macro": "{% macro r(content) %}{% for p in content %}{% endfor %}{% endmacro %}"
    "{{ r('abc') }}",
    "macro_without_content": "{% macro r(x) %}{% for p in x %}{% endfor %}{% endmacro %}"
    "{% for m in messages %}{{ r(m.tool_calls) }}{% endfor %}",
    "filtered_parameter": "{% macro r(x) %}{% for p in x | list %}{% endfor %}{% endmacro %}"
    "{% for m in messages %}{{ r(m.content) }}{% endfor %}",
    "unpacked": "{% for a, b in messages %}{% endfor %}{% for m in messages %}"
    + LOOP
    + "{% endfor %}",
    "none": "hello",
}


def detected(template: str) -> ContentFormat:
    return detect_content_format(Environment(extensions=[loopcontrols]).parse(template))


@pytest.mark.parametrize("template", PARTS.values(), ids=PARTS)
def test_a_loop_over_content_wants_parts(template: str) -> None:
    assert detected(template) is ContentFormat.OPENAI


@pytest.mark.parametrize("template", TEXT.values(), ids=TEXT)
def test_everything_else_wants_a_string(template: str) -> None:
    assert detected(template) is ContentFormat.STRING
