"""Functions that are called to write a checkpoint: what else such a function does (fsync, a rename, a copy) is the checkpoint's too.

A function is for what it does most: where checkpoints are written within it for at least half of its time, all of it is theirs. How long
they took is exact; within which function the loop called, stacks that were taken meanwhile tell.
"""

from __future__ import annotations

from dataclasses import replace

from slowstep.analyses.after_update.gap_parts import GapParts
from slowstep.analyses.ledger.saves import find_writes
from slowstep.analyses.python.functions import Stacks, inside
from slowstep.analyses.python.loop import called_from_loop
from slowstep.analyses.steps.steps import Steps
from slowstep.analyses.steps.trainer import Trainer
from slowstep.parts import Part, PartKind
from slowstep.timeline.intervals import union

# Fewer stacks say too little of where checkpoints are written: the share of one among 5 has a 90 % interval of 1 % to 66 %.
FEWEST_STACKS = 5
# Of a function's time.
MOST = 0.5


def with_saving_functions(named: GapParts, trainer: Trainer, steps: Steps, stacks: Stacks) -> GapParts:
    """The parts of gaps, with functions that are for checkpoints in the stage of these."""
    written_ns = _written_ns(trainer, steps, stacks)

    def staged(part: Part) -> Part:
        held = written_ns.get(saving := _saving(part), 0.0) if part.kind is PartKind.FUNCTION else 0.0
        return saving if held and held >= MOST * (held + float(named.ns[part].sum())) else part

    if not written_ns:
        return named
    found = {part: staged(part) for part in named.ns}
    return GapParts(
        ns={found[part]: ns for part, ns in named.ns.items()},
        stacks={found.get(part, part): count for part, count in named.stacks.items()},
        timed={found.get(part, part): count for part, count in named.timed.items()},
    )


def _written_ns(trainer: Trainer, steps: Steps, stacks: Stacks) -> dict[Part, float]:
    """How long checkpoints were written within each function that the loop calls, by what would be that function's part."""
    writes = find_writes(trainer, steps)
    start, end = union(writes["start_ns"].to_numpy(), writes["end_ns"].to_numpy())
    taken = stacks.paths(inside(stacks, start, end).tolist())
    whole = sum(weight for weight, _ in taken)
    if len(taken) < FEWEST_STACKS or whole <= 0:
        return {}
    found: dict[Part, float] = {}
    for weight, path in taken:
        called = called_from_loop(path, trainer.way_to_update, trainer.loops_beside)
        if called is not None and called.is_function:
            part = _saving(called.part("", trainer.facts.script))
            found[part] = found.get(part, 0.0) + weight / whole * float((end - start).sum())
    return found


def _saving(part: Part) -> Part:
    return replace(part, stage="store", kind=PartKind.SAVING_FUNCTION)
