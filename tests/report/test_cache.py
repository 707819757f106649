"""What the report says of a prefix cache."""

from __future__ import annotations

import numpy as np

from promptmill.workers.report.cache import notes
from promptmill.workers.report.gather import Sums


def test_rows_that_could_not_be_compared_are_said_to_be_left_out() -> None:
    sums = Sums(not_compared=3)
    none, left_out = notes(sums)
    assert none == "There is no row to count."
    assert left_out.startswith("3 cut rows are left out")
    sums.as_stored.add([np.arange(40, dtype=np.int32)])
    meaning, counted, left_out = notes(sums)
    assert meaning.startswith("Share of 40 prompt ids")
    assert counted == "Counted exactly, over all 2 blocks of 1 rows."
    assert left_out.startswith("3 cut rows are left out")
