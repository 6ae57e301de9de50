"""Gaps of the training thread, divided: first among functions that were timed in a few of them, the rest by stacks.

A function may hold the interpreter's lock all the time, and then no stack was taken in it; the stacks of the others are right about
the rest.
"""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from slowstep.analyses.forwards import Forwards
from slowstep.analyses.functions import Path, Stacks, shown
from slowstep.analyses.gaps import Part, name_gaps
from slowstep.analyses.steps import Floats
from slowstep.analyses.timed_gaps import GapFunction, TimedGaps
from slowstep.analyses.trainer import Trainer
from slowstep.timeline.intervals import Ints

# A function that spends less than this on the one side belongs to the other altogether.
SMALLEST_SIDE = 0.05
# A gap may hold what no timed one did (a validation), or a function's work may grow: a function takes at most so many times what it took
# in the timed ones, and the rest of such a step is divided by all of its stacks.
LONGEST = 2.0


@dataclass(frozen=True, kw_only=True, slots=True)
class GapParts:
    """Ns per step of each part, the stacks behind each, and the timed gaps behind those that were timed."""

    ns: dict[Part, Floats]
    stacks: dict[Part, int]
    timed: dict[Part, int]


def divide_gaps(
    trainer: Trainer, forwards: Forwards, stacks: Stacks, start_ns: Ints, end_ns: Ints, step: Ints, count: int, gaps: TimedGaps | None
) -> GapParts:
    """Divide the gaps per step among named parts."""
    if gaps is None or not gaps.functions:
        named, counts = name_gaps(trainer, forwards, stacks, start_ns, end_ns, step, count)
        return GapParts(ns=named, stacks=counts, timed={})
    length = np.bincount(step, weights=(end_ns - start_ns).astype(np.float64), minlength=count).astype(np.float64)
    timed = _timed(gaps, trainer, length)
    scale = np.minimum(1.0, np.divide(length, held := sum(timed.values(), np.zeros(count)), out=np.ones(count), where=held > 0))
    others = _without(stacks, {(f.file, f.name, f.line) for f in gaps.functions})
    named, counts = _by_stacks(trainer, forwards, (others, stacks), start_ns, end_ns, step, count, _exceeds(gaps, length))
    rest = 1 - np.divide(held * scale, length, out=np.zeros(count), where=length > 0)
    parts = {part: ns * rest for part, ns in named.items()}
    for part, ns in timed.items():
        parts[part] = parts.get(part, np.zeros(count)) + ns * scale
    return GapParts(ns=parts, stacks=dict.fromkeys(timed, 0) | counts, timed=dict.fromkeys(timed, gaps.gaps))


def _exceeds(gaps: TimedGaps, length: Floats) -> NDArray[np.bool_]:
    """In which steps the gap is longer than the timed ones tell of."""
    return np.asarray(np.any([length * f.share > LONGEST * f.ns_per_gap for f in gaps.functions], axis=0))


def _by_stacks(
    trainer: Trainer,
    forwards: Forwards,
    stacks: tuple[Stacks, Stacks],
    start_ns: Ints,
    end_ns: Ints,
    step: Ints,
    count: int,
    second: NDArray[np.bool_],
) -> tuple[dict[Part, Floats], dict[Part, int]]:
    """Divide the gaps of some steps by the `second` stacks, those of the others by the first."""
    ns: dict[Part, Floats] = defaultdict(lambda: np.zeros(count))
    counts: dict[Part, int] = defaultdict(int)
    for which, taken in enumerate(stacks):
        mine = second[step] == bool(which)
        if mine.any():
            named, seen = name_gaps(trainer, forwards, taken, start_ns[mine], end_ns[mine], step[mine], count)
            for part, amount in named.items():
                ns[part] += amount
            for part, number in seen.items():
                counts[part] += number
    return dict(ns), dict(counts)


def label_of(function: GapFunction, script: str | None) -> str:
    """How a function is called in the ledger."""
    return f"{function.name} ({shown(function.file, script)}:{function.line})"


def timed_files(gaps: TimedGaps | None, trainer: Trainer) -> dict[str, str]:
    """The file of every function that was timed in gaps, by what the ledger calls it."""
    return {label_of(function, trainer.facts.script): function.file for function in gaps.functions} if gaps is not None else {}


def _timed(gaps: TimedGaps, trainer: Trainer, length: Floats) -> dict[Part, Floats]:
    """Ns per step by part: what a function spends in logging is `store`, the rest of it `output`."""
    parts: dict[Part, Floats] = {}
    for function in gaps.functions:
        mine = np.minimum(length * function.share, LONGEST * function.ns_per_gap)
        logging = 1.0 if function.logging > 1 - SMALLEST_SIDE else 0.0 if function.logging < SMALLEST_SIDE else function.logging
        for stage, share in (("store", logging), ("output", 1 - logging)):
            if share:
                parts[stage, label_of(function, trainer.facts.script)] = mine * share
    return parts


def _without(stacks: Stacks, known: set[tuple[str, str, int]]) -> Stacks:
    """The stacks that do not stand in any of the functions."""
    passing = {number for number, path in stacks.frames.items() if _passes(path, known)}
    kept = ~np.isin(stacks.stack, list(passing))
    return replace(stacks, time_ns=stacks.time_ns[kept], weight_ns=stacks.weight_ns[kept], stack=stacks.stack[kept])


def _passes(path: Path, known: set[tuple[str, str, int]]) -> bool:
    return any((frame.file, frame.function, frame.first_line) in known for frame in path)
