"""What the rules about input have in common: the waits that could be removed, and what producers would need with other workers."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from slowstep.analyses.batches.producers import ACCOUNT
from slowstep.analyses.input.loop_input import LoopInput
from slowstep.analyses.input.prefetch_threads import PrefetchThreads
from slowstep.analyses.measurements import Measurements
from slowstep.analyses.steps.steps import Floats
from slowstep.calibration import loading, side_by_side
from slowstep.findings import NotJudged
from slowstep.parts import Part, PartKind
from slowstep.reasons import Reason, Wording
from slowstep.stages import STAGES, UNATTRIBUTED

# From this share of the window on, waiting for input is worth a finding: XProf's "moderately input-bound", and the Kineto plugin's.
WAIT_SHARE = 0.05
# Producers that are busy more than this share of the training thread's time per step stall it now and then: queues smooth, but not wholly.
COMFORTABLE = 0.90
# Beside the usual RECEIVE_NS: what receiving takes at best and at worst.
RECEIVE_LOW_NS, RECEIVE_HIGH_NS = loading.RECEIVING.bounds

# Threads that compute side by side slow each other, even on cores of their own. Cores that share less slow each other less: the middle is
# expected where a worker that was always busy is relieved.
SIDE_BY_SIDE = side_by_side.SIDE_BY_SIDE.value
RELIEF_EXPECTED = SIDE_BY_SIDE / 2
# The training thread's waiting for a core goes with what computes beside it; at worst, as where that comes in bursts, half as much.
QUEUED_PESSIMISTIC = 0.5
# Workers that wait cost memory, and share what they wait for: no more than this many per core are proposed.
WORKERS_PER_CORE = 4

# What a producer uses beside its one thread up to this share of a core (reads ahead, the recorder's own readings) needs no core of its own.
SPARE_THREADS = 0.10

# If more workers would save less than this share of the step, something else is the limit and not the number of workers.
SAVES_AT_LEAST = 0.05
# Of what all cores would get done where each computed always and as fast as beside what there is now.
ATTAINED = side_by_side.ATTAINED.value

# Of the cores that workers would keep busy: with less than half of them left, most of their work displaces the training's own.
ENOUGH_LEFT = 0.5
# Of the time in which it could, a thread computes at least so much: a wait for a core is counted when it ends, maybe in a later step.
LEAST_COMPUTED = 0.05

NO_LOADER = Wording("no-loader", "no data loader feeds this training")
WORKERS_NOT_RECORDED = Wording("workers-not-recorded", "the work of the loader's workers was not recorded")
BATCHES_NOT_MATCHED = Wording(
    "batches-not-matched",
    "the work of the loader's workers was not recorded: for {share:share} of the time it is unknown who made the batch waited for",
)
MADE_ELSEWHERE = Wording(
    "made-elsewhere",
    "it is not known who makes the batches: for {share:share} of the time the training thread waits for one and does not compute",
)
MADE_BY_PIPELINE = Wording("made-by-pipeline", "the stages of a pipeline make the batches, which slow-pipeline judges")
CORES_UNKNOWN = Wording("cores-unknown", "how many cores the training may use is unknown")


@dataclass(frozen=True, kw_only=True, slots=True)
class Warmed:
    """Of what a training thread that makes its batches itself computes less for them, the share that its own work gets shorter by, too; and
    of that work the most.
    """

    share: float
    at_most: float


# It finds its caches cold after making a batch, and the threads of its operations asleep.
WARMED_EXPECTED, WARMED_OPTIMISTIC = (
    Warmed(share=share, at_most=at_most)
    for share, at_most in (
        (side_by_side.WARMED.value, side_by_side.WARMED_AT_MOST.value),
        (side_by_side.WARMED.bounds[1], side_by_side.WARMED_AT_MOST.bounds[1]),
    )
)
NOT_WARMED = Warmed(share=0.0, at_most=0.0)


@dataclass(frozen=True, kw_only=True, slots=True)
class InputSide:
    """Input seen from the training thread, ns per step."""

    removable_ns: Floats  # waits less transport, start-up and the making of each iterator's first batch
    filling_ns: Floats  # the making of each iterator's first batch: shorter only where making is
    startup_ns: float  # the loader's start-up
    rest_ns: float  # the step without them
    queued_ns: Floats  # what of the rest the training thread waited for a core
    own_queued_ns: Floats  # and of the removable, where the loop makes its batches itself
    others_cpu_ns: float  # CPU time of other processes on the same cores
    wall_ns: float  # producers' time
    cpu_ns: float  # their CPU time
    trainer_cpu_ns: float  # with that of other loaders' workers
    cores: float
    others_ns: float = 0.0  # how long the workers of other loaders take for what a step reads
    delay_ns: float = 0.0  # of `wall_ns`, in which producers waited for a core
    in_loop: bool = False  # whether the training thread is the producer
    gives_all: bool = False  # a stream, of which each worker may give all samples
    worker_cores: float | None = None  # that workers may use, where these are fewer than the training's


def is_made_by_pipeline(m: Measurements) -> bool:
    """Whether a pipeline is known to make the training's batches in threads of its own."""
    return m.input.pipeline is not None and m.input.pipeline.is_made_concurrently


