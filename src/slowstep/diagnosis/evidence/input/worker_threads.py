"""Workers that compute on several threads each: whether those are in each other's way, and what one thread per worker would gain."""

from __future__ import annotations

from dataclasses import dataclass

from slowstep.analyses.measurements import Measurements
from slowstep.analyses.python.calls import DOMINANT_SHARE
from slowstep.analyses.steps.steps import Floats
from slowstep.calibration import loading
from slowstep.diagnosis.evidence.input.core_demand import CoreDemand, core_bound_case, core_demand
from slowstep.diagnosis.evidence.input.input_side import WAIT_SHARE, InputSide, claims, find_side, removable_waits
from slowstep.diagnosis.gain import Case, Counterfactual, predict
from slowstep.parts import Part, PartKind
from slowstep.reasons import Reason

# Threads that help now and then (a reader, the queue's feeder, which takes some percent) are no pool.
HELPERS = 0.25
# Of the waits: less of queueing and waiting than this is what any busy machine shows.
QUEUEING = 0.20
# Producers that are blocked for longer than they compute wait for something else than cores.
BLOCKED_AT_MOST = 0.5
WASTED, (WASTED_PESSIMISTIC, _) = loading.SPUN.value, loading.SPUN.bounds
_, OWN_WASTED_OPTIMISTIC = loading.SPUN_ITSELF.bounds


@dataclass(frozen=True, kw_only=True, slots=True)
class Oversubscription:
    """Threads of workers that take turns on the cores, `helpers` of them busy in each worker beside the one that makes the batch."""

    workers: int
    helpers: float
    threads: float  # busy in all, the training thread's with them
    cores: float
    queueing: float  # share of the waits for batches
    removed_ns: Floats  # per step: the waits for batches, and for the cores that the workers took
    claims: tuple[Part, ...]
    counterfactual: Counterfactual


def find_oversubscription(m: Measurements) -> Oversubscription | None:
    """The workers' threads, where they are more than the cores and batches are waited for because they queue; None where not."""
    side, helpers = find_side(m), m.input.facts.helpers
    if m.input.loader is None or not m.input.loader.num_workers or isinstance(side, Reason) or helpers is None:
        return None
    workers = m.input.loader.num_workers
    threads = workers * (1 + helpers) + 1
    cores = core_demand(m, side)
    removed = side.removable_ns + cores.lost_ns
    share = float(removed.sum() / m.step_ns.sum())
    queueing = float(removable_waits(m, PartKind.PRODUCER_CORE_WAIT, PartKind.LOCK_WAIT).sum() / max(removable_waits(m).sum(), 1.0))
    if helpers < HELPERS or threads <= side.cores or share < WAIT_SHARE or queueing < QUEUEING:
        return None
    if (m.input.demand.blocked_share or 0.0) > BLOCKED_AT_MOST:
        return None
    return Oversubscription(
        workers=workers,
        helpers=helpers,
        threads=threads,
        cores=side.cores,
        queueing=queueing,
        removed_ns=removed,
        claims=(*claims(m), *cores.claims),
        counterfactual=_counterfactual(side, cores, m.input.facts.helpers_share or 0.0, workers),
    )


def take_most(m: Measurements) -> bool:
    """Whether one thread per worker is expected to remove most of what is waited: then that is why a function takes its time in them."""
    found = find_oversubscription(m)
    gain = None if found is None else predict(m, found.counterfactual).predicted
    if found is None or gain is None:
        return False
    return bool((1 - 1 / gain) * m.step_ns.sum() >= DOMINANT_SHARE * found.removed_ns.sum())


def _counterfactual(side: InputSide, cores: CoreDemand, helpers_share: float, workers: int) -> Counterfactual:
    helping_ns = min(helpers_share * side.wall_ns, side.cpu_ns)

    def case(wasted: float, own_wasted: float = 0.0) -> Case:
        cpu_ns = (side.cpu_ns - helping_ns) * (1 - own_wasted) + (1 - wasted) * helping_ns
        return core_bound_case(side, cores, cpu_ns, workers)

    return Counterfactual(
        assumes="the extra threads only spin, and one thread per worker did the work in the same time",
        expected=case(WASTED), pessimistic=case(WASTED_PESSIMISTIC), optimistic=case(WASTED, OWN_WASTED_OPTIMISTIC),
    )  # fmt: skip
