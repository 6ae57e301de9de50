"""What steps say in which each operation is timed that Python hands over: what of a step is handing over, and what their computing.

In a few steps each operation is timed, by the clock and by the thread's processor time. Of Python between two of them only the processor
time counts: a sleep is none, nor is waiting for a core. What the shortest operations take is what handing one over takes: they compute next
to nothing. How much more of the others is no computing either is known between bounds.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from slowstep.analyses.steps.steps import Steps
from slowstep.analyses.steps.trainer import Trainer


@dataclass(frozen=True, kw_only=True, slots=True)
class Range:
    """A time in ns: as expected, and its least and most."""

    expected: float
    low: float
    high: float


@dataclass(frozen=True, kw_only=True, slots=True)
class TimedOperations:
    """From one update to the next, in the median of the timed ones, in ns; the thread's waits for a core are in none of it.

    `python` is the thread's Python between operations, `kernels` what the operations compute, also on other threads, and `own_ns` all that
    the thread did, as a ledger has it: waits for input are among it, and waits for helpers of operations that wait for a core.
    """

    timed: int
    operations: float
    low_ns: float  # what the shortest operations take: handing one over
    operations_ns: float  # all of them together
    python: Range
    kernels: Range
    own_ns: float
    is_asynchronous: bool  # operations return before their work is done

    @property
    def handing_over(self) -> Range:
        """What of it is no computing."""
        return Range(
            expected=self.python.expected + self.operations_ns - self.kernels.expected,
            low=max(self.python.low + self.operations_ns - self.kernels.high, 0.0),
            high=self.python.high + self.operations_ns - self.kernels.low,
        )


def find_timed_operations(trainer: Trainer, steps: Steps) -> TimedOperations | None:
    """None where operations were timed in none of the window's steps."""
    begin_ns, end_ns = steps.bounds_ns
    timed = [note for note in trainer.facts.notes.get("dispatched", ()) if begin_ns <= note["at_ns"] - note["wall_ns"] <= end_ns]
    return measure_timed_operations(timed) if timed else None


def measure_timed_operations(timed: Sequence[Mapping[str, Any]]) -> TimedOperations:
    """What the notes of some timed steps say."""
    waits = [_waits_of_operations(note) for note in timed]

    def median(name: str) -> float:
        return float(np.median([note[name] for note in timed]))

    expected, low, high = (float(np.median([getattr(each, name) for each in waits])) for name in ("expected", "low", "high"))
    return TimedOperations(
        timed=len(timed),
        operations=median("operations"),
        low_ns=median("low_ns"),
        operations_ns=median("operations_cpu_ns") + expected,
        python=Range(expected=median("gaps_ns"), low=median("short_gaps_ns"), high=median("capped_gaps_ns")),
        kernels=Range(
            expected=median("above_four_times_ns") + expected,
            low=median("above_sixteen_times_ns") + low,
            high=median("above_low_ns") + high,
        ),
        own_ns=float(np.median([_own_ns(note) for note in timed])),
        is_asynchronous=any(note["asynchronous"] for note in timed),
    )


@dataclass(frozen=True, slots=True)
class Waits:
    """How long operations of a step waited for their helpers' work, in ns."""

    expected: float
    low: float
    high: float


def _own_ns(note: Mapping[str, Any]) -> float:
    return float(note["wall_ns"] - (note.get("delay_ns") or 0) - note["timing_ns"])


def _waits_of_operations(note: Mapping[str, Any]) -> Waits:
    """All that operations waited, less the thread's waits for a core, and no longer than other threads of the process computed.

    The thread's waits for a core are in the operations at least in proportion to what the thread computes there, and as far as it did not
    wait outside of them: there it may have slept as well. At most all of them are.
    """
    delay, inside_cpu = note.get("delay_ns") or 0, note["operations_cpu_ns"]
    waited = float(note["operations_ns"] - inside_cpu)
    outside = max(note["wall_ns"] - note["operations_ns"] - (note["cpu_ns"] - inside_cpu), 0)
    in_proportion = delay * min(inside_cpu / max(note["cpu_ns"], 1), 1.0)
    expected = max(waited - max(in_proportion, delay - outside), 0.0)
    low, high = max(waited - delay, 0.0), max(waited - in_proportion, 0.0)
    # Older recordings do not have it.
    helped = note.get("helpers_cpu_ns")
    most = math.inf if helped is None else float(helped)
    return Waits(min(expected, most), min(low, most), min(high, most))
