"""Functions that are called to write a checkpoint: what else such a function does (fsync, a rename, a copy) is the checkpoint's too.

A function is for what it does most: where checkpoints are written within it for at least half of its time, all of it is theirs; waiting
until that is on the disk under its last name is writing too. How long they took is exact; within which function the loop called, and what
that did besides, stacks tell.
"""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Iterable, Mapping
from dataclasses import replace
from typing import TypeVar

import numpy as np

from slowstep.analyses.after_update.gap_parts import GapParts
from slowstep.analyses.ledger.saves import find_writes
from slowstep.analyses.python.functions import FEWEST_STACKS, Stacks, inside, is_library
from slowstep.analyses.python.loop import called_from_loop
from slowstep.analyses.steps.steps import Floats, Steps
from slowstep.analyses.steps.trainer import Trainer
from slowstep.parts import Part, PartKind
from slowstep.timeline.intervals import Ints, union
from slowstep.timeline.timeline import Frame

# Of a function's time.
MOST = 0.5
# Calls and modules that bring what was written to the disk, and to where it belongs.
TO_DISK = re.compile(r"(?:^|\.)(?:fsync|fdatasync)$|^os\.(?:sync|replace|rename|renames|link)$")
# The last are of h5py: it writes when a file is closed.
MOVING = {
    "shutil.py": re.compile(r"^(?:move|copy|_fastcopy|_copyfileobj)"),
    "pathlib.py": re.compile(r"^Path\.(?:rename|replace)$"),
    "files.py": re.compile(r"^File\.(?:close|flush)$"),
}

_Counted = TypeVar("_Counted", int, float, Floats)


def with_saving_functions(named: GapParts, trainer: Trainer, steps: Steps, stacks: Stacks) -> tuple[GapParts, dict[Part, float]]:
    """The parts of gaps, with functions that are for checkpoints in the stage of these; and what share of the writing is within each."""
    written_ns = _written_ns(trainer, steps, stacks)
    own_ns = _summed({part: float(ns.sum()) for part, ns in named.ns.items()}, {part: _saving(part) for part in named.ns})
    to_disk = _to_disk(trainer, steps, stacks, written_ns)
    found = {
        part
        for part, written in written_ns.items()
        if part in own_ns and written + to_disk[part] * own_ns[part] >= MOST * (written + own_ns[part])
    }
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
    start, end = _writing(trainer, steps)
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


def _writing(trainer: Trainer, steps: Steps) -> tuple[Ints, Ints]:
    """When checkpoints were written."""
    writes = find_writes(trainer, steps)
    return union(writes["start_ns"].to_numpy(), writes["end_ns"].to_numpy())


def _to_disk(trainer: Trainer, steps: Steps, stacks: Stacks, among: Iterable[Part]) -> dict[Part, float]:
    """Of what each of these functions does beside the writing, the share that brings it to the disk, by stacks."""
    whole, to_disk = dict.fromkeys(among, 0.0), dict.fromkeys(among, 0.0)
    if not whole:
        return {}
    beside = np.ones(stacks.stack.size, dtype=np.bool_)
    beside[inside(stacks, *_writing(trainer, steps))] = False
    kinds, which = np.unique(stacks.stack[beside], return_inverse=True)
    for kind, weight in zip(kinds.tolist(), np.bincount(which, weights=stacks.weight_ns[beside]).tolist(), strict=True):
        path = stacks.frames.get(kind, ())
        called = called_from_loop(path, trainer.way_to_update, trainer.loops_beside) if path else None
        part = None if called is None else _saving(called.part("", trainer.facts.script))
        if part is not None and part in whole:
            whole[part] += weight
            to_disk[part] += weight if _brings_to_disk(path[-1]) else 0.0
    return {part: to_disk[part] / weight if weight else 0.0 for part, weight in whole.items()}


def _brings_to_disk(frame: Frame) -> bool:
    if is_library(frame):
        moving = MOVING.get(frame.file.replace("\\", "/").rpartition("/")[2])
        return moving is not None and bool(moving.search(frame.function))
    return frame.call is not None and frame.call.name is not None and bool(TO_DISK.search(frame.call.name))


def _saving(part: Part) -> Part:
    """What a function's part is where it is for checkpoints; the loop's own lines are for everything."""
    return replace(part, stage="store", kind=PartKind.SAVING_FUNCTION) if part.kind is PartKind.FUNCTION else part
