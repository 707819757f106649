"""The fast sandbox decides what the stock one decides."""

from datetime import datetime
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from jinja2.ext import loopcontrols
from jinja2.sandbox import ImmutableSandboxedEnvironment, SecurityError

from promptmill.pipeline.render.environment import TemplateEnvironment
from promptmill.pipeline.render.sandbox import MAX_PRODUCT, FastSandbox
from promptmill.schemas.errors import ErrorCode, RowError

SETTINGS: dict[str, Any] = {
    "trim_blocks": True,
    "lstrip_blocks": True,
    "extensions": [loopcontrols],
}
FAST, STOCK = FastSandbox(**SETTINGS), ImmutableSandboxedEnvironment(**SETTINGS)
DATA: dict[str, Any] = {
    "d": {"a": 1, "items": "key", "__class__": "key", "nested": {"x": [1, {"y": 2}]}},
    "s": "Some text, <b>",
    "l": [3, 1, 2],
    "messages": [{"role": "user", "content": "hi"}],
}

ESCAPES = [
    "{{ s.__class__ }}",
    "{{ ''.__class__.__mro__[1].__subclasses__() }}",
    "{{ s['__class__'] }}",
    "{{ s | attr('__class__') }}",
    "{{ d.__class__ }}",
    "{{ {}.__class__ }}",
    "{{ (d | attr('get')).__self__ }}",
    "{{ ().__class__.__bases__ }}",
    "{{ '{0.__class__}'.format(s) }}",
    "{{ '{x.__class__}'.format_map({'x': s}) }}",
    "{{ ('{0.__class__}' | attr('format'))(s) }}",
    "{{ '{0.__class__}'['format'](s) }}",
    "{% set f = '{0.__class__}'.format %}{{ f(s) }}",
    "{% set ns = namespace(f='{0.__class__}'.format) %}{{ ns.f(s) }}",
    "{{ ['{0.__class__}'] | map(attribute='format') | list | first }}",
    "{% for x in ['{0.__class__}'] %}{{ (x | attr('format'))(loop) }}{% endfor %}",
    "{% set ns = namespace() %}{{ ns.__init__ }}",
    "{% set ns = namespace() %}{{ ns._Namespace__attrs }}",
    "{% set ns = namespace() %}{{ ns.__class__ }}",
    "{{ namespace.__init__.__globals__ }}",
    "{{ cycler.__init__.__globals__ }}",
    "{{ lipsum.__globals__ }}",
    "{{ self.__init__ }}",
    "{{ self._TemplateReference__context }}",
    "{% for x in l %}{{ loop.__class__ }}{% endfor %}",
    "{% for x in l %}{{ loop._iterator }}{% endfor %}",
    "{% macro m() %}{% endmacro %}{{ m._func }}",
    "{% macro m() %}{% endmacro %}{{ m.__call__ }}",
    "{{ messages.append(1) }}",
    "{{ messages.pop() }}",
    "{{ messages.insert(0, 1) }}",
    "{{ l.sort() }}",
    "{{ l.clear() }}",
    "{{ d.update({'a': 2}) }}",
    "{{ d.clear() }}",
    "{{ d.pop('a') }}",
    "{{ d.setdefault('z', 1) }}",
    "{{ messages[0].popitem() }}",
    "{{ range(1000000) }}",
    "{{ s.split.__self__ }}",
    "{{ (1).__class__ }}",
    "{{ none.__class__ }}",
    "{{ missing.__class__ }}",
]

