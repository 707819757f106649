"""A compiled chat template: what is known of it, how it is run, how it fails."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from io import StringIO
from typing import Final, TypeAlias

from jinja2 import TemplateError

from promptmill.schemas.errors import ErrorCode, RowError
from promptmill.schemas.options import ContentFormat

MAX_OUTPUT: Final = 1 << 27
"""Code points that a template may write: far above any context length, far below memory."""

Variables: TypeAlias = Mapping[str, object]
"""What a template sees, by name. Values are JSON or, while content is tracked, marked strings."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ChatTemplate:
    """A template, compiled once and run for many rows."""

    source: str
    variables: frozenset[str]
    """Names that it reads and does not define itself."""
    content_format: ContentFormat
    """STRING or OPENAI, as detected."""
    has_generation: bool
    """Whether it marks what the assistant wrote by `{% generation %}`."""
    run: Callable[[Variables], Iterator[str]]
    """Writes the prompt piece by piece; raises whatever templates raise."""
    direct: Callable[[Variables], str | None] | None = None
    """A faster way to the same prompt; None where it leaves it to `run`."""

    @property
    def knows_developer(self) -> bool:
        """Whether it speaks of the developer role: its text quotes the word."""
        return '"developer"' in self.source or "'developer'" in self.source

    def render(self, variables: Variables) -> str:
        """The prompt.

        Raises:
            RowError: TEMPLATE_ERROR with the template's own reason, whatever went wrong, or
                TEMPLATE_OUTPUT_TOO_LARGE.
            EngineMismatch: `direct` was found to write something else.
        """
        if self.direct is not None and (text := self.direct(variables)) is not None:
            if len(text) > MAX_OUTPUT:
                raise _too_large()
            return text
        out, size = StringIO(), 0
        try:
            for piece in self.run(variables):
                out.write(piece)
                size += len(piece)
                if size > MAX_OUTPUT:
                    raise _too_large()
        except RowError:
            raise
        except MemoryError:
            raise RowError(
                ErrorCode.MEMORY_EXCEEDED,
                "The chat template needed more memory than a worker may take for a row. Look at "
                "what it builds from this row.",
            ) from None
        except Exception as error:  # templates may fail in any way; it costs their row only
            raise template_error(error) from None
        return out.getvalue()


def template_error(error: Exception) -> RowError:
    """The failure of a template, in the words of the server.

    Profile rule (vLLM 0.33.0): the first Jinja error in the chain of causes, else the error itself.
    """
    cause: BaseException | None = error
    while cause is not None and not isinstance(cause, TemplateError):
        cause = cause.__cause__ or cause.__context__
    # `message`, because the text of a syntax error would go on with its place.
    reason = cause.message if isinstance(cause, TemplateError) else str(error)
    return RowError(
        ErrorCode.TEMPLATE_ERROR,
        f"The chat template failed: {reason or type(error).__name__}",
    )


def _too_large() -> RowError:
    return RowError(
        ErrorCode.TEMPLATE_OUTPUT_TOO_LARGE,
        f"The chat template wrote more than {MAX_OUTPUT} characters. Shorten the row, or use a "
        "template that writes less.",
    )
