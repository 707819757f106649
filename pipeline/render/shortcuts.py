"""What compiled templates do on the spot instead of asking the sandbox.

Chat templates look up keys of messages, counters of loops and attributes of namespaces, and call
a few methods of strings, hundreds of times a row. For exact types (never a subclass) the sandbox's
answer is known beforehand: a dictionary's key that is no attribute of `dict`, say. The code that
is generated here asks for the type and takes the answer; in every other case it asks the sandbox.
"""

from __future__ import annotations

from typing import Final

from jinja2 import nodes
from jinja2.compiler import CodeGenerator, Frame, optimizeconst
from jinja2.filters import FILTERS
from jinja2.runtime import Undefined
from jinja2.tests import TESTS
from jinja2.utils import Namespace

DICT_ATTRIBUTES: Final = frozenset(dir(dict))
LOOP_ATTRIBUTES: Final = {
    "index": "{}.index0 + 1",
    "index0": "{}.index0",
    "first": "{}.index0 == 0",
    "last": "{}.last",
    "length": "{}.length",
    "revindex": "{}.revindex",
    "revindex0": "{}.revindex0",
    "previtem": "{}.previtem",
    "nextitem": "{}.nextitem",
}
"""Attribute of a loop -> what it is."""
STR_METHODS: Final = frozenset(
    {
        "capitalize",
        "count",
        "endswith",
        "find",
        "isdigit",
        "join",
        "lower",
        "lstrip",
        "partition",
        "replace",
        "rfind",
        "rpartition",
        "rsplit",
        "rstrip",
        "split",
        "splitlines",
        "startswith",
        "strip",
        "title",
        "upper",
    }
)
"""Methods that touch nothing but their arguments. `format` is not one of them."""

_TESTS: Final = {
    "none": "({} is None)",
    "true": "({} is True)",
    "false": "({} is False)",
    "string": "isinstance({}, str)",
}
"""Test -> what Jinja's does."""

_ATTRIBUTES: Final = "_Namespace__attrs"
"""Where Jinja keeps the attributes of a namespace; private, so looked for first."""
_KNOWS_NAMESPACES: Final = vars(Namespace).get("__slots__") is None and isinstance(
    object.__getattribute__(Namespace(), "__dict__").get(_ATTRIBUTES), dict
)


