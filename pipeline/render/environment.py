"""The Jinja environment of chat templates, equal to the one of transformers.

Profile rule (transformers 5.20, `utils/chat_template_utils.py`): immutable sandbox, trimmed
blocks, loop controls, the `{% generation %}` tag, `tojson` without HTML escaping, the globals
`raise_exception` and `strftime_now`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from datetime import datetime
from functools import lru_cache
from typing import Final, NoReturn

from jinja2 import Template, TemplateError, nodes
from jinja2.ext import Extension, loopcontrols
from jinja2.meta import find_undeclared_variables
from jinja2.parser import Parser

from promptmill.pipeline.render.content_format import detect_content_format
from promptmill.pipeline.render.direct import written_directly
from promptmill.pipeline.render.sandbox import FastSandbox
from promptmill.pipeline.render.template import ChatTemplate, Variables, template_error
from promptmill.pipeline.render.to_json import to_json
from promptmill.schemas.errors import RowError

CACHED_TEMPLATES: Final = 64
"""Compiled templates kept; rows may bring their own."""


class TemplateEnvironment:
    """Compiles chat templates and keeps the latest.

    Args:
        clock: what `strftime_now` tells.
        concat: joins what a macro or a block wrote.
        generation_marks: written before and after the body of each `{% generation %}`.
        direct: run templates that are written as functions, too, as those.
    """

    def __init__(
        self,
        clock: datetime,
        *,
        concat: Callable[[Iterable[str]], str] = "".join,
        generation_marks: tuple[str, str] = ("", ""),
        direct: bool = False,
    ) -> None:
        self._direct = direct
        self._jinja = FastSandbox(
            trim_blocks=True, lstrip_blocks=True, extensions=[GenerationTag, loopcontrols]
        )
        self._jinja.filters["tojson"] = to_json
        self._jinja.globals |= {
            "raise_exception": raise_exception,
            "strftime_now": clock.strftime,
        }
        self._jinja.generation_marks = generation_marks
        self._jinja.concat = concat  # type: ignore[method-assign] # to Jinja an attribute
        self._compiled = lru_cache(maxsize=CACHED_TEMPLATES)(self._compile)

    def compile(self, source: str) -> ChatTemplate:
        """The template of this text.

        Raises:
            RowError: TEMPLATE_ERROR for a template that Jinja cannot read.
        """
        template = self._compiled(source)
        if isinstance(template, RowError):
            raise RowError(template.code, template.message)
        return template

    def _compile(self, source: str) -> ChatTemplate | RowError:
        try:
            tree = self._jinja.parse(source)
            # As `from_string`, but for the globals: it would chain them with an empty dictionary,
            # which costs more than many a template.
            compiled = Template.from_code(
                self._jinja, self._jinja.compile(source), self._jinja.globals
            )

            def run(variables: Variables) -> Iterator[str]:
                return compiled.root_render_func(compiled.new_context(dict(variables)))

            def plain(variables: Variables) -> str:
                return "".join(run(variables))

            return ChatTemplate(
                source=source,
                variables=frozenset(find_undeclared_variables(tree)),
                content_format=detect_content_format(tree),
                has_generation=any(map(_is_generation, tree.find_all(nodes.CallBlock))),
                run=run,
                direct=written_directly(source, plain) if self._direct else None,
            )
        except Exception as error:  # whatever is wrong with a template, it costs its rows only
            return template_error(error)


class GenerationTag(Extension):
    """`{% generation %}...{% endgeneration %}`: what the assistant wrote."""

    tags = {"generation"}  # noqa: RUF012 - Jinja types it as a plain set

    def parse(self, parser: Parser) -> nodes.Node:
        """Make the tag a call of `mark` with the body as its caller."""
        line = next(parser.stream).lineno
        body = parser.parse_statements(("name:endgeneration",), drop_needle=True)
        return nodes.CallBlock(self.call_method("mark"), [], [], body).set_lineno(line)

    def mark(self, caller: Callable[[], str]) -> str:
        """The body, between the marks of the environment."""
        assert isinstance(self.environment, FastSandbox)
        start, stop = self.environment.generation_marks
        return f"{start}{caller()}{stop}"


def raise_exception(message: str) -> NoReturn:
    """How a template refuses a conversation."""
    raise TemplateError(message)


def _is_generation(block: nodes.CallBlock) -> bool:
    return isinstance(block.call.node, nodes.ExtensionAttribute)
