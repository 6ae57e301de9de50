"""Log lines, prints, progress bars or event files after every step keep the next step waiting.

What it sees:
    Of a function of the user's that runs after every update, at least half of the time is spent in logging, print, csv, TensorBoard,
    tqdm or a tracker's client, and it holds at least 3 % of the window. Calls in these gaps are timed in a few steps; a write holds no
    stack long enough to be seen otherwise.
Why it costs:
    A log line is formatted in Python and flushed to a file or terminal, 10 to 50 us each, while the training waits.
How the gain is predicted:
    r is 49 fiftieths of that function's time: it is called once in 50 steps. B is what the loader's workers need per step.
When it is wrong:
    Timing makes Python code two to three times as slow; that is measured and taken out, but by estimate. A terminal or a remote disk
    that is slow only now and then is seen only if it was slow in a timed step.
What to try:
    Log every k steps, raise the level, or write in another thread.
"""

from __future__ import annotations

import numpy as np

from slowstep.analyses.measurements import Measurements
from slowstep.analyses.steps import Floats
from slowstep.diagnosis.after_update import MOSTLY, Told, is_logger, told
from slowstep.diagnosis.gain import Case, Counterfactual, predict, share_interval
from slowstep.diagnosis.rule import Answer, Judged, Rule
from slowstep.diagnosis.trainer_side import WORSE_BESIDE, producers_beside_ns, with_core_delay
from slowstep.findings import Evidence, Finding, Fix

NAME = "chatty-logging"
# The least that a finding may claim (design).
CLAIM = 0.03
# The fix that is advised: once in so many steps.
EVERY = 50
# A share from calls timed in a few gaps, either way: see slow-callback.
SPREAD = 0.15


def judge(m: Measurements) -> Answer:
    """Whether log lines after every step hold the training thread."""
    found = [entry for entry in told(m) if is_logger(entry.function)]
    if not found:
        return None
    worst = max(found, key=lambda entry: sum(float(m.ledger.of(*part).sum()) for part in entry.parts))
    removed = np.sum([with_core_delay(m, part) for part in worst.parts], axis=0) * (1 - 1 / EVERY)
    share, low, high = share_interval(m, removed)
    if share < CLAIM:
        return None
    return _judged(m, worst, removed, (share, low * (1 - SPREAD), min(high * (1 + SPREAD), 1.0)))


def _judged(m: Measurements, entry: Told, removed: Floats, share: tuple[float, float, float]) -> Judged:
    function = entry.function
    counterfactual = _counterfactual(m, entry, removed)
    stage = max(entry.parts, key=lambda part: float(m.ledger.of(*part).sum()))[0]
    evidence = (
        Evidence(name="function", value=function.name, unit="", where=entry.where),
        Evidence(name="after the update", value=share[0], unit="share of window", threshold=CLAIM),
        Evidence(name="in logging", value=function.logging, unit="share of the function", threshold=MOSTLY),
        Evidence(name="calls of it", value=round(function.told_per_gap, 1), unit="per step"),
        Evidence(name="timed in", value=m.work.gaps.gaps if m.work.gaps is not None else None, unit="gaps"),
        Evidence(name="removed per step", value=float(removed.mean()) / 1e6, unit="ms"),
    )
    finding = Finding(
        rule=NAME,
        stage=stage,
        title=f"{function.name} ({entry.where}) writes log lines after every step and takes {share[0]:.0%} of the time",
        share=share[0],
        share_low=share[1],
        share_high=share[2],
        claims=tuple(dict.fromkeys(part[1] for part in entry.parts)),
        evidence=evidence,
        gain=predict(m, counterfactual),
        fixes=(
            Fix(text=f"log once in {EVERY} steps: keep a running mean, and call {function.name} every k steps"),
            Fix(text="raise the level of the logger, or let a QueueHandler write in another thread"),
        ),
        names_cause=True,
    )
    return Judged(finding=finding, counterfactual=counterfactual)


def _counterfactual(m: Measurements, entry: Told, removed: Floats) -> Counterfactual:
    beside = producers_beside_ns(m, spared_cpu_ns=float(removed.mean()))
    gap = m.ledger.of("output") + m.ledger.of("store")
    return Counterfactual(
        assumes=f"{entry.function.name} runs once in {EVERY} steps",
        expected=Case(removed_ns=removed, beside_ns=beside),
        worse=Case(removed_ns=removed * (1 - SPREAD), beside_ns=WORSE_BESIDE * beside),
        better=Case(removed_ns=np.minimum(removed * (1 + SPREAD), np.maximum(gap, removed)), beside_ns=beside),
    )


RULE = Rule(name=NAME, stages=("output", "store"), judge=judge)
