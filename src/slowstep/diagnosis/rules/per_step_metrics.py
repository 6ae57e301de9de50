"""Metrics that are computed after every step keep the next step waiting.

What it sees:
    Of a function of the user's that runs after every update, at least half of the time is spent in scikit-learn, torchmetrics, SciPy,
    NumPy or the like, or in reading results back (`item`, `tolist`, `numpy`), and it holds at least 3 % of the window. Of a line of the
    training loop itself, the same in libraries for nothing but metrics. Calls in these gaps are timed in a few steps.
Why it costs:
    What one batch's metric says is noise, and it is paid for in every step: sorting, converting, building Python objects.
How the gain is predicted:
    r is 49 fiftieths of that function's or line's time: it runs once in 50 steps. B is what the loader's workers need per step.
When it is wrong:
    A function that uses NumPy for something else than metrics is called one. On the processor `item` itself waits for nothing. A metric
    that the loop calls as a module (`metric(predictions, labels)` of torchmetrics) is taken for a part of the model.
What to try:
    Compute metrics every k steps, once an epoch, or on validation only.
"""

from __future__ import annotations

from slowstep.analyses.measurements import Measurements
from slowstep.analyses.timed_gaps import MOSTLY
from slowstep.diagnosis.after_update import EVERY, call_seldom, costliest, lever_of
from slowstep.diagnosis.rule import Answer, Rule
from slowstep.findings import Evidence, Fix

NAME = "per-step-metrics"


def judge(m: Measurements) -> Answer:
    """Whether metrics after every step hold the training thread."""
    entry = costliest(m, lambda entry: entry.is_metric)
    if entry is None:
        return None
    return call_seldom(
        m,
        entry,
        rule=NAME,
        does="compute",
        what="metrics",
        nature=Evidence(name="in metrics and read-backs", value=entry.metrics, unit=f"share of the {entry.kind}", threshold=MOSTLY),
        fixes=(
            Fix(text=f"{entry.call} once in {EVERY} steps, or once an epoch on what was gathered", lever=lever_of(entry)),
            Fix(text="gather predictions as tensors and let torchmetrics or one vectorised call judge them at the end"),
        ),
    )


RULE = Rule(name=NAME, stages=("output", "store"), judge=judge)
