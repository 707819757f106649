"""Token rows and options for the tests of this folder."""

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from promptmill.schemas.media import MediaSpan, Modality
from promptmill.schemas.options import JobOptions
from promptmill.schemas.request import Endpoint, Place, Request, TextPrompt, TokenRow


def _options(**more: Any) -> JobOptions:
    return JobOptions(input=("in",), output="out", model="m", **more)


def _row(index: int, size: int = 5, **more: Any) -> TokenRow:
    """A full row of `size` ids; keyword arguments replace fields of the row or its request."""
    request = Request(
        custom_id=more.pop("custom_id", f"row-{index}"),
        place=Place("in/file.jsonl", index, more.pop("prompt_index", 0)),
        endpoint=Endpoint.CHAT,
        prompt=TextPrompt("not stored"),
        passthrough=more.pop("passthrough", {"temperature": 0.5}),
    )
    starts = np.arange(size, dtype=np.int32)
    fields: dict[str, Any] = {
        "text": "é" * size,
        "ids": starts + 100_000,
        "offsets": np.stack([starts, starts + 1], axis=1),
        "mask": (starts % 2).astype(np.int8),
        "spans": (MediaSpan(Modality.IMAGE, 1, 2, 0, "hash", (1, 2, 2), ((0, 1),)),),
        "original_num_tokens": size + 3,
        "truncated_left": 3,
        "max_tokens": 16,
        "warnings": ("one", "two"),
    }
    return TokenRow(request=request, **{**fields, **more})


@pytest.fixture(scope="session")
def make_options() -> Callable[..., JobOptions]:
    """`make_options(**fields)`: options of a job."""
    return _options


@pytest.fixture(scope="session")
def make_row() -> Callable[..., TokenRow]:
    """`make_row(index, size, **fields)`: a row with something in every column."""
    return _row
