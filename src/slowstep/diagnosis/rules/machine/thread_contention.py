"""The training computes on more threads than it has cores.

What it sees:
    One of three: a CPU quota is used up in a quarter of its periods; the training process may use fewer cores than when it began (a
    library bound it) and fills them; or threads for one operation times training processes are more than the cores it may use. For the
    last two, the training thread also stands in a queue for a core in 5 % of the window or more. While others keep the machine busy,
    the second is not judged, and the third is advice that decides no verdict.
Why it costs:
    Threads that compute one operation wait for the last of them, and it waits for a core. Under a quota all stand still once it is used up.
How the gain is predicted:
    Not at all: the time in the queue is measured, but threads that spin while they wait, and the work that fewer threads do more slowly,
    are not. In measurements two threads on two busy cores made a step ten times as long, of which the queue was only a part.
When it is wrong:
    A quota that is used up for good reason (all cores' worth computes) is no fault of the threads: a larger one is then the fix.
    Bound threads that compute on cores of their own are counted together, so binding as such is not blamed.
What to try:
    As many threads as cores, as the framework takes it that computes: OMP_NUM_THREADS=N says nothing to pools of its own. Threads of the
    input pipeline, or for launching, separate from the others. os.sched_setaffinity(0, ...) after the import that binds.
"""

from __future__ import annotations

from dataclasses import dataclass

from slowstep.analyses.measurements import Measurements
from slowstep.diagnosis.advice import advice
from slowstep.diagnosis.evidence.input.core_demand import core_waits
from slowstep.diagnosis.gain import share_interval, unknown_gain
from slowstep.diagnosis.lever_specs import threads as threads_lever
from slowstep.diagnosis.rule import CLAIM, Answer, Judged, Rule
from slowstep.findings import Evidence, Finding, Fix
from slowstep.frameworks._remedies import Remedy
from slowstep.parts import PartKind
from slowstep.stages import STAGES
from slowstep.units import format_share

NAME = "thread-contention"
# The alert CPUThrottlingHigh of kubernetes-mixin.
THROTTLED_SHARE = 0.25
QUEUED_SHARE = 0.05
# A process that uses this much of the cores that are left to it is held back by them.
FILLED_SHARE = 0.80


@dataclass(frozen=True, kw_only=True, slots=True)
class _Cause:
    title: str
    evidence: tuple[Evidence, ...]
    fixes: tuple[Fix, ...]
    others_compute: bool = False  # how much of the queue is theirs is not known


def judge(m: Measurements) -> Answer:
    """Whether threads of the training compete for the cores that it may use, and why."""
    share, low, high = share_interval(m, m.machine.delay_ns)
    cause = _quota(m) or _bound(m, share) or _too_many(m, share)
    if cause is None:
        return None
    evidence = (
        *cause.evidence,
        Evidence(name="training thread waits for a core", value=share, unit="share of window", threshold=QUEUED_SHARE),
        Evidence(name="threads that wait for a core", value=m.machine.resources.queueing, unit="threads on average"),
        Evidence(name="cores used by the training", value=m.machine.resources.tree_cores, unit="cores"),
    )
    assumes = "no thread waited for a core (the cost of spinning, and of fewer threads, is not known)"
    if low < CLAIM or cause.others_compute:
        return advice(NAME, "compute", cause.title, evidence, assumes, cause.fixes, share=share)
    stages = [stage for stage in STAGES if m.ledger.of(stage, PartKind.CORE_WAIT).any()]
    finding = Finding(
        rule=NAME,
        stage=max(stages, key=lambda stage: m.ledger.share(stage, PartKind.CORE_WAIT)),
        title=cause.title,
        share=share,
        share_low=low,
        share_high=high,
        claims=core_waits(m),
        evidence=evidence,
        gain=unknown_gain(assumes),
        fixes=cause.fixes,
    )
    return Judged(finding=finding, counterfactual=None)


