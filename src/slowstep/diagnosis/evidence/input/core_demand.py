"""What training and workers ask of the cores, and what the training thread loses where its own workers take them."""

from __future__ import annotations

from dataclasses import dataclass

from slowstep.analyses.measurements import Measurements
from slowstep.analyses.steps.steps import Floats
from slowstep.diagnosis.evidence.input.input_side import InputSide
from slowstep.diagnosis.gain import Case, share_queued
from slowstep.parts import Part, PartKind

# The cores bind when they need so much longer than the training thread alone: less is within what the two are measured to.
BINDS = 1.10


@dataclass(frozen=True, kw_only=True, slots=True)
class CoreDemand:
    """ns per step: what all need of the cores, what the training thread needs alone, and what it loses to its workers."""

    needed_ns: float
    alone_ns: float
    lost_ns: Floats
    lost_from: tuple[Part, ...]

    @property
    def binds(self) -> bool:
        """Whether the cores, and not the training thread, set the pace, however many workers there are."""
        return self.needed_ns >= BINDS * self.alone_ns

    @property
    def claims(self) -> tuple[Part, ...]:
        """The ledger parts of what is lost beside the waits for input."""
        return self.lost_from if self.lost_ns.any() else ()


def core_bound_case(side: InputSide, cores: CoreDemand, cpu_ns: float, workers: int, delay_ns: float = 0.0) -> Case:
    """What binds where producers need `cpu_ns` per step and nothing but cores: what all need of these, or a worker for its share, with what
    the workers still wait for a core.
    """
    removed = side.removable_ns + cores.lost_ns
    beside = max((side.trainer_cpu_ns + cpu_ns) / side.cores, (cpu_ns + delay_ns) / workers)
    return Case(removed_ns=removed, concurrent_ns=beside, delay_share=share_queued(cores.lost_ns, removed))


def core_waits(m: Measurements) -> tuple[Part, ...]:
    """The ledger parts, of all stages, in which the training thread waits for a core."""
    return tuple(part for part in m.ledger.parts if part.kind is PartKind.CORE_WAIT)


def core_demand(m: Measurements, side: InputSide) -> CoreDemand:
    """The training thread's waits for a core are its workers' doing in the proportion that these have in all that runs beside it.

    Where the workers leave half of the cores or more free, none of it is.
    """
    step_ns = float(m.step_ns.mean())
    workers = (side.cpu_ns + m.input.demand.others_cpu_ns) / step_ns if m.input.demand.workers else 0.0
    own = workers / max(workers + (m.machine.load.foreign_cores or 0.0), 1e-9)
    delay = m.ledger.of("compute", PartKind.CORE_WAIT)
    return CoreDemand(
        needed_ns=(side.trainer_cpu_ns + side.cpu_ns) / side.cores,
        alone_ns=max(side.rest_ns - float(delay.mean()), 1.0),
        lost_ns=(own if workers >= side.cores / 2 else 0.0) * delay,
        lost_from=core_waits(m),
    )
