"""What counters tell of the inside of a call that shows nothing of it: as waits for input in a compiled function."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace

import numpy as np

from slowstep.analyses.ledger.ledger import Ledger
from slowstep.part_words import parts_in_order
from slowstep.parts import Part
from slowstep.timeline.intervals import Ints, overlap_ns
from slowstep.timeline.spine import Counted


def move_counted(ledger: Ledger, begins: Ints, ends: Ints, counted: Iterable[Counted], out_of: Part, into: Part) -> Ledger:
    """The ledger of steps with what was counted in a part as a part of its own.

    The sum of a counter's steps is exact, and never more than the part holds there; how it is divided among them is an estimate, by what
    each of them holds. Raises ValueError where parts are known within bounds: a counter does not tell what of it lies beside a busy device.
    """
    if ledger.high is not None:
        raise ValueError("what was counted beside a device that is seen in part has no place")
    held = ledger.of_parts(out_of)
    moved = np.zeros_like(held)
    for one in counted:
        inside = overlap_ns(begins, ends, np.full_like(begins, one.start_ns), np.full_like(ends, one.end_ns)) / (ends - begins)
        there = np.maximum(held * inside - moved, 0.0)
        whole = float(there.sum())
        moved += there * min(one.total_ns / whole, 1.0) if whole > 0 else 0.0
    rows = {part: ledger.of_parts(part) for part in ledger.parts}
    rows |= {out_of: held - moved, into: ledger.of_parts(into) + moved}
    parts = parts_in_order(rows)
    return replace(ledger, parts=tuple(parts), ns=np.vstack([rows[part] for part in parts]))