def _quota(m: Measurements) -> _Cause | None:
    quota, throttling = m.machine.resources.quota_cores, m.machine.resources.throttling
    if quota is None or throttling is None or throttling.share < THROTTLED_SHARE:
        return None
    threads = _pool(m)
    more = threads is not None and threads * m.machine.resources.ranks > quota
    fewer = max(int(quota // m.machine.resources.ranks), 1)
    return _Cause(
        title=f"the CPU quota of {quota:g} cores is used up in {format_share(throttling.share)} of its periods, and then every "
        "thread is stopped",
        evidence=(
            Evidence(name="periods in which the quota was used up", value=throttling.share, unit="share", threshold=THROTTLED_SHARE),
            Evidence(name="cores held back", value=throttling.cores, unit="cores on average"),
            Evidence(name="quota", value=quota, unit="cores"),
            Evidence(name="threads for one operation", value=threads, unit="threads", threshold=quota),
        ),
        fixes=_fewer(m, fewer) if more else (Fix(text="a larger CPU quota, or less other work under it"),),
    )


def _bound(m: Measurements, queued: float) -> _Cause | None:
    before, now, used = m.machine.resources.cores_at_start, m.machine.resources.cores_now, m.machine.resources.tree_cores
    if before is None or now is None or now >= before or m.machine.load.busy:
        return None
    # What it uses may be more than those cores: then its other threads are not bound, or other processes compute.
    if queued < QUEUED_SHARE or used is None or used < FILLED_SHARE * now:
        return None
    return _Cause(
        title=f"the training process may use only {now} of the {before} cores that it began with: the script or an import bound it",
        evidence=(
            Evidence(name="cores that it may use now", value=now, unit="cores", threshold=before),
            Evidence(name="cores at its start", value=before, unit="cores"),
            Evidence(name="the fewest of a loader's worker", value=m.machine.resources.worker_cores, unit="cores"),
        ),
        fixes=(
            Fix(
                text="os.sched_setaffinity(0, range(os.cpu_count())) after the imports; unset GOMP_CPU_AFFINITY, KMP_AFFINITY and "
                "OMP_PROC_BIND"
            ),
        ),
    )


def _too_many(m: Measurements, queued: float) -> _Cause | None:
    threads, ranks = _pool(m), m.machine.resources.ranks
    cores = m.machine.resources.cores_now if m.machine.resources.cores_now is not None else m.machine.cores
    quota = m.machine.resources.quota_cores
    cores = cores if cores is None or quota is None else min(cores, quota)
    if threads is None or cores is None or threads * ranks <= cores or m.machine.load.foreign_share is None:
        return None
    if queued < QUEUED_SHARE:
        return None
    fewer = max(int(cores // ranks), 1)
    of = f"{ranks} training processes with {threads} threads each" if ranks > 1 else f"{threads} threads for one operation"
    return _Cause(
        title=f"{of} share {cores:g} cores" + (", while other processes run as well" if m.machine.load.busy else ""),
        evidence=(
            Evidence(name="threads for one operation", value=threads, unit="threads", threshold=cores / ranks),
            Evidence(name="training processes", value=ranks, unit="processes"),
            Evidence(name="cores allowed", value=cores, unit="cores"),
        ),
        fixes=_fewer(m, fewer),
        others_compute=m.machine.load.busy,
    )


def _pool(m: Measurements) -> int | None:
    """Threads for one operation. Of a framework that says nothing of them its pool has one for each core that the process may use."""
    known, words = m.machine.resources.threads, m.training.words
    return known if known is not None or not words.has(Remedy.FEWER_THREADS) else m.machine.resources.cores_now


def _fewer(m: Measurements, threads: int) -> tuple[Fix, ...]:
    """As many threads as cores, where the framework computes in others too: those, and none of what it lacks."""
    words = m.training.words
    others = [] if m.compute.device == "cpu" else [Remedy.LAUNCHING_THREADS]
    others += [] if m.input.pipeline is None or m.input.pipeline.reads is not None else [Remedy.INPUT_THREADS]
    fixes = [Fix(text=words.advise(each, threads=threads)) for each in others if words.has(each)]
    return (Fix(text=words.advise(Remedy.FEWER_THREADS, threads=threads), lever=threads_lever(threads)), *fixes)


RULE = Rule(name=NAME, stages=("compute",), topics=("compute", "input", "ledger", "machine", "steps", "training"), judge=judge)
