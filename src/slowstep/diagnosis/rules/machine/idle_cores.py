"""Cores stand idle while the model computes on a few threads.

What it sees:
    Compute on the processor is at least half of the window, at least one of the cores allowed stands idle but for a tenth, the threads that
    one operation has are used, and as many more as there are idle cores would gain 1.2x or more if all that divides were divided among
    them: operations of 0.1 ms each or more on average, else those products of that length that have enough to multiply for what they
    move, where it is known what a pass multiplies (docs/decisions/0047). That leaves the verdict open. Hardware threads of one core share
    what computes: cores are physical ones, and where these are not known it is advice, for a framework that starts one thread for each
    leaves half of the others idle for good reason. Cores that others use are idle where the machine is not a busy one by that; else half of
    the cores must be, and where they are not that is not known, and leaves no verdict open.
Why it costs:
    One operation is computed by as many threads as PyTorch was given. torchrun gives each process one where OMP_NUM_THREADS is not set.
How the gain is predicted:
    Not at all: how well operations divide is known only by trying, and two threads may well be slower than one.
When it is wrong:
    Operations that are long in sum but made of many short pieces (recurrent layers) do not divide. Somebody may need the idle cores. A step
    of small operations with a large one among them that is no product (a sort, an embedding) may gain nevertheless.
    Training processes that wait for each other leave cores idle too.
What to try:
    Twice as many threads first, and compare: OMP_NUM_THREADS=N in the environment, or torch.set_num_threads(N).
"""

from __future__ import annotations

from dataclasses import dataclass

from slowstep.analyses.compute.products import Multiplying, PassProducts
from slowstep.analyses.measurements import Measurements
from slowstep.calibration import side_by_side
from slowstep.diagnosis.evidence.trainer_side import blocked_inside
from slowstep.diagnosis.gain import unknown_gain
from slowstep.diagnosis.lever_specs import threads as threads_lever
from slowstep.diagnosis.rule import Answer, Judged, Rule
from slowstep.findings import Evidence, Finding, Fix, NotJudged
from slowstep.frameworks._remedies import Remedy
from slowstep.parts import PartKind
from slowstep.reasons import Wording
from slowstep.units import format_count

NAME = "idle-cores"
COMPUTE_SHARE = 0.5
# Two threads where there was one gained 1.10 to 1.64 of 2 (docs/decisions/0040): some half of what they would at most. A doubt is what may
# gain a tenth, which at most gains twice that.
AT_MOST = 1.20
# Of the threads that one operation has, computing: where fewer are, its operations do not divide among those either.
USED_SHARE = 0.5
IDLE_SHARE = 0.5
IDLE_CORES = 1.0
# What the machine and the recorder do beside takes a part of an idle core.
NEARLY = side_by_side.IDLE_CORE.value
# PyTorch divides element-wise operations from 32,768 elements on (at::internal::GRAIN_SIZE), which take about 10 us; starting and joining
# threads takes about as long. An operation ten times as long may gain.
OPERATION_NS = 100_000.0
# Products of two elements for each element moved: with fewer (separable convolutions, elementwise products) memory sets the pace, which all
# cores share. A product of matrices of 64 has 21.
PRODUCTS_PER_MOVED = 16
# Backward computes the gradients of inputs and of weights: forward and backward take half as long again.
WITH_FORWARD = 1.5


OTHERS_ON_CORES = Wording(
    "others-on-cores",
    "the model computes on {threads} and leaves {left:.1f} of {cores:g} cores to others, who keep them busy: only a quieter machine "
    "shows whether more threads gain",
)


