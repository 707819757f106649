"""What an index of packed sequences says about itself."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class PackTotals:
    """Counts of an index; kept in its footer as JSON."""

    size: int
    """Ids that a sequence may have."""
    packs: int
    rows: int
    """In the packs."""
    tokens: int
    """In the packs."""
    too_long: int
    """Rows of more ids than `size`: in no pack."""
    first_too_long: str | None
    """Where the first of them comes from."""

    @property
    def waste(self) -> float:
        """The share of the packs' room that no id fills."""
        return 1 - self.tokens / (self.packs * self.size) if self.packs else 0.0
