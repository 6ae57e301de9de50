"""Gaps of the training thread: time that no span covers, named by the stacks that were taken in it.

How long a gap lasted is exact; what ran in it is an estimate from stacks. A gap with two stacks or more of its own is divided by them; the
others share the mix of the stacks that fell into any of them.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from slowstep.analyses.after_update.gap_sides import GapBounds, GapSide, between_updates, nearest_optimizer, side_of
from slowstep.analyses.python.functions import (
    COMPUTING,
    EVALUATING,
    FEWEST_STACKS,
    TRAINING,
    Path,
    Stacks,
    calls_module,
    in_module,
    inside,
    is_evaluating,
    is_forward,
    is_waiting,
    reports,
    wraps_update,
    writes,
)
from slowstep.analyses.python.loop import LoopCall, called_framework, called_from_loop, is_below, meeting
from slowstep.analyses.steps.forwards import Forwards
from slowstep.analyses.steps.steps import Floats
from slowstep.analyses.steps.trainer import Trainer
from slowstep.frameworks._known import code
from slowstep.frameworks._words import Code
from slowstep.parts import NOT_ATTRIBUTED, VALIDATION, Part, PartKind
from slowstep.timeline.intervals import Ints

OWN_STACKS = 2
# What torch does at the end of an update, beyond the hooks that time it, takes some tens of microseconds: in a gap that is longer it is not
# what takes the time.
LONGEST_WRAPPER_NS = 200_000
# What runs in a model just before a backward, with no receipt of input before it (several updates on one batch), is that step's forward.
FORWARD = Part("compute", PartKind.FORWARD_BY_STACKS)
BY_HAND = Part("compute", PartKind.UPDATE_BY_HAND)
LOADER = code(Code.LOADER)


def divide_by_stacks(
    trainer: Trainer, forwards: Forwards, stacks: Stacks, start_ns: Ints, end_ns: Ints, step: Ints, count: int
) -> tuple[dict[Part, Floats], dict[Part, int]]:
    """Divide the gaps per step among named parts. Returns ns per step for each part, and the stacks behind each."""
    length = np.bincount(step, weights=(end_ns - start_ns).astype(np.float64), minlength=count).astype(np.float64)
    taken, parts = parts_of_stacks(trainer, forwards, stacks, start_ns, end_ns)
    if len(taken) < FEWEST_STACKS:
        return {NOT_ATTRIBUTED: length}, {}
    gap = np.searchsorted(start_ns, stacks.time_ns[taken], side="right") - 1
    weight = stacks.weight_ns[taken]
    by_step = step[gap]
    own = np.bincount(by_step, minlength=count) >= OWN_STACKS
    pooled = ~own[by_step]
    named: dict[Part, Floats] = defaultdict(lambda: np.zeros(count))
    _divide(named, parts, weight, by_step, np.where(own, length, 0), ~pooled)
    rest = np.where(own, 0, length)
    total = weight[pooled].sum()
    if total > 0:
        shared: dict[Part, float] = defaultdict(float)
        for i in np.flatnonzero(pooled).tolist():
            shared[parts[i]] += float(weight[i] / total)
        for part, share in shared.items():
            named[part] += rest * share
    else:
        named[NOT_ATTRIBUTED] += rest
    return dict(named), dict(Counter(parts))


def parts_of_stacks(trainer: Trainer, forwards: Forwards, stacks: Stacks, start_ns: Ints, end_ns: Ints) -> tuple[Ints, list[Part]]:
    """The stacks that lie in gaps, by their index, and what each was doing. Begins and ends of the gaps are in order."""
    taken = _beside_wrappers(stacks, inside(stacks, start_ns, end_ns), start_ns, end_ns)
    gap = np.searchsorted(start_ns, stacks.time_ns[taken], side="right") - 1
    backward = np.isin(end_ns, trainer.backwards["start_ns"].to_numpy())[gap]
    apart = np.isin(taken, inside(stacks, forwards.apart_start_ns, forwards.apart_end_ns))
    played = forwards.apart_plays
    plays = np.isin(taken, inside(stacks, forwards.apart_start_ns[played], forwards.apart_end_ns[played]))
    between = between_updates(trainer, forwards, start_ns[gap])
    rows = zip(backward.tolist(), between, apart.tolist(), plays.tolist(), stacks.paths(taken.tolist()), strict=True)
    parts = [
        FORWARD if before and in_module(path) else part_of(path, trainer, at, repeated, of_play)
        for before, at, repeated, of_play, (_, path) in rows
    ]
    return taken, _as_played(parts)


def _beside_wrappers(stacks: Stacks, taken: Ints, start_ns: Ints, end_ns: Ints) -> Ints:
    """The stacks without those that long gaps have in the last of an update, beyond its span: there the GIL changes hands
    before Python code that keeps it. They stand for that code, whichever it is.
    """
    wrapping = [number for number, path in stacks.frames.items() if wraps_update(path)]
    gap = np.searchsorted(start_ns, stacks.time_ns[taken], side="right") - 1
    is_long = (end_ns - start_ns)[gap] > LONGEST_WRAPPER_NS
    return np.asarray(taken[~(is_long & np.isin(stacks.stack[taken], wrapping))])


def _as_played(parts: list[Part]) -> list[Part]:
    """What mostly runs in roll-outs is one also where a short gap holds a single call of the agent's model, or none."""
    stacks = Counter(parts)
    played = {_plain(part): part for part in stacks if part.kind is PartKind.ROLL_OUT}
    return [played[part] if part in played and stacks[played[part]] > stacks[part] else part for part in parts]


