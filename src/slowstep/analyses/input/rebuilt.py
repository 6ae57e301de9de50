"""Input that is made anew between passes over the loader: what the training thread spends outside its waits on what the loader reads."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from slowstep.analyses.batches.producers import OF_LOADER
from slowstep.analyses.ledger.ledger import Ledger
from slowstep.analyses.steps.step_lookup import first_of_runs
from slowstep.analyses.steps.steps import Floats, Steps
from slowstep.analyses.steps.trainer import Trainer
from slowstep.parts import Part, PartKind
from slowstep.shares import MOSTLY

# What else is in `preprocess` and none of the loader's has an account of its own, or is made for each batch.
_OTHERS = (*OF_LOADER, PartKind.INPUT_WAIT, PartKind.CORE_WAIT)
# Of what a step takes that has it, on average over its time: steps with less have none of their own.
OF_USUAL = 0.1
# In so many of the steps: made in each.
OF_ALL_STEPS = 0.9


@dataclass(frozen=True, kw_only=True, slots=True)
class RebuiltInput:
    """The parts of the ledger, the largest first, and their ns per step, with what they waited for a core."""

    parts: tuple[Part, ...]
    ns: Floats
    delay_ns: Floats  # of them
    every_steps: float | None  # from one time that the largest is made to the next; None where that was once


def find_rebuilt_input(trainer: Trainer, steps: Steps, ledger: Ledger) -> RebuiltInput | None:
    """None where there is none, and in a loop that is not fed: that makes each of its batches itself."""
    if not trainer.is_fed:
        return None
    begins = _begin_passes(trainer, steps)
    others = [part for part in ledger.parts if part.stage == "preprocess" and part.kind not in _OTHERS]
    mine = [part for part in others if _is_rebuilt(ledger, part, begins)]
    if not mine:
        return None
    own, held = ledger.of_parts(*mine), ledger.of_parts(*others)
    # Not step by step: where all of a gap was waiting for a core, nothing else is left of its parts.
    delay = ledger.of("preprocess", PartKind.CORE_WAIT) * (float(own.sum()) / max(float(held.sum()), 1.0))
    parts = tuple(sorted(mine, key=lambda part: -ledger.total_of(part)))
    return RebuiltInput(
        parts=parts,
        ns=own + delay,
        delay_ns=delay,
        every_steps=_period(ledger.of_parts(parts[0])),
    )


def _is_rebuilt(ledger: Ledger, part: Part, begins: NDArray[np.bool_]) -> bool:
    """In a loop that is fed, a function in gaps is in `preprocess` only where it makes what the loader reads."""
    if part.kind is PartKind.SPAN:
        # A span that somebody has named may be for each batch: one between passes has so much of its time there.
        return float(ledger.of_parts(part)[begins].sum()) > MOSTLY * ledger.total_of(part)
    return part.kind in (PartKind.FUNCTION, PartKind.LINES)


def _period(ns: Floats) -> float | None:
    """Steps between the begins of what takes `ns` of each. Stacks smear a little of it over all of them, and it may end in the next one."""
    taken = ns >= OF_USUAL * float((ns**2).sum() / ns.sum())
    if taken.mean() >= OF_ALL_STEPS:
        return 1.0
    at = first_of_runs(np.flatnonzero(taken))
    return float(np.median(np.diff(at))) if len(at) > 1 else None


def _begin_passes(trainer: Trainer, steps: Steps) -> NDArray[np.bool_]:
    """In which steps a pass over a loader begins."""
    step, inside = steps.stretch_at(trainer.starts["start_ns"].to_numpy())
    begins = np.zeros(steps.stretches, dtype=np.bool_)
    begins[step[inside]] = True
    return begins[~steps.excluded]
