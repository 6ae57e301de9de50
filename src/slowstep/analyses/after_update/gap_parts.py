"""Gaps of the training thread, divided: first among functions that were timed in a few of them, the rest by stacks.

A function may hold the GIL all the time, and then no stack was taken in it; the stacks of the others are right about
the rest.
"""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from slowstep.analyses.after_update.gap_sides import GapBounds
from slowstep.analyses.after_update.gaps import BY_HAND, divide_by_stacks, makes_input, part_of
from slowstep.analyses.after_update.timed_gaps import SMALLEST_SHARE, DirectCall, GapFunction, TimedGaps
from slowstep.analyses.after_update.timed_lines import TimedLines
from slowstep.analyses.python.functions import Files, Path, Stacks, is_comprehension, shown
from slowstep.analyses.python.loop import LoopCall
from slowstep.analyses.steps.forwards import Forwards
from slowstep.analyses.steps.steps import Floats
from slowstep.analyses.steps.trainer import Trainer
from slowstep.parts import NOT_ATTRIBUTED, CodePlace, Part, PartKind
from slowstep.timeline.intervals import Ints

# A function that spends less than this on the one side belongs to the other altogether.
SMALLEST_SIDE = 0.05
# A gap may hold what no timed one did (a validation), or a function's work may grow: a function takes at most so many times what it took
# in the timed ones, and the rest of such a step is divided by all of its stacks.
LONGEST = 2.0
# Timing slows Python's instructions, and not what operators on arrays do in C: by how much it did, gaps that were not timed tell. The usual
# one of them is that than which this share is shorter: what runs in some of them only is not in it.
SHORTER = 0.25
# Lines do not tell where models are called in gaps, as in roll-outs; where this is in fewer steps than that, those gaps are longer than the
# timed ones, and the rest of them is divided by stacks.
FEW_APART = 0.10


@dataclass(frozen=True, kw_only=True, slots=True)
class GapParts:
    """Ns per step of each part, the stacks behind each, and the timed gaps behind those that were timed."""

    ns: dict[Part, Floats]
    stacks: dict[Part, int]
    timed: dict[Part, int]


def divide_gaps(
    trainer: Trainer,
    forwards: Forwards,
    stacks: Stacks,
    start_ns: Ints,
    end_ns: Ints,
    step: Ints,
    count: int,
    gaps: TimedGaps | TimedLines | None,
) -> GapParts:
    """Divide the gaps per step among named parts."""
    length = np.bincount(step, weights=(end_ns - start_ns).astype(np.float64), minlength=count).astype(np.float64)
    if not isinstance(gaps, TimedGaps) or not gaps.functions:
        named, counts = divide_by_stacks(trainer, forwards, stacks, start_ns, end_ns, step, count)
        by_stacks = GapParts(ns=named, stacks=counts, timed={})
        if isinstance(gaps, TimedGaps):
            return _by_direct_calls(by_stacks, gaps, length)
        if gaps is None or np.count_nonzero(~forwards.apart_evaluating) >= FEW_APART * count:
            return by_stacks
        return _by_lines(trainer, by_stacks, gaps, length)
    others = _without(stacks, {(f.file, f.name, f.line) for f in gaps.functions})
    named, counts = _by_stacks(trainer, forwards, (others, stacks), start_ns, end_ns, step, count, _exceeds(gaps, length))
    return _joined(_timed(gaps, trainer, length), gaps.gaps, GapParts(ns=named, stacks=counts, timed={}), length)


def _joined(timed: dict[Part, Floats], gaps: int, by_stacks: GapParts, length: Floats) -> GapParts:
    """Ns per step of what was timed in so many gaps, and of the rest of each gap by stacks."""
    none = np.zeros(len(length))
    held = sum(timed.values(), none)
    scale = np.minimum(1.0, np.divide(length, held, out=np.ones(len(length)), where=held > 0))
    rest = 1 - np.divide(held * scale, length, out=np.zeros(len(length)), where=length > 0)
    parts = {part: ns * rest for part, ns in by_stacks.ns.items()}
    for part, ns in timed.items():
        parts[part] = parts.get(part, none) + ns * scale
    return GapParts(ns=parts, stacks=dict.fromkeys(timed, 0) | by_stacks.stacks, timed=dict.fromkeys(timed, gaps))


def _by_lines(trainer: Trainer, by_stacks: GapParts, lines: TimedLines, length: Floats) -> GapParts:
    """Divide each gap among the lines that were timed in a few; what it is longer than those is divided as stacks say."""
    timed: dict[Part, Floats] = {}
    # Only gaps before a forward are timed, of optimizers that take turns.
    between = GapBounds(trainer.optimizer, trainer.optimizer, sees_forward=True)
    for line in lines.lines:
        part = _kind_by_stacks(part_of(line.path, trainer, between), by_stacks)
        if part != NOT_ATTRIBUTED:
            mine = np.minimum(length * line.share, LONGEST * line.ns_per_gap)
            timed[part] = timed[part] + mine if part in timed else mine
    return _joined(timed, lines.gaps, by_stacks, length)


