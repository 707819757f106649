"""Whether a template wants message content as a string or as a list of parts.

Profile rule (vLLM 0.33.0, `renderers/hf.py`): a template wants parts where one of its loops runs
over the content of a message. What counts as a message and as its content is read off the syntax
tree, without regard to scopes.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TypeAlias, TypeGuard

from jinja2 import nodes

from promptmill.schemas.options import ContentFormat

Name: TypeAlias = tuple[str, ...]
"""A variable, `("x",)`, or an attribute of one, `("ns", "x")`."""


class _NotAName(Exception):
    """A loop or assignment that unpacks: the server gives up on such a template."""


def detect_content_format(tree: nodes.Template) -> ContentFormat:
    """OPENAI (a list of parts) or STRING; STRING where the template cannot be followed."""
    try:
        found = any(_content_loops(tree))
    except _NotAName:
        return ContentFormat.STRING
    return ContentFormat.OPENAI if found else ContentFormat.STRING


def _content_loops(tree: nodes.Template) -> Iterator[bool]:
    """True for each loop over the content of a message, in the order of the template."""
    messages = set(_message_names(tree))
    parameters = _content_parameters(tree, messages)
    for loop in tree.find_all(nodes.For):
        wanted = parameters.get(id(loop), {"content"})
        if _is_content(_accessed(loop.iter), messages) or _name_in(loop.iter, wanted):
            _target(loop.target)
            yield True


def _message_names(tree: nodes.Template) -> Iterator[Name]:
    """Variables of the loops over the messages or an alias of them."""
    lists = _aliases(tree, ("messages",))
    for loop in tree.find_all(nodes.For):
        if _accessed(loop.iter) in lists:
            yield _target(loop.target)


def _aliases(tree: nodes.Template, name: Name) -> set[Name]:
    """A name and all that is assigned from it, directly or through others."""
    found, todo = {name}, [name]
    while todo:
        source = todo.pop(0)
        for assign in tree.find_all(nodes.Assign):
            for alias in _assigned(assign, source):
                if alias not in found:
                    found.add(alias)
                    todo.append(alias)
    return found


def _assigned(assign: nodes.Assign, source: Name) -> Iterator[Name]:
    """The names that an assignment makes equal to `source`."""
    value = assign.node
    if _accessed(value) == source:
        yield _target(assign.target)
    elif _calls(value, "namespace"):
        for keyword in value.kwargs:
            if _accessed(keyword.value) == source:
                yield (*_target(assign.target), keyword.key)


def _content_parameters(tree: nodes.Template, messages: set[Name]) -> dict[int, set[str]]:
    """By loop inside a macro, the macro's parameters that some call fills with content."""
    parameters: dict[int, set[str]] = {}
    for macro in tree.find_all(nodes.Macro):
        fed = set(_fed(tree, macro, messages))
        for loop in macro.find_all(nodes.For):
            # A nested macro that is fed nothing leaves the enclosing one's parameters in force.
            if fed or id(loop) not in parameters:
                parameters[id(loop)] = fed
    return parameters


def _fed(tree: nodes.Template, macro: nodes.Macro, messages: set[Name]) -> Iterator[str]:
    names = [argument.name for argument in macro.args]
    for call in tree.find_all(nodes.Call):
        if not _calls(call, macro.name):
            continue
        for name, value in zip(names, call.args, strict=False):
            if _is_content(_accessed(value), messages):
                yield name
        for keyword in call.kwargs:
            if keyword.key in names and _is_content(_accessed(keyword.value), messages):
                yield keyword.key


def _is_content(name: Name | None, messages: set[Name]) -> bool:
    return name is not None and name[-1] == "content" and name[:-1] in messages


def _name_in(node: nodes.Node, names: set[str]) -> bool:
    return isinstance(node, nodes.Name) and node.name in names


def _accessed(node: nodes.Node | None) -> Name | None:
    """What an expression reads, seen through filters, tests and slices; None: something else."""
    match node:
        case nodes.Filter() | nodes.Test():
            return _accessed(node.node)
        case nodes.Getitem(arg=nodes.Slice()):
            return _accessed(node.node)
        case nodes.Getitem(node=nodes.Name() as owner, arg=nodes.Const(value=str() as key)):
            return (owner.name, key)
        case nodes.Getattr(node=nodes.Name() as owner):
            return (owner.name, node.attr)
        case nodes.Name():
            return (node.name,)
    return None


def _target(node: nodes.Node) -> Name:
    match node:
        case nodes.Name():
            return (node.name,)
        case nodes.NSRef():
            return (node.name, node.attr)
    raise _NotAName


def _calls(node: nodes.Node, name: str) -> TypeGuard[nodes.Call]:
    return (
        isinstance(node, nodes.Call)
        and isinstance(node.node, nodes.Name)
        and node.node.name == name
    )