def _unknown_maker(m: Measurements, workers: int) -> Reason:
    if workers:
        return WORKERS_NOT_RECORDED()
    return MADE_BY_PIPELINE() if is_made_by_pipeline(m) else MADE_ELSEWHERE(share=m.input.unmatched_share)


def not_judged_by_function(rule: str, reason: Reason) -> NotJudged:
    """What a rule answers that names a function of a loader's: where stages of a pipeline make the batches no such function is in doubt."""
    return NotJudged(rule=rule, reason=reason, advisory=reason.of(MADE_BY_PIPELINE))


def find_side(m: Measurements) -> InputSide | Reason:
    """The measurements that every input rule needs, or why they are missing."""
    if m.input.loader is None:
        return NO_LOADER()
    if m.input.demand.wall_ns is None or m.input.demand.cpu_ns is None:
        return _unknown_maker(m, m.input.loader.num_workers)
    if m.input.unmatched_share >= WAIT_SHARE:
        return BATCHES_NOT_MATCHED(share=m.input.unmatched_share)
    if m.machine.cores is None:
        return CORES_UNKNOWN()
    removable = np.maximum(removable_waits(m) - m.input.filling_ns, 0.0)
    rest = float(m.step_ns.mean() - removable.mean())
    trainer_cpu = m.compute.trainer_cpu_ns if m.compute.trainer_cpu_ns is not None else rest
    own = m.input.demand.cpu_ns if m.input.loader.num_workers == 0 else 0.0
    return InputSide(
        removable_ns=removable,
        filling_ns=m.input.filling_ns,
        startup_ns=float(m.ledger.of("preprocess", PartKind.LOADER_START).mean()),
        rest_ns=rest,
        queued_ns=_queued(m),
        own_queued_ns=np.zeros_like(removable),
        others_cpu_ns=_others_cpu(m),
        wall_ns=m.input.demand.wall_ns,
        cpu_ns=m.input.demand.cpu_ns - m.input.demand.others_cpu_ns,
        trainer_cpu_ns=max(trainer_cpu - own, 0.0) + m.input.demand.others_cpu_ns,
        cores=m.machine.cores,
        others_ns=m.input.demand.others_ns,
        delay_ns=m.input.demand.queued_ns,
        in_loop=m.input.loader.num_workers == 0,
        gives_all=m.input.loader.divides is False,
        worker_cores=_worker_cores(m, m.machine.cores),
    )


