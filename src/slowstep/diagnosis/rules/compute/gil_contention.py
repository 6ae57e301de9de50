"""Another Python thread holds the GIL that the training thread needs.

What it sees:
    Python threads of the training process, other than the one that trains, use at least a tenth of a core; in the bodies of the steps
    (forward, backward, optimizer) the training thread neither computes nor waits for a core for at least 3 % of the window more than is
    usual where operations have several threads; and the recorder's own thread is not seen to get the GIL at once. Of threads that make the
    training's input slow-prefetch-thread tells.
Why it costs:
    Only one thread of a process runs Python at a time. A thread that asks for the lock gets it after 5 ms (sys.getswitchinterval()), or
    when the other calls something that lets go of it; a training thread asks again after every operator.
How the gain is predicted:
    r is what bodies are blocked beyond what is usual (23 % of the training thread's own work where operations have several threads, 50 % at
    worst, 8 % at best), and of the training thread's waits for a core the share that the threads have in all that runs at the same time
    (half of that at worst). B: a process computes for each step what the thread does now, and the cores do the work of both; where the
    thread never waits for another, it sets its own pace, and the process only takes a core. Where that gains less than a tenth, the gain
    is that of a thread that takes a twentieth of its time, and the process is the worst case. At best the work costs nothing, and the
    training is an eighth faster without it. At worst nothing is gained where it is not seen whether steps wait for the GIL.
When it is wrong:
    A lock of the script's own that both take looks the same, and so does a sleep in the forward while the thread computes. Threads that
    live less than a second are not seen. With several ranks, or an accelerator, bodies are blocked for those: it is not judged there.
What to try:
    A process of its own: multiprocessing, or less of it. Whole arrays at a time instead of loops: NumPy and PyTorch let go of the lock
    while they compute.
"""

from __future__ import annotations

from dataclasses import dataclass

from slowstep.analyses.measurements import Measurements
from slowstep.analyses.python.concurrent_threads import COMPUTING_FROM, ConcurrentThread
from slowstep.analyses.python.functions import shown
from slowstep.diagnosis.evidence.held_up import (
    HeldUp,
    all_on_cores_ns,
    at_best,
    at_worst,
    by_less_work,
    find_held_up,
    is_gil_held,
    is_worth_a_process,
    lost_to_threads,
    makers_hold_up,
    only_threads_block,
    with_process_ns,
)
from slowstep.diagnosis.gain import Case, Counterfactual, predict, saved_by, share_interval, share_queued
from slowstep.diagnosis.lever_specs import stub
from slowstep.diagnosis.rule import Answer, Judged, Rule
from slowstep.findings import Evidence, Finding, Fix, NotJudged
from slowstep.frameworks._remedies import Remedy
from slowstep.reasons import Wording
from slowstep.units import format_share

NAME = "gil-contention"
# Threads that are listed, the busiest first.
LISTED = 3
# A thread that waits for others for less of its time computes whether steps end or not.
WAITS_SHARE = 0.1

THREADS_NOT_RECORDED = Wording("threads-not-recorded", "the CPU time of other Python threads was not recorded")
WAITS_FOR_EITHER = Wording("waits-for-either", "whether steps wait for {others} or for other Python threads is not known")


def judge(m: Measurements) -> Answer:
    """Whether such threads hold up the training, and what it gains without them."""
    concurrent = m.python.concurrent_threads
    if not concurrent.looked_at:
        return NotJudged(rule=NAME, reason=THREADS_NOT_RECORDED(), advisory=True)
    if not concurrent.cores:
        return None
    if not only_threads_block(m):
        others = "an accelerator" if m.compute.device != "cpu" else "other ranks"
        return NotJudged(rule=NAME, reason=WAITS_FOR_EITHER(others=others), advisory=True)
    threads = concurrent.threads if makers_hold_up(m) is None else ()
    held = find_held_up(m, sum(thread.cores for thread in threads)) if threads else None
    return None if held is None else _judged(m, threads, held)


def _judged(m: Measurements, threads: tuple[ConcurrentThread, ...], held: HeldUp) -> Judged:
    busiest = threads[0]
    predicted = _predicted(m, busiest, held)
    counterfactual = predicted.counterfactual
    share, low, high = share_interval(m, held.lost_ns)
    lose = "lose" if is_gil_held(m) else "may lose"
    finding = Finding(
        rule=NAME,
        stage="compute",
        title=f"{_work(m, busiest)} uses {busiest.cores:.2g} cores{_others(threads)}; steps {lose} {format_share(share)} of the time to it",
        opens_with_name=busiest.function is not None,
        share=share,
        share_low=low,
        share_high=high,
        claims=held.claims,
        evidence=(
            Evidence(name="other Python threads", value=sum(each.cores for each in threads), unit="cores", threshold=COMPUTING_FROM),
            *(Evidence(name=f"thread {each.name}", value=each.cores, unit="cores") for each in threads[:LISTED]),
            *lost_to_threads(m, held),
            saved_by(m, counterfactual),
        ),
        gain=predict(m, counterfactual),
        fixes=_fixes(m, busiest, process_first=predicted.of_process),
    )
    return Judged(finding=finding, counterfactual=counterfactual)


@dataclass(frozen=True, slots=True)
class _Predicted:
    """What is predicted, and whether of a process or of less work."""

    counterfactual: Counterfactual
    of_process: bool


def _predicted(m: Measurements, thread: ConcurrentThread, held: HeldUp) -> _Predicted:
    if thread.waits is not None and thread.waits < WAITS_SHARE:
        concurrent_ns, pace = with_process_ns(m, held), "ran in a process of its own, which always computes"
    else:
        concurrent_ns = max(held.cpu_ns, all_on_cores_ns(m, held))
        pace = "ran in a process of its own, which computes as much for each step as the thread does now"
    process = Case(removed_ns=held.lost_ns, concurrent_ns=concurrent_ns, delay_share=share_queued(held.queued_ns, held.lost_ns))
    pessimistic, optimistic = at_worst(held, concurrent_ns), at_best(m, held)
    if is_worth_a_process(m, process):
        assumes = f"what {_name(thread)} does {pace}; at best it costs nothing"
        return _Predicted(Counterfactual(assumes=assumes, expected=process, pessimistic=pessimistic, optimistic=optimistic), True)
    assumes = f"what {_name(thread)} does took a twentieth of its time; at worst it {pace}"
    return _Predicted(Counterfactual(assumes=assumes, expected=by_less_work(held), pessimistic=pessimistic, optimistic=optimistic), False)


def _fixes(m: Measurements, thread: ConcurrentThread, *, process_first: bool) -> tuple[Fix, ...]:
    by_workers = m.training.words.write({Remedy.WORKERS: ...}) or "workers of its loader"
    process = Fix(text=f"run {_name(thread)} in a process of its own (multiprocessing; where it makes input: {by_workers})")
    arrays = Fix(text=f"write {_name(thread)} for whole arrays, as by NumPy, which lets go of the GIL while it computes")
    first = (process, arrays) if process_first else (arrays, process)
    return (*first, Fix(text=f"run {_name(thread)} less often", lever=_lever(m, thread)))


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


RULE = Rule(
    name=NAME,
    stages=("compute",),
    topics=("compute", "input", "ledger", "machine", "python", "sharing", "steps", "trainer", "training"),
    judge=judge,
)
