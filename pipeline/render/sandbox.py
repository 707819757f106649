"""Jinja's immutable sandbox with shortcuts for what chat templates do all day.

The stock sandbox asks several questions at every attribute access and call. For a few exact
types the answers are known beforehand: a dictionary key that is no attribute of `dict`, the
counters of a loop, an attribute of a namespace, the harmless methods of `str`, a macro. These
take a short way to the same result; everything else, subclasses included, goes the stock way, so
every security decision stays Jinja's own. The shortest ways are written into the compiled template
(`shortcuts.py`): they have no call at all.
"""

from __future__ import annotations

from types import BuiltinMethodType
from typing import Any, Final

from jinja2.runtime import Context, LoopContext, Macro
from jinja2.sandbox import ImmutableSandboxedEnvironment
from jinja2.utils import Namespace

from promptmill.pipeline.render.shortcuts import (
    DICT_ATTRIBUTES,
    LOOP_ATTRIBUTES,
    STR_METHODS,
    Shortcuts,
)

MAX_PRODUCT: Final = 1 << 24
"""Characters or items that a multiplication may make, and bits that a product or power may have.

One such operation runs in C: no timeout ends it and no output bound sees it.
"""


class FastSandbox(ImmutableSandboxedEnvironment):
    """The environment that templates run in; see the module's docstring.

    Values of templates are of any type, hence the `Any` in signatures that Jinja prescribes.
    """

    code_generator_class = Shortcuts
    intercepted_binops = frozenset({"*", "**"})
    generation_marks = ("", "")
    """What the `{% generation %}` tag writes before and after its body."""

    def getattr(self, obj: Any, attribute: str) -> Any:
        """`obj.attribute` in a template."""
        kind = type(obj)
        if kind is dict:
            if attribute not in DICT_ATTRIBUTES:
                try:
                    return obj[attribute]
                except KeyError:
                    return self.undefined(obj=obj, name=attribute)
        elif kind is str:
            if attribute in STR_METHODS:
                return getattr(obj, attribute)
        elif kind is LoopContext:
            if attribute in LOOP_ATTRIBUTES:
                return getattr(obj, attribute)
        elif kind is Namespace and not attribute.startswith("_"):
            try:
                value = getattr(obj, attribute)
            except AttributeError:
                return self.undefined(obj=obj, name=attribute)
            if type(value) is not BuiltinMethodType:
                return value
        return super().getattr(obj, attribute)

    def call(__self, __context: Context, __obj: Any, *args: Any, **kwargs: Any) -> Any:
        """`obj(...)` in a template."""
        # The double underscores keep these names free for a template's own keyword arguments.
        kind = type(__obj)
        if kind is Macro:
            kwargs.pop("_loop_vars", None)
            kwargs.pop("_block_vars", None)
            return __obj(__context.eval_ctx, *args, **kwargs)
        if __obj is Namespace or (
            kind is BuiltinMethodType
            and type(__obj.__self__) is str
            and __obj.__name__ in STR_METHODS
        ):
            kwargs.pop("_loop_vars", None)
            kwargs.pop("_block_vars", None)
            return __obj(*args, **kwargs)
        return super().call(__context, __obj, *args, **kwargs)

    def call_binop(self, context: Context, operator: str, left: Any, right: Any) -> Any:
        """`left * right` and `left ** right`, refused where the result would be enormous.

        Raises:
            OverflowError: over `MAX_PRODUCT`.
        """
        if operator == "**":
            size = left.bit_length() * right if type(left) is int and type(right) is int else 0
        elif isinstance(left, int) and isinstance(right, int):
            size = left.bit_length() + right.bit_length()
        elif not isinstance(left, int) and not isinstance(right, int):
            size = 0
        else:
            items, times = (right, left) if isinstance(left, int) else (left, right)
            size = len(items) * times if hasattr(items, "__len__") else 0
        if size > MAX_PRODUCT:
            raise OverflowError(
                f"{operator!r} would make a value of size {size}. The sandbox blocks results "
                f"larger than MAX_PRODUCT ({MAX_PRODUCT})."
            )
        return super().call_binop(context, operator, left, right)
