"""Metrics that are computed after every step keep the next step waiting.

What it sees:
    Of a function of the user's that runs after every update, at least half of the time is spent in scikit-learn, torchmetrics, SciPy,
    NumPy or the like, or in reading results back (`item`, `tolist`, `numpy`), and it holds at least 3 % of the window. Calls in these gaps
    are timed in a few steps.
Why it costs:
    What one batch's metric says is noise, and it is paid for in every step: sorting, converting, building Python objects.
How the gain is predicted:
    r is 49 fiftieths of that function's time: it is called once in 50 steps. B is what the loader's workers need per step.
When it is wrong:
    A function that uses NumPy for something else than metrics is called one. On the processor `item` itself waits for nothing.
What to try:
    Compute metrics every k steps, once an epoch, or on validation only.
"""

from __future__ import annotations

import numpy as np

from slowstep.analyses.measurements import Measurements
from slowstep.analyses.steps import Floats
from slowstep.diagnosis.after_update import MOSTLY, Told, is_metric, told
from slowstep.diagnosis.gain import Case, Counterfactual, predict, share_interval
from slowstep.diagnosis.rule import Answer, Judged, Rule
from slowstep.diagnosis.trainer_side import WORSE_BESIDE, producers_beside_ns, with_core_delay
from slowstep.findings import Evidence, Finding, Fix

NAME = "per-step-metrics"
# The least that a finding may claim (design).
CLAIM = 0.03
# The fix that is advised: once in so many steps.
EVERY = 50
# A share from calls timed in a few gaps, either way: see slow-callback.
SPREAD = 0.15


def judge(m: Measurements) -> Answer:
    """Whether metrics after every step hold the training thread."""
    found = [entry for entry in told(m) if is_metric(entry.function)]
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
        Evidence(name="in metrics and read-backs", value=function.metrics, unit="share of the function", threshold=MOSTLY),
        Evidence(name="calls of it", value=round(function.told_per_gap, 1), unit="per step"),
        Evidence(name="timed in", value=m.work.gaps.gaps if m.work.gaps is not None else None, unit="gaps"),
        Evidence(name="removed per step", value=float(removed.mean()) / 1e6, unit="ms"),
    )
    finding = Finding(
        rule=NAME,
        stage=stage,
        title=f"{function.name} ({entry.where}) computes metrics after every step and takes {share[0]:.0%} of the time",
        share=share[0],
        share_low=share[1],
        share_high=share[2],
        claims=tuple(dict.fromkeys(part[1] for part in entry.parts)),
        evidence=evidence,
        gain=predict(m, counterfactual),
        fixes=(
            Fix(text=f"call {function.name} once in {EVERY} steps, or once an epoch on what was gathered"),
            Fix(text="gather predictions as tensors and let torchmetrics or one vectorised call judge them at the end"),
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