def _worker_cores(m: Measurements, cores: float) -> float | None:
    """What those that there are may use; where there are none, what they would inherit, which a library that binds threads leaves small."""
    resources, has_workers = m.machine.resources, m.input.loader is not None and m.input.loader.num_workers > 0
    allowed = resources.workers_cores if has_workers else resources.inherited_cores
    return float(allowed) if allowed is not None and allowed < cores else None


def side_of_loop(m: Measurements, made: LoopInput) -> InputSide | Reason:
    """The same of a loop that makes its batches itself, or why it is not known."""
    removable = np.minimum(made.made_ns + made.blocked_ns + made.delay_ns, m.step_ns)
    cpu = float(made.made_ns.mean())
    return _side_of_own(
        m, removable, np.minimum(made.delay_ns, removable), wall_ns=cpu + float(made.blocked_ns.mean()), cpu_ns=cpu, trainer_ns=cpu
    )


def side_of_body(m: Measurements, held_ns: Floats) -> InputSide | Reason:
    """The same of input that the training thread makes of batches which it has received, beside what the loader's workers do for them."""
    held, demand = float(held_ns.mean()), m.input.demand
    with_workers = m.input.loader is not None and m.input.loader.num_workers > 0
    wall, cpu = (demand.wall_ns or 0.0, demand.cpu_ns or 0.0) if with_workers else (0.0, 0.0)
    return _side_of_own(m, held_ns, np.zeros_like(held_ns), wall_ns=held + wall, cpu_ns=held + cpu, trainer_ns=held)


def side_of_counted(m: Measurements) -> InputSide | Reason:
    """The same of a framework that makes its batches between its updates, and only counts how long; what of it is CPU time is unknown."""
    waited = m.ledger.of("preprocess", PartKind.INPUT_WAIT)
    making = float(waited.mean())
    return _side_of_own(m, waited, np.zeros_like(waited), wall_ns=making, cpu_ns=making, trainer_ns=0.0)


def side_of_threads(m: Measurements, waited_ns: Floats, threads: PrefetchThreads) -> InputSide | Reason:
    """The same of a loop that waits for threads of its own process; or why it is not known."""
    return _side_of_own(
        m, np.minimum(waited_ns, m.step_ns), np.zeros_like(waited_ns), wall_ns=threads.wall_ns, cpu_ns=threads.cpu_ns, trainer_ns=0.0
    )


def _side_of_own(
    m: Measurements, removable: Floats, own_queued_ns: Floats, *, wall_ns: float, cpu_ns: float, trainer_ns: float
) -> InputSide | Reason:
    """Of batches that the script's own process makes; `trainer_ns` of their CPU time are the training thread's."""
    if m.machine.cores is None:
        return CORES_UNKNOWN()
    rest = float(m.step_ns.mean() - removable.mean())
    trainer_cpu = m.compute.trainer_cpu_ns if m.compute.trainer_cpu_ns is not None else rest + trainer_ns
    return InputSide(
        removable_ns=removable,
        filling_ns=np.zeros_like(removable),
        startup_ns=0.0,
        rest_ns=rest,
        queued_ns=_queued(m),
        own_queued_ns=own_queued_ns,
        others_cpu_ns=_others_cpu(m),
        wall_ns=wall_ns,
        cpu_ns=cpu_ns,
        trainer_cpu_ns=max(trainer_cpu - trainer_ns, 0.0),
        cores=m.machine.cores,
    )


def _queued(m: Measurements) -> Floats:
    return np.asarray(
        sum(m.ledger.of(stage, PartKind.CORE_WAIT) for stage in (*STAGES, UNATTRIBUTED) if stage not in ("read", "preprocess"))
    )


def _others_cpu(m: Measurements) -> float:
    return (m.machine.load.foreign_cores or 0.0) * float(m.step_ns.mean())


def relieved_ns(side: InputSide, spared_cpu_ns: float, *, slowed: float, queued: float) -> Floats:
    """What the training thread's own work takes less where producers compute less.

    `slowed` is the share by which they slowed it; of its waiting for a core goes what is spared of all that computes beside it, times
    `queued`.
    """
    freed = _freed_ns(side, spared_cpu_ns, queued)
    return np.asarray(freed + slowed * (side.rest_ns - freed))


