"""Functions that are called to write a checkpoint: what else such a function does (fsync, a rename, a copy) is the checkpoint's too.

A function is for what it does most: where checkpoints are written within it for at least half of its time, all of it is theirs. How long
they took is exact; within which function the loop called, stacks that were taken meanwhile tell.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping
from dataclasses import replace
from typing import TypeVar

from slowstep.analyses.after_update.gap_parts import GapParts
from slowstep.analyses.ledger.saves import find_writes
from slowstep.analyses.python.functions import FEWEST_STACKS, Stacks, inside
from slowstep.analyses.python.loop import called_from_loop
from slowstep.analyses.steps.steps import Floats, Steps
from slowstep.analyses.steps.trainer import Trainer
from slowstep.parts import Part, PartKind
from slowstep.timeline.intervals import union

# Of a function's time.
MOST = 0.5

_Counted = TypeVar("_Counted", int, float, Floats)


def with_saving_functions(named: GapParts, trainer: Trainer, steps: Steps, stacks: Stacks) -> tuple[GapParts, dict[Part, float]]:
    """The parts of gaps, with functions that are for checkpoints in the stage of these; and what share of the writing is within each."""
    written_ns = _written_ns(trainer, steps, stacks)
    own_ns = _summed({part: float(ns.sum()) for part, ns in named.ns.items()}, {part: _saving(part) for part in named.ns})
    found = {part for part, written in written_ns.items() if part in own_ns and written >= MOST * (written + own_ns[part])}
    if not found:
        return named, {}
    staged = {part: _saving(part) for part in {*named.ns, *named.stacks, *named.timed} if _saving(part) in found}
    parts = GapParts(ns=_summed(named.ns, staged), stacks=_summed(named.stacks, staged), timed=_summed(named.timed, staged))
    return parts, {part: written_ns[part] / sum(written_ns.values()) for part in found}


def _summed(rows: Mapping[Part, _Counted], staged: Mapping[Part, Part]) -> dict[Part, _Counted]:
    """The rows under other parts, of which several may be one: a function that also logs has two."""
    found: dict[Part, _Counted] = {}
    for part, value in rows.items():
        target = staged.get(part, part)
        found[target] = found[target] + value if target in found else value
    return found


def _written_ns(trainer: Trainer, steps: Steps, stacks: Stacks) -> dict[Part, float]:
    """How long checkpoints were written within each function or lines that the loop calls, by what would be that function's part."""
    writes = find_writes(trainer, steps)
    start, end = union(writes["start_ns"].to_numpy(), writes["end_ns"].to_numpy())
    taken = stacks.paths(inside(stacks, start, end).tolist())
    whole = sum(weight for weight, _ in taken)
    if len(taken) < FEWEST_STACKS or whole <= 0:
        return {}
    found: dict[Part, float] = defaultdict(float)
    for weight, path in taken:
        called = called_from_loop(path, trainer.way_to_update, trainer.loops_beside)
        if called is not None:
            found[_saving(called.part("", trainer.facts.script))] += weight / whole * float((end - start).sum())
    return dict(found)


def _saving(part: Part) -> Part:
    """What a function's part is where it is for checkpoints; the loop's own lines are for everything."""
    return replace(part, stage="store", kind=PartKind.SAVING_FUNCTION) if part.kind is PartKind.FUNCTION else part