class Shortcuts(CodeGenerator):
    """Compiles templates; see the module's docstring."""

    _namespaces: frozenset[str] = frozenset()
    """Names that are given a namespace somewhere in the template."""

    def visit_Template(self, node: nodes.Template, frame: Frame | None = None) -> None:
        """The whole template."""
        if _KNOWS_NAMESPACES:
            self._namespaces = frozenset(_namespaces(node))
        self._asked = set[int]()
        super().visit_Template(node, frame)

    def visit_If(self, node: nodes.If, frame: Frame) -> None:
        """`{% if x %}`."""
        for branch in (node, *node.elif_):
            self._ask(branch.test)
        super().visit_If(node, frame)

    @optimizeconst
    def visit_CondExpr(self, node: nodes.CondExpr, frame: Frame) -> None:
        """`y if x else z`."""
        self._ask(node.test)
        super().visit_CondExpr(node, frame)

    @optimizeconst
    def visit_Getattr(self, node: nodes.Getattr, frame: Frame) -> None:
        """`x.key`."""
        if node.attr in DICT_ATTRIBUTES:
            super().visit_Getattr(node, frame)
        else:
            self._lookup(node, node.attr, "getattr", frame)

    @optimizeconst
    def visit_Getitem(self, node: nodes.Getitem, frame: Frame) -> None:
        """`x["key"]` and `x[0]`."""
        key = node.arg.value if isinstance(node.arg, nodes.Const) else None
        if isinstance(key, str):
            self._lookup(node, key, "getitem", frame)
        elif type(key) is int:
            name = self.temporary_identifier()
            least = key + 1 if key >= 0 else -key
            self.write(f"({name}[{key}] if type({name} := (")
            self.visit(node.node, frame)
            self.write(f")) is list and len({name}) >= {least}")
            self.write(f" else environment.getitem({name}, {key}))")
        else:
            super().visit_Getitem(node, frame)

    @optimizeconst
    def visit_Test(self, node: nodes.Test, frame: Frame) -> None:
        """`x is y`."""
        known = self.environment.tests.get(node.name) is TESTS.get(node.name)
        asked, key = node.node, _key(node.node)
        if known and node.name == "defined" and key is not None:
            assert isinstance(asked, nodes.Getattr | nodes.Getitem)
            stock = "getattr" if isinstance(asked, nodes.Getattr) else "getitem"
            name = self.temporary_identifier()
            self.write(f"(({key!r} in {name} and not isinstance({name}[{key!r}], Undefined))")
            self.write(f" if type({name} := (")
            self.visit(asked.node, frame)
            otherwise = f"environment.{stock}({name}, {key!r})"
            self.write(f")) is dict else {self.tests[node.name]}({otherwise}))")
        elif known and node.name in _TESTS and not (node.args or node.kwargs or node.dyn_args):
            before, after = _TESTS[node.name].split("{}")
            self.write(before)
            self.visit(node.node, frame)
            self.write(after)
        else:
            super().visit_Test(node, frame)

    @optimizeconst
    def visit_Filter(self, node: nodes.Filter, frame: Frame) -> None:
        """`x | trim`."""
        known = self.environment.filters.get(node.name) is FILTERS.get(node.name)
        plain = not (node.args or node.kwargs or node.dyn_args or node.dyn_kwargs)
        if node.name == "trim" and known and plain and node.node is not None:
            name = self.temporary_identifier()
            self.write(f"({name}.strip() if type({name} := (")
            self.visit(node.node, frame)
            self.write(f")) is str else {self.filters[node.name]}({name}))")
        else:
            super().visit_Filter(node, frame)

    @optimizeconst
    def visit_Call(self, node: nodes.Call, frame: Frame, forward_caller: bool = False) -> None:
        """`x.method("constant")`."""
        method = node.node
        fixed = all(isinstance(arg, nodes.Const) for arg in node.args)
        more = node.kwargs or node.dyn_args or node.dyn_kwargs or forward_caller
        known = isinstance(method, nodes.Getattr) and method.attr in STR_METHODS
        if more or not (known and fixed):
            super().visit_Call(node, frame, forward_caller=forward_caller)
            return
        assert isinstance(method, nodes.Getattr)
        name = self.temporary_identifier()
        args = [repr(arg.value) for arg in node.args if isinstance(arg, nodes.Const)]
        self.write(f"({name}.{method.attr}({', '.join(args)}) if type({name} := (")
        self.visit(method.node, frame)
        asked = [f"environment.getattr({name}, {method.attr!r})", *args]
        asked += ["_loop_vars=_loop_vars"] if frame.loop_frame else []
        asked += ["_block_vars=_block_vars"] if frame.block_frame else []
        self.write(f")) is str else environment.call(context, {', '.join(asked)}))")

    def _ask(self, node: nodes.Node) -> None:
        """Note that only the truth of an expression matters: undefined is as good as null."""
        if isinstance(node, nodes.And | nodes.Or):
            self._ask(node.left)
            self._ask(node.right)
        elif isinstance(node, nodes.Not):
            self._ask(node.node)
        elif self.environment.undefined is Undefined:
            self._asked.add(id(node))

    def _lookup(
        self, node: nodes.Getattr | nodes.Getitem, key: str, stock: str, frame: Frame
    ) -> None:
        """The value from a loop, a namespace or a dictionary, else as the sandbox says."""
        owner, name = node.node, self.temporary_identifier()
        variable = owner.name if isinstance(owner, nodes.Name) and stock == "getattr" else None
        if id(node) in self._asked and key not in DICT_ATTRIBUTES:
            ways = [(f"{name}.get({key!r})", "dict", "")]
        else:
            ways = [(f"{name}[{key!r}]", "dict", f" and {key!r} in {name}")]
        if variable == "loop" and key in LOOP_ATTRIBUTES:
            ways.insert(0, (LOOP_ATTRIBUTES[key].format(name), "LoopContext", ""))
        elif variable in self._namespaces and not key.startswith("_"):
            # What is not there gives `len`: that, and methods, which it may hold, are left to ask.
            value = self.temporary_identifier()
            attributes = f"object.__getattribute__({name}, {_ATTRIBUTES!r})"
            found = f"type({value} := {attributes}.get({key!r}, len)) is not type(len)"
            ways.insert(0, (value, "Namespace", f" and {found}"))
        (value, kind, more), *others = ways
        self.write(f"({value} if type({name} := (")
        self.visit(owner, frame)
        self.write(f")) is {kind}{more} else ")
        for value, kind, more in others:
            self.write(f"{value} if type({name}) is {kind}{more} else ")
        self.write(f"environment.{stock}({name}, {key!r}))")


def _key(node: nodes.Expr | None) -> str | None:
    """The key of `x.key` or `x["key"]` that only a dictionary's entry can be."""
    key = None
    if isinstance(node, nodes.Getattr):
        key = node.attr
    elif isinstance(node, nodes.Getitem) and isinstance(node.arg, nodes.Const):
        key = node.arg.value
    return key if isinstance(key, str) and key not in DICT_ATTRIBUTES else None


def _namespaces(template: nodes.Template) -> list[str]:
    return [
        one.target.name
        for one in template.find_all(nodes.Assign)
        if isinstance(one.target, nodes.Name)
        and isinstance(one.node, nodes.Call)
        and isinstance(one.node.node, nodes.Name)
        and one.node.node.name == "namespace"
    ]
