"""Libraries that only sounds and videos need, from the extra `promptmill[media]`."""

from __future__ import annotations

from importlib import import_module
from types import ModuleType

from promptmill.schemas.errors import ErrorCode, RowError, Stage


def need_soundfile() -> ModuleType:
    """soundfile.

    Raises:
        RowError: MEDIA_UNSUPPORTED where it is not installed.
    """
    try:
        return import_module("soundfile")
    except (ImportError, OSError):  # OSError: its native library is missing
        raise _absent("soundfile") from None


def need_av() -> ModuleType:
    """PyAV; raises as `need_soundfile`."""
    try:
        return import_module("av")
    except ImportError:
        raise _absent("av") from None


def _absent(name: str) -> RowError:
    return RowError(
        ErrorCode.MEDIA_UNSUPPORTED,
        f"Sounds and videos need the package {name}: pip install 'promptmill[media]'.",
        stage=Stage.EXPAND,
    )