def _plain(part: Part) -> Part:
    """The function or lines of a part, without what kind of work they are seen to do."""
    return replace(part, kind=PartKind.LINES if part.name is None else PartKind.FUNCTION)


def _divide(named: dict[Part, Floats], parts: list[Part], weight: Floats, step: Ints, length: Floats, mine: NDArray[np.bool_]) -> None:
    """Divide each step's gap among its own stacks."""
    total = np.bincount(step[mine], weights=weight[mine], minlength=len(length))
    for i in np.flatnonzero(mine).tolist():
        k = step[i]
        if total[k] > 0:
            named[parts[i]][k] += length[k] * weight[i] / total[k]


def part_of(path: Path, trainer: Trainer, between: GapBounds, apart: bool = False, plays: bool = False) -> Part:
    """Stage and name of what a stack in a gap between two updates was doing. `apart`: among forwards without gradients, of a roll-out or a
    validation that leaves the model in its training mode; `plays`: it is known to be a roll-out.
    """
    optimizer = nearest_optimizer(path, trainer, between)
    way = trainer.way_to(optimizer)
    called = called_from_loop(path, way, trainer.facts.inner_loops.get(optimizer)) if way else None
    side = side_of(path, trainer, between)
    script = trainer.facts.script
    if called is not None and _stands_in_update(path, way, trainer):
        return called.part("compute", script)
    if called is None or side is GapSide.UNKNOWN:
        return NOT_ATTRIBUTED
    if side is GapSide.UNSEEN and is_forward(path):
        return FORWARD
    if side is GapSide.UNSEEN and not is_waiting(path):
        return called.part("compute", script, None if called_framework(path, way, TRAINING) else PartKind.BEFORE_BACKWARD)
    before = side in (GapSide.INPUT, GapSide.UNSEEN)
    if apart and not plays and (not before or is_evaluating(path)):
        return VALIDATION
    if not writes(path) and _is_input(path[meeting(path, way) + 1 :], called, trainer, begins_pass=between.begins_pass):
        return called.part("preprocess", script)
    if trainer.by_hand and not writes(path) and (part := _by_hand(path, trainer, before or called_framework(path, way), called)):
        return part
    if before or plays:
        kind = PartKind.ROLL_OUT if apart else PartKind.THREAD_WAIT if is_waiting(path) else None
        # Gradients set to zero above the forward, and a model's part of a roll-out, are no making of input.
        computes = called_framework(path, way, TRAINING) or (not trainer.has_optimizers and _is_mapped(path, way))
        return called.part("compute" if computes else "preprocess", script, kind)
    # The framework's own code called by the loop itself (an average of weights, a scheduler, a read-back) is part of training.
    is_own = called_framework(path, way) and not reports(path) and (called.is_function or not _calls_below(path, trainer, way))
    return called.part("store" if writes(path) else "compute" if is_own else "output", script)


