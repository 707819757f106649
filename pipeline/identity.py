"""What is known of objects by their identity: rows that share an object share the work on it."""

from __future__ import annotations

from typing import Generic, TypeVar

T = TypeVar("T")


class ByIdentity(Generic[T]):
    """Remembers a result for each of the latest objects.

    For objects that nothing changes. They are held, so that no other can get their identity.

    Args:
        most: objects to remember; then all are forgotten.
    """

    def __init__(self, most: int) -> None:
        self._most = most
        self._known: dict[int, tuple[object, T]] = {}

    def get(self, value: object) -> T | None:
        """What was kept for this very object."""
        known = self._known.get(id(value))
        return known[1] if known is not None and known[0] is value else None

    def keep(self, value: object, result: T) -> T:
        """Remember a result, and give it back."""
        if len(self._known) >= self._most:
            self._known.clear()
        self._known[id(value)] = value, result
        return result