@dataclass(frozen=True, kw_only=True)
class SpareCores:
    """Cores beside the threads that compute: physical ones, where these are known. `left` are not used by the training, `idle` by nobody.

    Others who use little of the machine, less than makes it a busy one, leave all of them idle.
    """

    cores: float
    are_physical: bool
    threads: int  # for one operation
    ranks: int
    compute: float  # share of the window
    per_operation_ns: float
    divides: float  # share of the window: computing that could be divided among more threads
    used: float  # cores, by the training itself while it computes
    left: float
    idle: float
    others_compute: bool

    @property
    def enough(self) -> float:
        """Where others compute, what is idle on average is not so all the time."""
        return NEARLY * max(IDLE_SHARE * self.cores if self.others_compute else 0.0, IDLE_CORES)

    @property
    def proposed(self) -> int:
        """How many threads to try first for one operation, in each training process."""
        return min(2 * self.threads, self.most)

    @property
    def most(self) -> int:
        """How many threads find a core, in each training process."""
        return min(int(self.cores // self.ranks), self.threads + int(self.left / NEARLY // self.ranks))

    @property
    def at_most(self) -> float:
        """The gain if all that divides were divided among as many threads."""
        return 1 / (1 - self.divides * (1 - self.threads / max(self.most, self.threads)))

    @property
    def is_wide(self) -> bool:
        """Whether what computes could be divided among more cores, if these are free."""
        are_used = self.used >= USED_SHARE * self.threads * self.ranks
        return self.compute >= COMPUTE_SHARE and self.left >= self.enough and are_used and self.at_most >= AT_MOST


def judge(m: Measurements) -> Answer:
    """Whether more threads are worth a try. Where anything that this needs is unknown there is nothing to advise."""
    # Where cores are idle because the training is blocked, more threads would be blocked, too.
    spare = None if blocked_inside(m) is not None else _spare_cores(m)
    if spare is None or not spare.is_wide:
        return None
    if spare.idle < spare.enough:
        # They may be there to stay, as where a machine is divided among jobs: that leaves no verdict open.
        reason = OTHERS_ON_CORES(threads=format_count(spare.threads, "thread"), left=spare.left, cores=spare.cores)
        return NotJudged(rule=NAME, reason=reason, advisory=True, lever=threads_lever(spare.proposed))
    return _judged(m, spare)


def _spare_cores(m: Measurements) -> SpareCores | None:
    """What is known of the cores; None where not all of it is."""
    resources, nodes = m.machine.resources, m.trainer.facts.graph_nodes
    if m.compute.device != "cpu" or m.machine.cores is None or resources.tree_cores is None or not resources.threads or not nodes:
        return None
    cores, physical = m.machine.cores, m.trainer.facts.physical_cores
    cores = min(limit for limit in (cores, resources.quota_cores, physical) if limit is not None)
    compute = float((m.ledger.of("compute") - m.ledger.of("compute", PartKind.CORE_WAIT)).sum() / m.step_ns.sum())
    # All that it uses is taken for the model's: else a loop that waits in half of its time would seem to compute on half as many cores.
    used = resources.tree_cores / max(compute, COMPUTE_SHARE)
    left, each_ns = cores - used, compute * float(m.step_ns.mean()) / nodes
    return SpareCores(
        cores=cores,
        are_physical=physical is not None,
        threads=resources.threads,
        ranks=resources.ranks,
        compute=compute,
        per_operation_ns=each_ns,
        divides=compute if each_ns >= OPERATION_NS else compute * _large_share(m, compute),
        used=used - _by_workers(m) / max(compute, COMPUTE_SHARE),
        left=left,
        idle=left if physical is not None and not m.machine.load.busy else _idle(m, left),
        others_compute=m.machine.load.busy,
    )


def _by_workers(m: Measurements) -> float:
    """Cores that the loader's workers use."""
    return (m.input.demand.cpu_ns or 0.0) / float(m.step_ns.mean()) if m.input.demand.workers else 0.0


def _large_share(m: Measurements, compute: float) -> float:
    """Of computing, what large products take, where small operations make the average short; 0 where it is not known what multiplies."""
    products = m.compute.products
    if not isinstance(products, PassProducts):
        return 0.0
    large_ns = sum(each.count * (each.longest_ns or 0.0) for each in products.operations if _is_large(each))
    return min(WITH_FORWARD * large_ns / (compute * float(m.step_ns.mean())), 1.0) if compute > 0 else 0.0


def _is_large(operation: Multiplying) -> bool:
    if operation.longest_ns is None or operation.longest_ns < OPERATION_NS or operation.backward is None or not operation.moved_back:
        return False
    return operation.backward >= PRODUCTS_PER_MOVED * operation.moved_back


def _idle(m: Measurements, left: float) -> float:
    """Not more than the whole machine has idle."""
    idle = m.machine.resources.idle_cores
    return left - (m.machine.load.foreign_cores or 0.0) if idle is None else min(left, idle)


def _judged(m: Measurements, spare: SpareCores) -> Judged:
    resources = m.machine.resources
    evidence = (
        Evidence(name="cores idle", value=spare.idle, unit="cores", threshold=spare.enough, where=f"of {spare.cores:g} allowed"),
        Evidence(name="cores used by the training", value=resources.tree_cores, unit="cores"),
        Evidence(name="threads for one operation", value=resources.threads, unit="threads", threshold=spare.cores / spare.ranks),
        Evidence(name="training processes", value=resources.ranks, unit="processes"),
        Evidence(name="compute", value=spare.compute, unit="share of window", threshold=COMPUTE_SHARE),
        Evidence(name="compute per operation", value=spare.per_operation_ns / 1e6, unit="ms", threshold=OPERATION_NS / 1e6),
        Evidence(name="computing that divides among threads", value=spare.divides, unit="share of window"),
        Evidence(name="gain if that is divided among all cores", value=round(spare.at_most, 2), unit="x as fast", threshold=AT_MOST),
    )
    by_framework = m.training.words.advise(Remedy.THREADS, threads=spare.proposed)
    text = f"try OMP_NUM_THREADS={spare.proposed} (or {by_framework}) and compare: small operations do not gain"
    finding = Finding(
        rule=NAME,
        stage="compute",
        title=f"{spare.idle:.1f} of {spare.cores:g} cores stand idle while the model computes on {format_count(spare.threads, 'thread')}",
        share=spare.divides,
        share_low=spare.divides if spare.are_physical else 0.0,
        share_high=spare.divides,
        claims=(),
        evidence=evidence,
        gain=unknown_gain("operations used more threads"),
        fixes=(Fix(text=text, lever=threads_lever(spare.proposed)),),
        advisory=not spare.are_physical,
    )
    return Judged(finding=finding, counterfactual=None)


RULE = Rule(
    name=NAME,
    stages=("compute",),
    topics=("compute", "input", "ledger", "machine", "sharing", "steps", "trainer", "training"),
    judge=judge,
)