def relieved_queue_ns(side: InputSide, spared_cpu_ns: float, *, slowed: float, queued: float) -> Floats:
    """What of `relieved_ns` is waiting for a core."""
    freed = _freed_ns(side, spared_cpu_ns, queued)
    return np.asarray(freed + slowed * (side.queued_ns - freed))


def _freed_ns(side: InputSide, spared_cpu_ns: float, queued: float) -> Floats:
    return queued * side.queued_ns * min(spared_cpu_ns / max(side.cpu_ns + side.others_cpu_ns, 1.0), 1.0)


def warmed_ns(side: InputSide, spared_ns: Floats, warmed: Warmed) -> Floats:
    """What the training thread's own work takes less where it computes for so much less before it, to make a batch; ns per step."""
    return np.minimum(warmed.share * spared_ns, warmed.at_most * side.rest_ns)


def removable_waits(m: Measurements, *kinds: PartKind) -> Floats:
    """Waits per step that another producer set-up could remove; of some kinds of them where given."""
    wanted = kinds or ACCOUNT
    return np.asarray(m.ledger.of("read", *wanted) + m.ledger.of("preprocess", *wanted))


def claims(m: Measurements, *kinds: PartKind) -> tuple[Part, ...]:
    """The ledger parts of the waits, those that are there."""
    wanted = kinds or ACCOUNT
    return tuple(part for part in m.ledger.parts if part.stage in ("read", "preprocess") and part.kind in wanted)


def wait_stage(m: Measurements, *kinds: PartKind) -> str:
    """read or preprocess, whichever holds more of the waits."""
    wanted = kinds or ACCOUNT
    return "read" if m.ledger.total("read", *wanted) > m.ledger.total("preprocess", *wanted) else "preprocess"


def needed_every_ns(side: InputSide) -> float:
    """How often the training thread needs a batch, the starts of epochs aside, in which it waits for the first ones."""
    return max(side.rest_ns - float(side.filling_ns.mean()) - side.startup_ns, 1.0)


def keeps_up(side: InputSide, workers: int) -> bool:
    """Whether so many workers make batches comfortably as fast as they are needed, on average: what is waited for is not their number."""
    return side.wall_ns <= COMFORTABLE * needed_every_ns(side) * workers


def workers_needed(side: InputSide, now: int) -> int:
    """The least number of workers that keeps up with the training thread, never fewer than one more than now.

    Never more than can compute at once on the cores, by the share of the workers' time that is CPU time, nor WORKERS_PER_CORE. In what they
    waited for a core no other worker finds one. One for a stream of which each may give all samples: more may give them again.
    """
    if side.gives_all and now == 0:
        return 1
    used = side.cpu_ns / max(side.wall_ns - side.delay_ns, 1.0)
    if now == 0 or used <= 1 + SPARE_THREADS:
        # Beside a training thread that makes its batches itself PyTorch's own threads still spin; in a worker it has none.
        used = min(used, 1.0)
    at_once = min(side.cores, side.worker_cores or side.cores) * min(1 / max(used, 1e-9), WORKERS_PER_CORE)
    return max(min(math.ceil(side.wall_ns / (COMFORTABLE * needed_every_ns(side))), math.floor(at_once)), now + 1)


