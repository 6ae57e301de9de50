"""What the training loses to a Python thread of its own process that computes, and what it gains where that runs in another process.

Steps are blocked while such a thread runs, for one of both holds the GIL; and the training thread waits for a core more often. Where
operations have several threads, the training thread is blocked for those too: that much is usual, and stays.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from slowstep.analyses.measurements import Measurements
from slowstep.analyses.python.gil_waits import WAITS_FROM, GilWaits
from slowstep.analyses.steps.steps import Floats
from slowstep.calibration import side_by_side
from slowstep.diagnosis.evidence.input.input_side import QUEUED_PESSIMISTIC, SIDE_BY_SIDE
from slowstep.diagnosis.evidence.trainer_side import PESSIMISTIC_BESIDE
from slowstep.diagnosis.gain import Case, share_queued
from slowstep.diagnosis.law import BOTTLENECK_PREDICTED
from slowstep.diagnosis.rule import CLAIM
from slowstep.findings import Evidence
from slowstep.parts import Part, PartKind

HELD_UP = Part("compute", PartKind.HELD_UP)
QUEUED = Part("compute", PartKind.CORE_WAIT)
# What the training thread is blocked for the other threads of its operations anyway, of its own time in bodies.
USUAL = side_by_side.WAITS_FOR_OPERATIONS
# What the thread still takes where it works on whole arrays: as slow-transform has it, rarely less than a tenth on a first try.
LEFT = 0.05


@dataclass(frozen=True, kw_only=True, slots=True)
class HeldUp:
    """ns per step, shape (steps,), that the steps lose to the thread: as expected, at least and at most. `queued_ns` is what of the first
    is waiting for a core, `least_queued_ns` what of the second. Of scalars `cpu_ns` is what the thread computes in a step, `training_ns`
    what the training does.
    """

    lost_ns: Floats
    least_ns: Floats
    most_ns: Floats
    queued_ns: Floats
    least_queued_ns: Floats
    cpu_ns: float
    training_ns: float

    @property
    def claims(self) -> tuple[Part, ...]:
        """The ledger parts that hold it; waiting for a core where that is much of it."""
        whole = float(self.lost_ns.sum())
        return (HELD_UP, QUEUED) if whole > 0 and float(self.queued_ns.sum()) >= CLAIM * whole else (HELD_UP,)


def find_held_up(m: Measurements, cores: float) -> HeldUp | None:
    """What a thread that uses so many cores costs; None where that is not worth a claim, or steps are seen not to wait for the GIL."""
    held, is_held = m.ledger.of_parts(HELD_UP), is_gil_held(m)
    if not held.any() or is_held is False:
        return None
    own = np.asarray(m.ledger.of("compute") - held - m.ledger.of_parts(QUEUED))
    queued = _caused(m, cores) * m.ledger.of_parts(QUEUED)
    usual, (low, high) = (USUAL.value, USUAL.bounds) if _threads(m) > 1 else (0.0, (0.0, 0.0))
    lost = _beyond(held, usual * own) + queued
    if float(lost.sum()) < CLAIM * float(m.step_ns.sum()):
        return None
    least_queued = (QUEUED_PESSIMISTIC if is_held else 0.0) * queued
    least = _beyond(held, high * own) + least_queued if is_held else np.zeros_like(held)
    cpu_ns = cores * float(m.step_ns.mean())
    return HeldUp(
        lost_ns=lost,
        least_ns=np.minimum(least, lost),
        most_ns=_beyond(held, low * own) + queued,
        queued_ns=queued,
        least_queued_ns=least_queued,
        cpu_ns=cpu_ns,
        training_ns=_training_cpu_ns(m, own, cpu_ns),
    )


def _threads(m: Measurements) -> int:
    """Of an operation's own."""
    return m.machine.resources.threads or 1


def is_gil_held(m: Measurements) -> bool | None:
    """Whether steps wait for the GIL, as the recorder's own thread does; None where that is not known for certain."""
    waits = m.python.concurrent_threads.gil_waits
    return None if waits is None else waits.shows_held


def only_threads_block(m: Measurements) -> bool:
    """Whether what blocks bodies is known to be none of an accelerator's or of other ranks' doing."""
    return m.compute.device == "cpu" and m.sharing.ranks == 1


def makers_hold_up(m: Measurements) -> HeldUp | None:
    """What the threads cost that make the training's input; None where they are not known to, or others compute more in Python."""
    makers = m.input.prefetch_threads
    if makers is None or not makers.is_taken or not only_threads_block(m):
        return None
    cores = makers.cpu_ns / float(m.step_ns.mean())
    return find_held_up(m, cores) if 2 * cores >= m.python.concurrent_threads.cores else None