def _stands_in_update(path: Path, way: Path, trainer: Trainer) -> bool:
    """Whether a stack stands in the framework, or in what that was handed, beneath the very line that updates, or in a function that is on
    the way to another optimizer's update alone. Where updates are calls of an optimizer, spans tell of them; else only their end is told.
    """
    return not trainer.has_optimizers and (
        _is_beneath(path, way, at_line=True)
        or any(
            _is_beneath(path, other, at_line=meeting(path, other) <= meeting(path, way))
            for other in map(trainer.way_to, trainer.facts.training_paths)
            if other != way
        )
    )


def _is_mapped(path: Path, way: Path) -> bool:
    """Whether a stack stands in a framework that a function calls which the loop had handed to it, as to `jax.tree.map`."""
    beneath = path[meeting(path, way) + 1 :]
    return bool(beneath) and all(TRAINING.search(frame.file) for frame in (beneath[0], beneath[-1]))


def _is_beneath(path: Path, way: Path, *, at_line: bool) -> bool:
    """Whether a stack stands in a framework that the innermost function on the way to an update called, in the line of that or in any."""
    depth = meeting(path, way)
    is_there = depth == len(way) - 1 < len(path) - 1 and (path[depth].line == way[depth].line or not at_line)
    return is_there and bool(TRAINING.search(path[depth + 1].file))


def _is_input(below: Path, called: LoopCall, trainer: Trainer, *, begins_pass: bool) -> bool:
    """Whether what a loop called makes what its loader reads: a function of the user's, or of a library in a line of the loop's own.

    Not of a loop that makes batches itself: what it does above its forward is input already, and has rules of its own.
    """
    if not trainer.is_fed:
        return False
    if called.is_function:
        return makes_input(called, trainer, begins_pass=begins_pass)
    place = next(((frame.file, frame.function, frame.first_line) for frame in below), None)
    return place is not None and begins_pass and (bool(LOADER.search(place[0])) or trainer.input_code.makes_input(place, begins_pass=True))


def makes_input(called: LoopCall, trainer: Trainer, *, begins_pass: bool) -> bool:
    """Whether a function makes what the training's loader reads. A data set may know how to judge results, too."""
    if called.name is None or EVALUATING.search(called.name):
        return False
    return trainer.input_code.makes_input((called.file, called.name, called.line), begins_pass=begins_pass)


def _calls_below(path: Path, trainer: Trainer, way: Path) -> bool:
    """Whether a loop that is fed calls a model once more below its update: for features, a score, a preview. The next batch has yet to be
    asked for, so that is no step's forward, and is judged as a function of the user's that calls it is. One above the update may be the
    next step's.
    """
    return trainer.is_fed and calls_module(path) and is_below(path, way, trainer.other_cells)


def _by_hand(path: Path, trainer: Trainer, is_other: bool, called: LoopCall) -> Part | None:
    """The part of a stack that stands in an update by hand, or may; else None. `is_other`: before the forward, or a framework's."""
    if _uses_gradients(path, trainer):
        return BY_HAND
    # Without a model's forward nothing tells it from the update.
    is_unknown = trainer.waits.is_empty() and not trainer.way_to_forward
    if not is_unknown and (is_other or called.is_function):
        return None
    return called.part("compute", trainer.facts.script, PartKind.BESIDE_BACKWARD)


def _uses_gradients(path: Path, trainer: Trainer) -> bool:
    """Whether a stack stands in a function, called by the loop, that names gradients; torch's own set them to zero, or copy them."""
    below = path[meeting(path, trainer.way_to_update) + 1 :]
    places = {(frame.file, frame.function, frame.first_line) for frame in below if not COMPUTING.search(frame.file)}
    return not places.isdisjoint(trainer.facts.uses_gradients)