USES = [
    "{{ d.a }}|{{ d.nope }}|{{ d.nested.x[1].y }}|{{ d['a'] }}|{{ d.get('a') }}|{{ d.nope.x }}",
    "{% for k, v in d.nested.items() %}{{ k }}={{ v }}{% endfor %}",
    "{{ d.items }}|{{ d.keys() | list }}|{{ d.values() | length }}",
    "{{ s.upper() }}|{{ s.split(',')[0].strip() }}|{{ s.replace('t', 'T', 1) }}",
    "{{ s.startswith(('So', 'x')) }}|{{ s.find('text') }}|{{ ','.join(['a', 'b']) }}",
    "{{ s.nope }}|{{ s.nope() }}",
    "{{ s.encode() }}|{{ s.center(20) }}|{{ s.translate({83: 'X'}) }}",
    "{{ s.format(1) }}|{{ '{}-{a}'.format(1, a=d.a) }}|{{ '{a[x]}'.format(a=d.nested) }}",
    "{{ s.split(sep=',', maxsplit=1) }}|{{ s.split(nope=1) }}",
    "{{ s.strip(1) }}",
    "{% for x in l %}{{ loop.index }}{{ loop.first }}{{ loop.last }}{{ loop.length }}"
    "{{ loop.revindex0 }}{{ loop.previtem }}{{ loop.nextitem }}{{ loop.cycle('a', 'b') }}"
    "{{ loop.changed(x) }}{{ loop.nope }}{{ s.find('t', loop.index0) }}{% endfor %}",
    "{% for x in l recursive %}{{ x }}{{ loop.depth }}{% if x == 3 %}{{ loop([7]) }}{% endif %}"
    "{% endfor %}",
    "{% set ns = namespace(n=0, f=s.upper) %}{% for x in l %}{% set ns.n = ns.n + x %}{% endfor %}"
    "{{ ns.n }}{{ ns.f() }}{{ ns.nope }}",
    "{% set ns = {'n': 1, 'f': s.upper} %}{{ ns.n }}{{ ns.f() }}{{ ns.nope is defined }}"
    "{% if true %}{% set ns = namespace(n=2) %}{% endif %}{{ ns.n }}{{ ns.nope is defined }}",
    "{% set d2 = {'x': missing} %}{{ d2.x is defined }}{{ d2['x'] is defined }}{{ d2.y is none }}"
    "{% if d2.x or d2.y or d2['z'] %}a{% elif d.a and not d.nope %}b{% endif %}",
    "{% if d['keys'] and not d['nope'] %}a{% endif %}{{ d['pop'] is defined }}",
    "{% for loop in [{'index': 7}] %}{{ loop.index }}{% endfor %}",
    "{% set loop = {'first': 5} %}{{ loop.first }}{% for x in l %}{{ x }}{% endfor %}",
    "{{ l[0] }}{{ l[-3] }}{{ l[3] }}{{ l[5] }}{{ l[-4] }}"
    "{{ s[0] }}{{ (1, 2)[1] }}{{ {0: 3}[0] }}{{ d[0] }}",
    "{{ ' x ' | trim }}{{ 5 | trim }}{{ none | trim }}{{ missing | trim }}{{ l | trim }}",
    "{{ s.find('t', 3) }}{{ s.split(',') }}{{ l.split(',') }}{{ d.split(',') }}{{ 'a' | upper }}",
    "{{ namespace({'a': 1}, b=2).b }}{{ namespace(self=1).self }}{{ namespace(1) }}",
    "{% macro m(a, b=2) %}{{ a }}{{ b }}{{ varargs }}{{ kwargs }}{% endmacro %}"
    "{{ m(1) }}{{ m(1, b=3) }}{{ m(1, 2, 3, c=4) }}{% for x in l %}{{ m(x) }}{% endfor %}",
    "{% macro m(a) %}{{ a }}{% endmacro %}{{ m(1, 2) }}",
    "{% macro m(a) %}{{ caller(a) }}{% endmacro %}{% call(x) m(5) %}<{{ x }}>{% endcall %}",
    "{% macro m() %}{% for x in l %}{{ x }}{% if x == 1 %}{% break %}{% endif %}{% endfor %}"
    "{% endmacro %}{{ m() | trim }}{{ m().strip() }}",
    "{{ 'ab' * 3 }}|{{ 2 * 3 }}|{{ [1] * 2 }}|{{ 2 ** 8 }}|{{ 2 ** -1 }}|{{ true * 3 }}",
    "{{ 'a' * 'b' }}",
    "{{ s * 2.5 }}",
    "{{ missing * 2 }}",
    "{{ joiner()() }}{{ cycler(1, 2).next() }}{{ dict(a=1).a }}",
]


