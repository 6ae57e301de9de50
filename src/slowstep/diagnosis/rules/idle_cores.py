"""Cores stand idle while the model computes on a few threads.

What it sees:
    Compute on the processor is at least half of the window, at least half of the cores allowed (and one) stand idle but for a tenth,
    PyTorch was given no more threads than half of the cores, and its operations are long enough to be divided: 0.1 ms each or more.
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

from slowstep.analyses.measurements import Measurements
from slowstep.diagnosis.advice import advice
from slowstep.diagnosis.evidence.trainer_side import blocked_inside
from slowstep.diagnosis.lever_specs import threads as threads_lever
from slowstep.diagnosis.rule import Answer, Rule
from slowstep.findings import Evidence, Fix
from slowstep.frameworks._remedies import Remedy
from slowstep.parts import PartKind
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


def judge(m: Measurements) -> Answer:
    """Whether more threads are worth a try. Where anything that this needs is unknown there is nothing to advise."""
    threads, nodes = m.machine.resources.threads, m.trainer.facts.graph_nodes
    if blocked_inside(m) is not None:
        # Cores are idle because the training is blocked: more threads would be, too.
        return None
    if m.compute.device != "cpu" or m.machine.cores is None or m.machine.resources.tree_cores is None or not threads or not nodes:
        return None
    cores = m.machine.cores if m.machine.resources.quota_cores is None else min(m.machine.cores, m.machine.resources.quota_cores)
    compute = float((m.ledger.of("compute") - m.ledger.of("compute", PartKind.CORE_WAIT)).sum() / m.step_ns.sum())
    idle = _idle(m, cores, compute)
    per_operation = compute * float(m.step_ns.mean()) / nodes
    given, enough = threads * m.machine.resources.ranks, NEARLY * max(IDLE_SHARE * cores, IDLE_CORES)
    if compute < COMPUTE_SHARE or idle < enough or given > cores / 2 or per_operation < OPERATION_NS:
        return None
    proposed = min(2 * threads, int(cores // m.machine.resources.ranks))
    evidence = (
        Evidence(name="cores idle", value=idle, unit="cores", threshold=enough, where=f"of {cores:g} allowed"),
        Evidence(name="cores used by the training", value=m.machine.resources.tree_cores, unit="cores"),
        Evidence(name="threads for one operation", value=threads, unit="threads", threshold=cores / 2),
        Evidence(name="training processes", value=m.machine.resources.ranks, unit="processes"),
        Evidence(name="compute", value=compute, unit="share of window", threshold=COMPUTE_SHARE),
        Evidence(name="compute per operation", value=per_operation / 1e6, unit="ms", threshold=OPERATION_NS / 1e6),
    )
    title = f"{idle:.1f} of {cores:g} cores stand idle while the model computes on {format_count(threads, 'thread')}"
    by_framework = m.training.words.advise(Remedy.THREADS, threads=proposed)
    text = f"try OMP_NUM_THREADS={proposed} (or {by_framework}) and compare: small operations do not gain"
    fixes = (Fix(text=text, lever=threads_lever(proposed)),)
    return advice(NAME, "compute", title, evidence, "operations used more threads", fixes, share=compute)


def _idle(m: Measurements, cores: float, compute: float) -> float:
    """Of the cores allowed: not used by the training while it computes, and not more than the whole machine has idle.

    All that it uses is taken for the model's: else a loop that waits in half of its time would seem to compute on half as many cores.
    """
    free = cores - (m.machine.resources.tree_cores or 0.0) / max(compute, COMPUTE_SHARE)
    if m.machine.resources.idle_cores is not None:
        return min(free, m.machine.resources.idle_cores)
    return free - (m.machine.load.foreign_cores or 0.0)


RULE = Rule(
    name=NAME,
    stages=("compute",),
    topics=("compute", "ledger", "machine", "sharing", "steps", "trainer", "training"),
    judge=judge,
    advisory=True,
)
