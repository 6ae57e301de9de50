"""How long the training thread is blocked inside its steps' own work, while nobody computes for it: a sleep, a lock, a server, a disk.

Operations on a processor are computed by the training thread or by threads of its process tree. Where all of these together use less CPU
time than the steps' own work takes, the rest is no computing, whatever stands there.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass

import numpy as np

from slowstep.analyses.batches.demand import Demand
from slowstep.analyses.ledger.ledger import Ledger
from slowstep.analyses.machine.load import Load
from slowstep.analyses.machine.machine import Machine
from slowstep.analyses.python.functions import Stacks, inside, own_frames, shown
from slowstep.analyses.steps.steps import Steps
from slowstep.analyses.steps.trainer import Trainer
from slowstep.parts import PartKind
from slowstep.timeline.intervals import Ints


@dataclass(frozen=True, kw_only=True, slots=True)
class Blocked:
    """At least so large a share of the steps' time, and the user's line that most of it stands in; None where no stack says."""

    share: float
    line: str | None


def find_blocked(
    trainer: Trainer,
    steps: Steps,
    ledger: Ledger,
    stacks: Stacks,
    demand: Demand,
    machine: Machine,
    load: Load,
    own_ns: float | None,
) -> Blocked | None:
    """None where it is not known who computed, and where the host does not wait for what does.

    `own_ns` is the training thread's CPU time per step. All that its process tree computed counts for the steps' own work, but for what the
    loader's workers are known to have used. What a quota held back, or the hypervisor took, would have computed; and what another Python
    thread held up is its doing.
    """
    if trainer.is_asynchronous or own_ns is None or (load.tree_cores is None and machine.threads != 1):
        return None
    step_ns = float(steps.duration_ns.mean())
    made_ns = (demand.cpu_ns or 0.0) if demand.workers else 0.0
    computed = max(own_ns / step_ns, (load.tree_cores or 0.0) - made_ns / step_ns)
    held_back = (load.stolen_cores or 0.0) + (0.0 if machine.throttling is None else machine.throttling.cores)
    own_work = float((ledger.of("compute") - ledger.of("compute", PartKind.CORE_WAIT, PartKind.HELD_UP)).mean()) / step_ns
    share = max(own_work - computed - held_back, 0.0)
    return Blocked(share=share, line=_line(trainer, stacks) if share else None)


def _line(trainer: Trainer, stacks: Stacks) -> str | None:
    """Outside of waits for batches."""
    waits = trainer.waits.sort("start_ns")
    waiting: Ints = np.array([], dtype=np.int64)
    if waits.height:
        waiting = inside(stacks, waits["start_ns"].to_numpy(), waits["end_ns"].to_numpy())
    weights: Counter[str] = Counter()
    for weight, path in stacks.paths(np.setdiff1d(np.flatnonzero(stacks.blocked), waiting).tolist()):
        if path:
            frame = own_frames(path)[-1]
            weights[f"{shown(frame.file, trainer.facts.script)}:{frame.line}"] += round(weight)
    return weights.most_common(1)[0][0] if weights else None
