"""Cores stand idle while the model computes on a few threads.

What it sees:
    Compute on the processor is at least half of the window, at least half of the cores allowed (and one) stand idle but for a tenth,
    PyTorch was given no more threads than half of the cores, and its operations are long enough to be divided: 0.1 ms each or more.
    That leaves the verdict open. It is advice where not every physical core was known to have a thread left: hardware threads of one
    core share what computes, and a framework that starts one thread for each physical core leaves half of them idle for good reason.
    Where others keep the cores busy that this training leaves, it cannot tell.
Why it costs:
    One operation is computed by as many threads as PyTorch was given. torchrun gives each process one where OMP_NUM_THREADS is not set.
How the gain is predicted:
    Not at all: how well operations divide is known only by trying, and two threads may well be slower than one.
When it is wrong:
    Operations that are long in sum but made of many short pieces (recurrent layers) do not divide. Somebody may need the idle cores.
    Training processes that wait for each other leave cores idle too.
What to try:
    Twice as many threads first, and compare: OMP_NUM_THREADS=N in the environment, or torch.set_num_threads(N).
"""

from __future__ import annotations

from dataclasses import dataclass

from slowstep.analyses.measurements import Measurements
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
IDLE_SHARE = 0.5
IDLE_CORES = 1.0
# What the machine and the recorder do beside takes a part of an idle core: one thread that computed all the time left 0.96 to 1.00 of two
# cores idle, where two threads were 1.7 to 1.9 times as fast.
NEARLY = 0.9
# PyTorch divides element-wise operations from 32,768 elements on (at::internal::GRAIN_SIZE), which take about 10 us; starting and joining
# threads takes about as long. An operation ten times as long may gain.
OPERATION_NS = 100_000.0


OTHERS_ON_CORES = Wording(
    "others-on-cores",
    "the model computes on {threads} and leaves {left:.1f} of {cores:g} cores to others, who keep them busy: only a quieter machine "
    "tells whether more threads gain",
)


@dataclass(frozen=True, kw_only=True)
class SpareCores:
    """Cores beside the threads that compute. `left`: not used by the training; `idle`: nor by others. `physical` where that is known."""

    cores: float
    physical: int | None
    given: int
    compute: float  # share of the window
    per_operation_ns: float
    left: float
    idle: float

    @property
    def enough(self) -> float:
        return NEARLY * max(IDLE_SHARE * self.cores, IDLE_CORES)

    @property
    def is_wide(self) -> bool:
        """Whether what computes could be divided among more cores, if these are free."""
        by_few = self.given <= self.cores / 2 and (self.physical is None or self.given < self.physical)
        return by_few and self.compute >= COMPUTE_SHARE and self.left >= self.enough and self.per_operation_ns >= OPERATION_NS


def judge(m: Measurements) -> Answer:
    """Whether more threads are worth a try. Where anything that this needs is unknown there is nothing to advise."""
    # Where cores are idle because the training is blocked, more threads would be blocked, too.
    spare = None if blocked_inside(m) is not None else _spare_cores(m)
    if spare is None or not spare.is_wide:
        return None
    if spare.idle < spare.enough:
        threads = format_count(m.machine.resources.threads or 1, "thread")
        reason = OTHERS_ON_CORES(threads=threads, left=spare.left, cores=spare.cores)
        return NotJudged(rule=NAME, reason=reason, advisory=spare.physical is None, lever=threads_lever(_proposed(m, spare)))
    return _judged(m, spare)


def _spare_cores(m: Measurements) -> SpareCores | None:
    """What is known of the cores; None where not all of it is."""
    resources, nodes = m.machine.resources, m.trainer.facts.graph_nodes
    if m.compute.device != "cpu" or m.machine.cores is None or resources.tree_cores is None or not resources.threads or not nodes:
        return None
    cores = m.machine.cores if resources.quota_cores is None else min(m.machine.cores, resources.quota_cores)
    compute = float((m.ledger.of("compute") - m.ledger.of("compute", PartKind.CORE_WAIT)).sum() / m.step_ns.sum())
    # All that it uses is taken for the model's: else a loop that waits in half of its time would seem to compute on half as many cores.
    left = cores - resources.tree_cores / max(compute, COMPUTE_SHARE)
    return SpareCores(
        cores=cores,
        physical=m.trainer.facts.physical_cores,
        given=resources.threads * resources.ranks,
        compute=compute,
        per_operation_ns=compute * float(m.step_ns.mean()) / nodes,
        left=left,
        # Not more than the whole machine has idle.
        idle=left - (m.machine.load.foreign_cores or 0.0) if resources.idle_cores is None else min(left, resources.idle_cores),
    )


def _judged(m: Measurements, spare: SpareCores) -> Judged:
    resources, is_known = m.machine.resources, spare.physical is not None
    evidence = (
        Evidence(name="cores idle", value=spare.idle, unit="cores", threshold=spare.enough, where=f"of {spare.cores:g} allowed"),
        Evidence(name="cores used by the training", value=resources.tree_cores, unit="cores"),
        Evidence(name="threads for one operation", value=resources.threads, unit="threads", threshold=spare.cores / 2),
        Evidence(name="training processes", value=resources.ranks, unit="processes"),
        Evidence(name="compute", value=spare.compute, unit="share of window", threshold=COMPUTE_SHARE),
        Evidence(name="compute per operation", value=spare.per_operation_ns / 1e6, unit="ms", threshold=OPERATION_NS / 1e6),
    )
    threads, proposed = format_count(resources.threads or 1, "thread"), _proposed(m, spare)
    by_framework = m.training.words.advise(Remedy.THREADS, threads=proposed)
    text = f"try OMP_NUM_THREADS={proposed} (or {by_framework}) and compare: small operations do not gain"
    finding = Finding(
        rule=NAME,
        stage="compute",
        title=f"{spare.idle:.1f} of {spare.cores:g} cores stand idle while the model computes on {threads}",
        share=spare.compute,
        share_low=spare.compute if is_known else 0.0,
        share_high=spare.compute,
        claims=(),
        evidence=evidence,
        gain=unknown_gain("operations used more threads"),
        fixes=(Fix(text=text, lever=threads_lever(proposed)),),
        advisory=not is_known,
    )
    return Judged(finding=finding, counterfactual=None)


def _proposed(m: Measurements, spare: SpareCores) -> int:
    """How many threads to try first for one operation, in each training process."""
    cores = spare.cores if spare.physical is None else min(spare.cores, spare.physical)
    return min(2 * (m.machine.resources.threads or 1), int(cores // m.machine.resources.ranks))


RULE = Rule(
    name=NAME,
    stages=("compute",),
    topics=("compute", "ledger", "machine", "sharing", "steps", "trainer", "training"),
    judge=judge,
)
