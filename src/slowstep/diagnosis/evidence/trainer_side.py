"""What the rules about the training thread's own work have in common."""

from __future__ import annotations

import numpy as np

from slowstep.analyses.compute.blocked import Blocked
from slowstep.analyses.measurements import Measurements
from slowstep.analyses.steps.steps import Floats
from slowstep.calibration import side_by_side
from slowstep.diagnosis.law import HEALTHY_UNATTRIBUTED
from slowstep.parts import BODY, Part, PartKind

# Chosen: producers that nearly bind stall the training now and then (queues smooth, but not wholly), so at worst B is a tenth larger: as in
# `COMFORTABLE` of input/input_side.py.
PESSIMISTIC_BESIDE = 1.10
AFTER_FORK, (_, AFTER_FORK_HIGH) = side_by_side.AFTER_FORK.value, side_by_side.AFTER_FORK.bounds


def blocked_inside(m: Measurements) -> Blocked | None:
    """Where the training thread is blocked inside its steps for more than may be unknown in a healthy training; None where it is not.

    On an accelerator it waits for that, and for other ranks it waits in its backward: neither is looked at here.
    """
    if m.compute.device != "cpu" or m.sharing.ranks > 1 or m.compute.blocked is None or m.compute.blocked.share < HEALTHY_UNATTRIBUTED:
        return None
    return m.compute.blocked


def with_core_delay(m: Measurements, part: Part) -> Floats:
    """Time per step of a part, with its share of what its stage waited for a core: that delay goes with it."""
    own = m.ledger.of_parts(part)
    delay = m.ledger.of(part.stage, PartKind.CORE_WAIT)
    others = float(m.ledger.of(part.stage).sum() - delay.sum())
    return own + delay * (float(own.sum()) / others if others > 0 else 0.0)


def body_rest(m: Measurements) -> Floats:
    """Time per step of bodies without backward and optimizer, with what the ledger calls otherwise because a framework or the script has
    named it, or because it lies between two batches of a step: calls that were timed in a few bodies are known as shares of that.
    """
    named, between = m.ledger.in_bodies_ns, m.ledger.between
    body = with_core_delay(m, BODY) + (0.0 if named is None else named)
    return body if between is None else np.asarray(body + between.gaps_ns + between.waits_ns)


def copying_after_forks(m: Measurements, own: Floats, times: float = AFTER_FORK) -> Floats:
    """Time per step that the training's own work loses to forks for new workers, where the step after one takes `times` as long.

    Nothing of what an accelerator computes.
    """
    return own * (m.over_time.restarts.forks_per_step if m.compute.device == "cpu" else 0.0) * (1 - 1 / times)


def delay_share(m: Measurements, *parts: Part) -> float:
    """How much of the parts' time with their share of such delay is delay."""
    whole = sum(float(with_core_delay(m, part).sum()) for part in parts)
    return 1 - sum(m.ledger.total_of(part) for part in parts) / whole if whole > 0 else 0.0


def concurrent_producers_ns(m: Measurements, *, spared_cpu_ns: float = 0.0) -> float:
    """B where the training thread gets faster: what the loader's workers need per step, and what all need of the cores."""
    if m.input.loader is None or m.input.loader.num_workers == 0 or m.input.demand.wall_ns is None or m.input.demand.cpu_ns is None:
        return 0.0
    trainer = max((m.compute.trainer_cpu_ns or 0.0) - spared_cpu_ns, 0.0)
    cores = (trainer + m.input.demand.cpu_ns) / m.machine.cores if m.machine.cores else 0.0
    starting = float((m.input.filling_ns + m.ledger.of("preprocess", PartKind.LOADER_START)).mean())
    # They kept up with the step as it is: doing less on the training thread cannot make it longer.
    return min(
        max(m.input.demand.wall_ns / m.input.loader.num_workers + starting, m.input.demand.others_ns, cores), float(m.step_ns.mean())
    )
