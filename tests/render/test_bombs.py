"""Templates that ask for endless time or memory cost their row, in a process as workers have it."""

from __future__ import annotations

import json
import subprocess
import sys

TIMEOUT_SECONDS = 2.0
ROOM = 1 << 30

CODES = {
    "template_error",
    "template_timeout",
    "template_output_too_large",
    "memory_exceeded",
}

GROW = "{% set ns = namespace(x=START) %}{% for i in range(60) %}{% set ns.x = STEP %}{% endfor %}"
BOMBS = {
    "center": "{{ 'a' | center(10**11) }}",
    "center in a block": "{% filter center(10**11) %}a{% endfilter %}",
    "ljust": "{{ 'a'.ljust(10**11) }}",
    "zfill": "{{ 'a'.zfill(10**11) }}",
    "width of %": "{{ '%099999999999d' % 1 }}",
    "width of format": "{{ '{:>{w}}'.format(1, w=10**11) }}",
    "indent": "{{ 'a' | indent(10**11) }}",
    "tojson": "{{ {'a': 1} | tojson(indent=10**11) }}",
    "to_bytes": "{{ (1).to_bytes(10**11, 'big') }}",
    "batch": "{{ [1] | batch(10**11, 0) | list }}",
    "slice": "{{ [1] | slice(10**11) | list }}",
    "replace": "{{ ('a' * 4000).replace('a', 'b' * 16000000) }}",
    "translate": "{{ ('a' * 10000).translate({97: 'b' * 16000000}) }}",
    "join": "{{ ('a' * 16).join(['b' * 16000000] * 1000) }}",
    "lipsum": "{{ lipsum(n=10**9) }}",
    "two loops": "{% for a in range(99999) %}{% for b in range(99999) %}{% endfor %}{% endfor %}",
    "two loops that write": "{% for a in range(99999) %}{% for b in range(99999) %}"
    + "x" * 400
    + "{% endfor %}{% endfor %}",
    "recursion": "{% macro m(n) %}{{ m(n + 1) }}{% endmacro %}{{ m(0) }}",
    "nested data": "{{ " + "[" * 5000 + "]" * 5000 + " }}",
    "doubled text": GROW.replace("START", "'a'").replace("STEP", "ns.x + ns.x"),
    "doubled by ~": GROW.replace("START", "'a'").replace("STEP", "ns.x ~ ns.x"),
    "doubled list": GROW.replace("START", "[1]").replace("STEP", "ns.x + ns.x"),
    "squared": GROW.replace("START", "9").replace("STEP", "ns.x * ns.x"),
    "power": "{{ 9 ** (9 ** 9) }}",
}

PROGRAM = """
import json, sys
from datetime import datetime
from promptmill.pipeline.render.environment import TemplateEnvironment
from promptmill.pipeline.render.guard import GuardedRenderer
from promptmill.schemas.errors import RowError
from promptmill.workers.tuning import bound_memory

class One:
    def __init__(self, source):
        self.source = source
    def render(self, request):
        return templates.compile(self.source).render({"messages": []})

timeout, room, bombs = json.load(sys.stdin)
templates = TemplateEnvironment(datetime.fromisoformat("2026-01-15"))
bound_memory(room)
for name, bomb in bombs.items():
    [result] = GuardedRenderer(One(bomb), timeout).render_batch([None])
    print(json.dumps([name, result.code if isinstance(result, RowError) else "rendered"]))
"""


def test_a_bomb_costs_its_row() -> None:
    given = json.dumps([TIMEOUT_SECONDS, ROOM, BOMBS])
    done = subprocess.run(
        [sys.executable, "-c", PROGRAM], input=given, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    codes = dict(json.loads(line) for line in done.stdout.splitlines())
    assert codes.keys() == BOMBS.keys()
    assert {name: code for name, code in codes.items() if code not in CODES} == {}