def cores_left_by_others(side: InputSide, workers: int) -> float:
    """How many cores the training thread and so many workers get beside other processes: what those leave, or an equal share per thread
    where that is more, as Linux gives it ("sched-design-CFS": each of n runnable threads runs at 1/n of the speed).

    How many threads of others run is known by what they use, and by how long the training thread waited for a core: of one that computed
    half of the time in which it could have, there were as many others on its core. What workers waited for one, each for itself, says
    nothing of that.
    """
    step_ns = side.rest_ns + float(side.removable_ns.mean())
    if step_ns <= 0:
        return side.cores
    foreign = side.others_cpu_ns / step_ns
    waited_ns = float((side.queued_ns + side.own_queued_ns).mean()) + (side.delay_ns if side.in_loop else 0.0)
    computed = 1 - waited_ns / step_ns
    others = max(foreign, side.cores / max(computed, LEAST_COMPUTED) - 1)
    own = 1 + workers
    return max(side.cores - foreign, side.cores * own / (own + others))


def concurrent_ns(
    side: InputSide, workers: int, *, spared_wall_ns: float = 0.0, spared_cpu_ns: float = 0.0, cores: float | None = None
) -> float:
    """B: producers' time / workers, after each epoch's start in which nothing runs beside them; not below what all need of the cores (of
    `cores` where given), nor below what workers need of those that they may use, nor what other loaders' workers take for theirs.
    """
    left = 1 - spared_wall_ns / max(side.wall_ns, 1.0)
    wall = side.wall_ns * left / max(workers, 1) + float(side.filling_ns.mean()) * left + side.startup_ns
    computing = (side.trainer_cpu_ns + side.cpu_ns - spared_cpu_ns) / (cores or side.cores)
    bound = 0.0 if side.worker_cores is None else side.cpu_ns * left / side.worker_cores
    return max(wall, computing, bound, side.others_ns)


def core_bound_ns(m: Measurements, side: InputSide, attained: float, *, by_others: bool = True) -> float:
    """The shortest step for which the cores suffice, by all that the process tree used in one: passing batches on costs CPU time too.

    What other processes use of them is not free `by_others`.
    """
    used, free = m.machine.load.tree_cores, side.cores - ((m.machine.load.foreign_cores or 0.0) if by_others else 0.0)
    if not used or free <= 0:
        return 0.0
    return float(m.step_ns.mean()) * min(used / (attained * free), 1.0)


def known_bound_ns(m: Measurements, side: InputSide) -> float:
    """The same by what is known to need the cores: making batches, and the training's threads outside of its waits. OpenMP's threads spin
    while it waits: a step that mostly waited used 21 to 26 ms of CPU time, and 11.5 with enough workers.
    """
    free = side.cores - (m.machine.load.foreign_cores or 0.0)
    return (side.cpu_ns + side.rest_ns * (m.machine.resources.threads or 1)) / free if free > 0 else 0.0


def workers_save(m: Measurements, side: InputSide, workers: int) -> bool:
    """Whether so many workers are expected to save a part of the step that counts, beside all that uses the cores."""
    after = max(side.rest_ns, concurrent_ns(side, workers), core_bound_ns(m, side, ATTAINED))
    return after <= (1 - SAVES_AT_LEAST) * float(m.step_ns.mean())


def crowded(m: Measurements, side: InputSide, *, freed: float = 0.0, by_others: bool = True) -> str | None:
    """What the gain would have to assume where workers find no cores; None where they find enough.

    `freed`: cores that are used now, and no longer where workers make the batches. Other processes' use of the cores counts `by_others`:
    it keeps workers from gaining, and is not the training's doing.
    """
    threads, used, making = m.machine.resources.threads or 1, m.machine.resources.tree_cores, float(side.removable_ns.mean())
    if threads == 1 or used is None:
        return None
    # What a worker is blocked needs no core.
    wanted = making / max(side.rest_ns, making) * min(side.cpu_ns / max(side.wall_ns, 1.0), 1.0)
    foreign = (m.machine.load.foreign_cores or 0.0) if by_others else 0.0
    if side.cores - (used - freed) - foreign >= ENOUGH_LEFT * wanted:
        return None
    others = f", and other processes {foreign:.1f}" if m.machine.load.busy and by_others else ""
    return f"workers found free cores (the training's {threads} threads already use {used - freed:.1f} of {side.cores:g}{others})"
