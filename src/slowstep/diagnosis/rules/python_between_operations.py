"""A Python loop of the user's inside the step computes what one operation could.

What it sees:
    Calls in the step's body are timed in a few steps, and lines are counted in one or two: a line of the user's own code runs at least 100
    times in a step, 20 us or less each time, and its function holds at least 3 % of the window.
Why it costs:
    Each line of Python takes 0.05 to 0.3 us and each small operation some 3 to 20 us to dispatch, whatever it computes; one operation
    on the whole tensor pays for that once.
How the gain is predicted:
    r is 95 % of the function's time (vectorised code is rarely better than ten times as fast on a first try; 80 % at worse, all of it at
    better). The backward of operations in the loop is not counted. B is what the loader's workers need per step.
When it is wrong:
    Timing calls slows Python code on Python 3.11, one loop more than another: what it added to the timed steps is measured against the
    others, at the pace of their backward, and is taken to be the loop's. A loop whose iterations depend on each other cannot be vectorised,
    only compiled. Loops that have no DataLoader are not looked at.
What to try:
    Whole-tensor operations (masks, shifts, scatter, einsum), torch.vmap or torch.compile, or do it in the loader's workers.
"""

from __future__ import annotations

from dataclasses import replace

from slowstep.analyses.functions import shown
from slowstep.analyses.hot_loop import LONGEST_NS, OFTEN, HotLoop
from slowstep.analyses.ledger import FORWARD
from slowstep.analyses.measurements import Measurements
from slowstep.analyses.steps import Floats
from slowstep.diagnosis.gain import Case, Counterfactual, predict, share_interval
from slowstep.diagnosis.lever_specs import stub
from slowstep.diagnosis.rule import CLAIM, Answer, Judged, Rule
from slowstep.diagnosis.trainer_side import WORSE_BESIDE, delay_share, producers_beside_ns, with_core_delay
from slowstep.findings import Evidence, Finding, Fix

NAME = "python-between-operations"
# What is left after the fix: the same assumption as slow-transform's.
LEFT, LEFT_AT_WORSE = 0.05, 0.20


def judge(m: Measurements) -> Answer:
    """Whether a Python loop holds the step."""
    loop = m.work.loop
    if loop is None:
        return None
    body = with_core_delay(m, ("compute", FORWARD))
    share, low, high = share_interval(m, body)
    if share * loop.share < CLAIM:
        return None
    removed = body * loop.share * (1 - LEFT)
    counterfactual = _counterfactual(m, loop, low_ns=body * loop.low * (1 - LEFT_AT_WORSE), removed_ns=removed, high_ns=body * loop.high)
    lever = stub(m, loop.name, loop.file)
    where = f"{shown(loop.file, m.trainer.facts.script)}:{loop.line}"
    finding = Finding(
        rule=NAME,
        stage="compute",
        title=f"{loop.name} runs line {where} at least {loop.runs} times a step in Python and takes {share * loop.share:.0%} of the time",
        share=share * loop.share,
        share_low=low * loop.low,
        share_high=min(high * loop.high, 1.0),
        claims=(FORWARD,),
        evidence=(
            Evidence(name="function", value=loop.name, unit="", where=where),
            Evidence(name="its time", value=share * loop.share, unit="share of window", threshold=CLAIM),
            Evidence(name="runs of that line", value=loop.runs, unit="per step, at least", threshold=OFTEN),
            Evidence(name="each time", value=loop.line_ns / 1e3, unit="us", threshold=LONGEST_NS / 1e3),
            Evidence(name="timed in", value=loop.bodies, unit="steps"),
            Evidence(name="removed per step", value=float(removed.mean()) / 1e6, unit="ms"),
        ),
        gain=predict(m, counterfactual),
        fixes=(
            Fix(text=f"write the loop in {loop.name} as operations on whole tensors (masks, shifts, scatter, einsum)", lever=lever),
            Fix(text=f"do {loop.name} in the loader's workers, or let torch.compile or Numba compile it", lever=lever),
        ),
        names_cause=True,
    )
    return Judged(finding=finding, counterfactual=counterfactual)


def _counterfactual(m: Measurements, loop: HotLoop, *, low_ns: Floats, removed_ns: Floats, high_ns: Floats) -> Counterfactual:
    beside = producers_beside_ns(m, spared_cpu_ns=float(removed_ns.mean()))
    expected = Case(removed_ns=removed_ns, beside_ns=beside, delay_share=delay_share(m, ("compute", FORWARD)))
    return Counterfactual(
        assumes=f"{loop.name} takes a twentieth of its time",
        expected=expected,
        worse=replace(expected, removed_ns=low_ns, beside_ns=WORSE_BESIDE * beside),
        better=replace(expected, removed_ns=high_ns),
    )


RULE = Rule(name=NAME, stages=("compute",), judge=judge)
