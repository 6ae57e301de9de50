"""Another Python thread holds the GIL that the training thread needs.

What it sees:
    Python threads of the training process, other than the one that trains, use at least a tenth of a core; and in the bodies of the steps
    (forward, backward, optimizer) the training thread neither computes nor waits for a core for at least 3 % of the window: it is blocked.
Why it costs:
    Only one thread of a process runs Python at a time. A thread that asks for the lock gets it after 5 ms (sys.getswitchinterval()), or
    when the other calls something that lets go of it; a training thread asks again after every operator.
How the gain is predicted:
    It is not: how much of that is the GIL, and how much operators that wait for their own threads while the other thread
    takes a core from them, cannot be told. The evidence has the most that it can be: T / (T - r), with r what bodies were blocked, and
    never more than what the threads computed meanwhile.
When it is wrong:
    Decoders, numpy and PyTorch let go of the lock while they compute: then such a thread costs a core and not the lock. A lock of the
    script's own that both take looks the same. Threads that live less than a second are not seen. With several ranks, or an accelerator,
    bodies are blocked for those: it is not judged there.
What to try:
    Making input: a DataLoader with workers, which are processes. Anything else: multiprocessing, or less of it.
"""

from __future__ import annotations

from slowstep.analyses.measurements import Measurements
from slowstep.analyses.python.concurrent_threads import COMPUTING_FROM, ConcurrentThread, ConcurrentThreads
from slowstep.analyses.python.functions import shown
from slowstep.analyses.steps.steps import Floats
from slowstep.diagnosis.gain import share_interval, unknown_gain
from slowstep.diagnosis.lever_specs import stub
from slowstep.diagnosis.rule import CLAIM, Answer, Judged, Rule
from slowstep.findings import Evidence, Finding, Fix, NotJudged
from slowstep.frameworks._remedies import Remedy
from slowstep.parts import Part, PartKind
from slowstep.reasons import Wording
from slowstep.units import format_share

NAME = "gil-contention"
HELD_UP = Part("compute", PartKind.HELD_UP)
UNKNOWN = "what the other threads compute ran in other processes"
# Threads that are listed, the busiest first.
LISTED = 3

THREADS_NOT_RECORDED = Wording("threads-not-recorded", "the CPU time of other Python threads was not recorded")
WAITS_FOR_EITHER = Wording("waits-for-either", "whether steps wait for {others} or for other Python threads is not known")


def judge(m: Measurements) -> Answer:
    """Whether such threads may hold up the training."""
    beside = m.python.concurrent_threads
    if not beside.looked_at:
        return NotJudged(rule=NAME, reason=THREADS_NOT_RECORDED(), advisory=True)
    if not beside.cores:
        return None
    if m.compute.device != "cpu" or m.sharing.ranks > 1:
        others = "an accelerator" if m.compute.device != "cpu" else "other ranks"
        return NotJudged(rule=NAME, reason=WAITS_FOR_EITHER(others=others), advisory=True)
    held = m.ledger.of_parts(HELD_UP)
    share, low, high = share_interval(m, held)
    if share < CLAIM:
        return None
    by_workers = m.training.words.write({Remedy.WORKERS: ...}) or "workers of its loader"
    busiest, step_ns = beside.threads[0], float(m.step_ns.mean())
    finding = Finding(
        rule=NAME,
        stage="compute",
        title=f"{_work(m, busiest)} uses {busiest.cores:.2g} cores{_others(beside.threads)}; steps are blocked for "
        f"{format_share(share)} of the time",
        share=share,
        share_low=low,
        share_high=high,
        claims=(HELD_UP,),
        evidence=_evidence(beside, held, step_ns, share),
        gain=unknown_gain(UNKNOWN),
        fixes=(
            Fix(text=f"if {_name(busiest)} makes input: {by_workers}, which are processes"),
            Fix(text="else run it in a process of its own (multiprocessing), or less often", lever=_lever(m, busiest)),
        ),
    )
    return Judged(finding=finding, counterfactual=None)


def _evidence(beside: ConcurrentThreads, held: Floats, step_ns: float, share: float) -> tuple[Evidence, ...]:
    return (
        Evidence(name="other Python threads", value=beside.cores, unit="cores", threshold=COMPUTING_FROM),
        *(Evidence(name=f"thread {each.name}", value=each.cores, unit="cores") for each in beside.threads[:LISTED]),
        Evidence(name="steps blocked by them", value=share, unit="share of window", threshold=CLAIM),
        Evidence(name="blocked per step", value=float(held.mean()) / 1e6, unit="ms"),
        Evidence(name="gain at most", value=step_ns / max(step_ns - float(held.mean()), 1.0), unit="x"),
    )


def _name(thread: ConcurrentThread) -> str:
    return thread.name if thread.function is None else thread.function.function


def _work(m: Measurements, thread: ConcurrentThread) -> str:
    if thread.function is None:
        return f"the Python thread {thread.name}"
    where = f"{shown(thread.function.file, m.trainer.facts.script)}:{thread.function.first_line}"
    return f"{thread.function.function} ({where}), in a Python thread,"


def _others(threads: tuple[ConcurrentThread, ...]) -> str:
    """What the threads but the first one use."""
    if len(threads) == 1:
        return ""
    return f", {len(threads) - 1} other thread{'s' * (len(threads) > 2)} {sum(thread.cores for thread in threads[1:]):.2g}"


def _lever(m: Measurements, thread: ConcurrentThread) -> str | None:
    return None if thread.function is None else stub(m, thread.function.function, thread.function.file)


RULE = Rule(name=NAME, stages=("compute",), topics=("compute", "ledger", "python", "sharing", "steps", "trainer", "training"), judge=judge)
