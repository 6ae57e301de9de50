"""Metrics computed after every step keep the next step waiting.

What it sees:
    Of a function of the user's that runs after every update, at least half of the time is spent in scikit-learn's metrics, torchmetrics
    or the like, in functions that compute with NumPy or SciPy and are named for metrics (`f1_score`, `ConfusionMatrix.update`), or in
    reading results back (`item`, `tolist`, `numpy`), and it holds at least 3 % of the window. Of a line of the training loop itself, the
    same in libraries for nothing but metrics. Calls in these gaps are timed in a few steps. What a module of Lightning spends in
    `self.log` and `self.log_dict` while it trains is timed exactly, at the same threshold; where that is most of a hook of its, what else
    the hook does counts as well: it makes what is logged.
Why it costs:
    What one batch's metric says is noise, and it is paid for in every step: sorting, converting, building Python objects. Lightning checks,
    converts and averages each metric that it is handed, in some 0.1 ms, whether a logger is then called or not.
How the gain is predicted:
    r is 49 fiftieths of that function's or line's time: it runs once in 50 steps; what the step after it takes longer goes with
    it as with slow-callback's. B is what the loader's workers need per step.
When it is wrong:
    A metric in NumPy whose name does not say so is left to slow-callback. On the processor `item` itself waits for nothing. A metric
    that the loop calls as a module (`metric(predictions, labels)` of torchmetrics) is left to slow-callback.
What to try:
    Compute metrics every k steps, once an epoch, or on validation only.
"""

from __future__ import annotations

from dataclasses import replace

from slowstep.analyses.measurements import Measurements
from slowstep.diagnosis.evidence.after_update import EVERY, NamedParts, call_seldom, costliest, lever_of, named_by, shortened
from slowstep.diagnosis.evidence.spread import EXACT
from slowstep.diagnosis.evidence.trainer_side import delay_share
from slowstep.diagnosis.gain import predict, saved_by, share_interval
from slowstep.diagnosis.rule import CLAIM, Answer, Judged, Rule
from slowstep.findings import Evidence, Finding, Fix
from slowstep.frameworks._remedies import Remedy
from slowstep.part_words import is_named, part_called, part_name_and_place, part_noun, part_place
from slowstep.parts import CodePlace, Part, PartKind
from slowstep.shares import MOSTLY
from slowstep.stages import RESULT_STAGES
from slowstep.units import format_share

NAME = "per-step-metrics"


def judge(m: Measurements) -> Answer:
    """Whether metrics after every step hold the training thread."""
    computed, logged = _judge_computed(m), _judge_logged(m)
    found = [judged for judged in (computed, logged) if judged is not None]
    return max(found, key=lambda judged: judged.finding.share, default=None)


def _judge_computed(m: Measurements) -> Judged | None:
    """Of functions after the update, and lines of the loop, that which judges results for longest."""
    entry = costliest(m, lambda entry: entry.is_metric)
    if entry is None:
        return None
    return call_seldom(
        m,
        entry,
        rule=NAME,
        does="compute",
        what="metrics",
        nature=Evidence(
            name="in metrics and read-backs", value=entry.metrics, unit=f"share of the {part_noun(entry.part)}", threshold=MOSTLY
        ),
        fixes=(
            Fix(text=f"{entry.call} once in {EVERY} steps, or once an epoch on what was gathered", lever=lever_of(entry)),
            Fix(text=m.training.words.advise(Remedy.METRICS_AT_END)),
        ),
    )


def _judge_logged(m: Measurements) -> Judged | None:
    """What a model hands over to be logged in its steps, where the framework averages and shows it."""
    handed_over = named_by(m, PartKind.METRICS)
    if handed_over is None:
        return None
    named = replace(handed_over, parts=(*handed_over.parts, *_made_to_be_logged(m, handed_over)))
    removed = named.ns(m) * (1 - 1 / EVERY)
    share, low, high = share_interval(m, removed)
    if share < CLAIM:
        return None
    assumes = f"metrics were logged once in {EVERY} steps"
    # At worst it does something else besides.
    surely = float(handed_over.ns(m).sum()) / float(named.ns(m).sum())
    counterfactual = shortened(m, removed, replace(EXACT, low=surely), queued=delay_share(m, *named.parts), assumes=assumes)
    finding = Finding(
        rule=NAME,
        stage="output",
        title=f"{part_name_and_place(named.most)} hands over metrics in every step and takes {format_share(share)} of the time",
        opens_with_name=is_named(named.most),
        share=share,
        share_low=low * surely,
        share_high=high,
        claims=named.parts,
        evidence=(
            Evidence(name="function", value=part_called(named.most), unit="", where=part_place(named.most)),
            Evidence(name="on the training thread", value=share, unit="share of window", threshold=CLAIM),
            saved_by(m, counterfactual),
        ),
        gain=predict(m, counterfactual),
        fixes=(
            Fix(text=m.training.words.advise(Remedy.LOG_SELDOM, every=EVERY)),
            Fix(text=m.training.words.advise(Remedy.LOG_BY_EPOCH)),
        ),
        names_cause=True,
    )
    return Judged(finding=finding, counterfactual=counterfactual)


def _made_to_be_logged(m: Measurements, handed_over: NamedParts) -> list[Part]:
    """What functions of the user's do beside handing over metrics, where that is most of what they do."""
    kinds = (PartKind.CALLBACK, PartKind.FUNCTION)
    parts = [p for p in m.ledger.parts if p.kind in kinds and p.stage in RESULT_STAGES and p.place is not None]

    def logs_mostly(place: CodePlace | None) -> bool:
        logged, beside = (m.ledger.total_of(*(each for each in those if each.place == place)) for those in (handed_over.parts, parts))
        return logged > 0 and logged >= MOSTLY * (logged + beside)

    return [part for part in parts if logs_mostly(part.place)]


RULE = Rule(
    name=NAME,
    stages=("output", "store"),
    topics=("after_update", "compute", "input", "ledger", "machine", "over_time", "steps", "trainer", "training"),
    judge=judge,
)