def outcome(environment: ImmutableSandboxedEnvironment, template: str) -> str:
    try:
        return environment.from_string(template).render(DATA)
    except Exception as error:
        return f"{type(error).__name__}: {error}"


@pytest.mark.parametrize("template", ESCAPES)
def test_escapes_are_refused_as_by_the_stock_sandbox(template: str) -> None:
    fast, stock = outcome(FAST, template), outcome(STOCK, template)
    assert without_addresses(fast) == without_addresses(stock)
    assert not any(leak in fast for leak in ("<class", "<built-in", "<bound", "__main__"))


def test_what_follows_an_unsafe_attribute_is_a_security_error() -> None:
    assert outcome(FAST, "{{ s.__class__.x }}") == (
        f"{SecurityError.__name__}: access to attribute '__class__' of 'str' object is unsafe."
    )


@pytest.mark.parametrize("template", USES)
def test_everyday_templates_give_the_same(template: str) -> None:
    assert outcome(FAST, template) == outcome(STOCK, template)


def expressions() -> st.SearchStrategy[str]:
    names = st.sampled_from(
        ["d", "s", "l", "messages", "missing", "namespace", "ns", "loop", "'a,b'", "1"]
    )
    attributes = st.sampled_from(
        [*dir(str), *dir(dict), *dir(list), "a", "nested", "role", "x", "_x", "index"]
    )
    arguments = st.sampled_from(["", "1", "','", "s", "d", "'a', 'b'", "**d.nested", "sep=','"])
    step = st.one_of(
        attributes.map(lambda name: f".{name}"),
        attributes.map(lambda name: f"['{name}']"),
        attributes.map(lambda name: f" | attr('{name}')"),
        arguments.map(lambda given: f"({given})"),
        st.sampled_from(["[0]", "[1]", "[-1]", "[-4]", "[d.a]", "[0:1]", "[true]"]),
    )
    steps = st.lists(step, max_size=4).map("".join)
    return st.tuples(names, steps).map("".join)


PLACES = [
    "{{ E }}",
    "{% if E %}yes{% elif not E %}no{% endif %}",
    "{% if (E or missing) and not (d.nope or E) %}yes{% else %}no{% endif %}",
    "{{ E is defined }}",
    "{{ E is not defined or E is none }}",
    "{{ E is string }}{{ E is true }}{{ E is undefined }}",
    "{{ E | trim }}",
    "{{ E | trim(',') }}",
    "{{ 'yes' if E else 'no' }}",
]


@given(expressions(), st.sampled_from(PLACES))
@settings(deadline=None)
def test_any_expression_gives_the_same(expression: str, place: str) -> None:
    body = place.replace("E", expression)
    template = "{% set ns = namespace(a=1, f=s.format, nested=d) %}"
    template += "{% for x in [0] %}" + body + "{% endfor %}"
    fast, stock = outcome(FAST, template), outcome(STOCK, template)
    assert without_addresses(fast) == without_addresses(stock)


def without_addresses(text: str) -> str:
    return "".join(text.split(" at 0x")[:1])


@pytest.mark.parametrize(
    "bomb",
    [
        "{{ 'a' * 99999999999 }}",
        "{{ 99999999999 * 'a' }}",
        "{{ [0] * 99999999999 }}",
        "{{ 9 ** (9 ** 9) }}",
        f"{{{{ s * {MAX_PRODUCT} }}}}",
    ],
)
def test_a_single_huge_operation_is_refused(bomb: str) -> None:
    templates = TemplateEnvironment(datetime.fromisoformat("2026-01-15"))
    with pytest.raises(RowError, match="MAX_PRODUCT") as caught:
        templates.compile(bomb).render(DATA)
    assert caught.value.code is ErrorCode.TEMPLATE_ERROR