def _beyond(held: Floats, usual: Floats) -> Floats:
    """What is more than usual, by the share that it is of all steps together."""
    share = max(1 - float(usual.sum()) / max(float(held.sum()), 1.0), 0.0)
    return share * held


def _caused(m: Measurements, cores: float) -> float:
    """How much of the training thread's waiting for a core is the thread's doing: in the proportion of all that runs at the same time.

    None of it where the training's own threads are more than the cores.
    """
    allowed = m.machine.cores
    if allowed is None or _threads(m) > allowed:
        return 0.0
    demand = m.input.demand
    workers = ((demand.cpu_ns or 0.0) + demand.others_cpu_ns) / float(m.step_ns.mean()) if demand.workers else 0.0
    return cores / (cores + workers + (m.machine.load.foreign_cores or 0.0))


def _training_cpu_ns(m: Measurements, own: Floats, cpu_ns: float) -> float:
    """What the training computes in a step, its operations' threads included: no more than all of them always would."""
    alone, step_ns = float(own.mean()), float(m.step_ns.mean())
    used = m.machine.load.tree_cores
    if used is None:
        return alone
    return min(max(used * step_ns - cpu_ns, alone), alone * _threads(m))


def all_on_cores_ns(m: Measurements, held: HeldUp) -> float:
    """The shortest step in which the cores that other processes leave do the work of both."""
    foreign = m.machine.load.foreign_cores or 0.0
    return (held.training_ns + held.cpu_ns) / max((m.machine.cores or 1.0) - foreign, 1.0)


def with_process_ns(m: Measurements, held: HeldUp) -> float:
    """The shortest step in which the training has the cores that a process which always computes leaves, or its equal share of all."""
    threads, cores = _threads(m), m.machine.cores or 1.0
    return held.training_ns / max(cores - 1, cores * threads / (threads + 1))


def is_worth_a_process(m: Measurements, case: Case) -> bool:
    """Whether a process in the thread's place gains what a verdict is about; where it, or the cores, take as long as a step does now, only
    less work gains.
    """
    step_ns = float(m.step_ns.mean())
    return step_ns >= BOTTLENECK_PREDICTED * max(step_ns - float(case.removed_ns.mean()), case.concurrent_ns)


def by_less_work(held: HeldUp, *, more_ns: Floats | float = 0.0) -> Case:
    """What the thread does takes a twentieth of its time; `more_ns` goes with what is lost to it."""
    removed = np.asarray(held.lost_ns + more_ns)
    return Case(removed_ns=removed, concurrent_ns=LEFT * held.cpu_ns, delay_share=share_queued(held.queued_ns, removed))


def at_worst(held: HeldUp, concurrent_ns: float, *, more_ns: Floats | float = 0.0) -> Case:
    """The thread's work runs in a process that takes a tenth longer, and takes the least away; `more_ns` goes with it."""
    removed = held.least_ns + more_ns
    return Case(
        removed_ns=removed, concurrent_ns=PESSIMISTIC_BESIDE * concurrent_ns, delay_share=share_queued(held.least_queued_ns, removed)
    )


def at_best(m: Measurements, held: HeldUp, *, more_ns: Floats | float = 0.0) -> Case:
    """The work costs next to nothing, and slows the training no more."""
    rest = m.step_ns - held.most_ns - more_ns
    removed = held.most_ns + more_ns + SIDE_BY_SIDE * np.maximum(rest, 0.0)
    return Case(removed_ns=np.asarray(removed), delay_share=share_queued(held.queued_ns, np.asarray(removed)))


def lost_to_threads(m: Measurements, held: HeldUp) -> tuple[Evidence, ...]:
    """What of the steps the thread takes, as findings have it."""
    waits = m.python.concurrent_threads.gil_waits
    asked = () if waits is None else (_asked(waits),)
    return (
        Evidence(name="steps blocked meanwhile", value=float(m.ledger.of_parts(HELD_UP).mean()) / 1e6, unit="ms per step"),
        Evidence(name="lost to it", value=float(held.lost_ns.mean()) / 1e6, unit="ms per step"),
        *asked,
    )


def _asked(waits: GilWaits) -> Evidence:
    return Evidence(name="the recorder waited for the GIL", value=waits.share, unit=f"share of {waits.asked} tries", threshold=WAITS_FROM)
