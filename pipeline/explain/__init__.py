"""One row, looked at closely: what was rendered, what each id is, and which rule cut what.

`row.py` takes a row through the encoder that a run has, so nothing is computed a second way;
`budget.py` says what decided its length, `text.py` which characters became which ids.
"""

from promptmill.pipeline.explain.budget import BudgetSheet
from promptmill.pipeline.explain.row import Explanation, explain_row
from promptmill.pipeline.explain.text import Segment, SegmentKind, TokenKind, TokenView

__all__ = [
    "BudgetSheet",
    "Explanation",
    "Segment",
    "SegmentKind",
    "TokenKind",
    "TokenView",
    "explain_row",
]
