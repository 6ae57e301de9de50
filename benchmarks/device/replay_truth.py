"""Gains by replay of a trace beside the measured gain of the fix: the pairs of `replay_pairs.py` that need a device, one round each.

Host-synchronisation in every step, kernels too small for their launch, float32 products beside TF32 and bf16, and memory that is allocated
anew in every step.
"""

from __future__ import annotations

from typing import Any

import replay
from part import Result, begin
from replay_pairs import PAIRS

SECONDS_PER_PAIR = 12.0
# The most telling first.
ORDER = ("read-back", "launches", "float32", "tf32", "allocations", "synchronize", "pageable", "float64")


def measure(result: Result) -> None:
    """Every pair, as long as there is time; one that fails costs no other."""
    for name in ORDER:
        if not result.has_time(SECONDS_PER_PAIR):
            result.add(name, {"skipped": "no time left"})
            continue
        try:
            rows: list[dict[str, Any]] = replay.measure(name, rounds=1)
        except Exception as error:  # noqa: BLE001 - the other pairs are worth having
            result.add(name, {"failed": f"{type(error).__name__}: {error}"[:500]})
            continue
        result.add(name, {"scenario": PAIRS[name].scenario, **rows[0]})


if __name__ == "__main__":
    measure(begin(__doc__ or ""))
