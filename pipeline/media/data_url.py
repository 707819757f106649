"""data: URLs, as strictly as the server takes them.

Profile rule (vLLM 0.33.0, `multimodal/media/connector.py`).
"""

from __future__ import annotations

import pybase64

from promptmill.schemas.errors import ErrorCode, RowError, Stage


def is_data_url(url: str) -> bool:
    """Whether a URL carries its data."""
    return url[:5].lower() == "data:"


def read_data_url(url: str, *, max_bytes: int) -> bytes:
    """The bytes of a data: URL. Its media type does not count, its payload is strict base64.

    Args:
        url: starts with "data:" in any case.
        max_bytes: refused before decoding where the payload is longer than this many bytes.

    Raises:
        RowError: MEDIA_UNREADABLE or MEDIA_LIMIT.
    """
    comma = url.find(",")
    if comma < 0:
        raise _invalid("it has no comma before its payload")
    spec = url[5:comma]
    if not spec.endswith(";base64"):
        raise _invalid("only base64 payloads are supported (data:TYPE;base64,...)")
    length = len(url) - comma - 1
    if length > 4 * -(-max_bytes // 3):
        raise RowError(
            ErrorCode.MEDIA_LIMIT,
            f"A data: URL of {length} base64 characters is over the limit of {max_bytes} bytes. "
            "Use a smaller file.",
            stage=Stage.EXPAND,
        )
    return _decode_base64(url[comma + 1 :])


def _decode_base64(text: str) -> bytes:
    """Standard alphabet, no white space, exact padding: by the library that the server takes."""
    if len(text) % 4:
        raise _invalid("its base64 payload has no whole number of 4-character groups")
    try:
        return pybase64.b64decode(text, validate=True)
    except ValueError as error:
        raise _invalid(f"its base64 payload is broken ({error})") from None


def _invalid(reason: str) -> RowError:
    return RowError(
        ErrorCode.MEDIA_UNREADABLE,
        f"A data: URL cannot be read: {reason}.",
        stage=Stage.EXPAND,
    )