def _by_direct_calls(by_stacks: GapParts, gaps: TimedGaps, length: Floats) -> GapParts:
    """Name what the loop itself calls to tell or judge by its timed calls, where no stack stands for the line: it may let none be taken."""
    if any(part.kind is PartKind.LINES for part in by_stacks.stacks):
        return by_stacks
    large = (call for call in gaps.direct if call.share >= SMALLEST_SHARE)
    timed = {c.part: _held_by(c, length) for c in large}
    return _joined(timed, gaps.gaps, by_stacks, length) if timed else by_stacks


def _kind_by_stacks(part: Part, by_stacks: GapParts) -> Part:
    """The part, as what stacks in it show it to be: a line does not tell that what it calls waits for a thread or asks a model."""
    kinds = (part, *(replace(part, kind=kind) for kind in (PartKind.THREAD_WAIT, PartKind.ROLL_OUT)))
    return max(kinds, key=lambda each: by_stacks.stacks.get(each, 0))


def _held_by(timed: GapFunction | DirectCall, length: Floats) -> Floats:
    """Ns per step of what was timed: its share of each gap, as far as that is not longer than it can be."""
    return np.minimum(length * timed.share, _longest(timed, length))


def _longest(timed: GapFunction | DirectCall, length: Floats) -> float:
    """Ns that it takes at most in a gap: it was slowed by what its share of the usual gap tells, by the recorder's measure at most."""
    gaps = length[length > 0]
    usual = timed.share * float(np.quantile(gaps, SHORTER)) if gaps.size else 0.0
    return LONGEST * max(min(usual, timed.timed_ns_per_gap), timed.ns_per_gap)


def _exceeds(gaps: TimedGaps, length: Floats) -> NDArray[np.bool_]:
    """In which steps the gap is longer than the timed ones tell of."""
    return np.asarray(np.any([length * f.share > _longest(f, length) for f in gaps.functions], axis=0))


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
            named, seen = divide_by_stacks(trainer, forwards, taken, start_ns[mine], end_ns[mine], step[mine], count)
            for part, amount in named.items():
                ns[part] += amount
            for part, number in seen.items():
                counts[part] += number
    return dict(ns), dict(counts)


def called_in_gap(function: GapFunction) -> LoopCall:
    """As the ledger has it; a comprehension is a line of the loop."""
    return LoopCall(None if is_comprehension(function.name) else function.name, function.file, function.line)


def timed_files(gaps: TimedGaps | None, trainer: Trainer) -> Files:
    """The file of every function that was timed in gaps and has a name."""
    named = () if gaps is None else (function for function in gaps.functions if not is_comprehension(function.name))
    return {(f.name, CodePlace(shown(f.file, trainer.facts.script), f.line)): f.file for f in named}


def _timed(gaps: TimedGaps, trainer: Trainer, length: Floats) -> dict[Part, Floats]:
    """Ns per step by part: what a function spends in logging is `store`, in an update by hand `compute`, the rest of it `output`, or
    `preprocess` where it makes what the loader reads.
    """
    parts: dict[Part, Floats] = {}
    for function in gaps.functions:
        mine = _held_by(function, length)
        called, script = called_in_gap(function), trainer.facts.script
        logging = _rounded(function.logging)
        updates = 1.0 if function.averages_weights else _rounded(function.gradients)
        updating = min(updates, 1 - logging) if trainer.by_hand else 0.0
        is_input = makes_input(called, trainer, begins_pass=trainer.begins_passes)
        stored, told = called.part("store", script), called.part("preprocess" if is_input else "output", script)
        for part, share in ((BY_HAND, updating), (stored, logging), (told, 1 - logging - updating)):
            if share:
                parts[part] = parts.get(part, np.zeros(len(length))) + mine * share
    return parts


def _rounded(share: float) -> float:
    return 1.0 if share > 1 - SMALLEST_SIDE else 0.0 if share < SMALLEST_SIDE else share


def _without(stacks: Stacks, known: set[tuple[str, str, int]]) -> Stacks:
    """The stacks that do not stand in any of the functions."""
    passing = {number for number, path in stacks.frames.items() if _passes(path, known)}
    return stacks.only(~np.isin(stacks.stack, list(passing)))


def _passes(path: Path, known: set[tuple[str, str, int]]) -> bool:
    return any((frame.file, frame.function, frame.first_line) in known for frame in path)
