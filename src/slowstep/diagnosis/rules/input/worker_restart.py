"""The loader's workers are started again in every epoch.

What it sees:
    At least three iterators in the window were made with new worker processes (the loader keeps none), and starting them, ending them and
    what their first batches take longer than others hold at least 3 % of the window. Where that was seen once or twice and held a tenth of
    the window, it is not judged: whether it recurs as often is not known.
Why it costs:
    Each epoch forks or spawns its workers, runs their init function, opens what the data set opens lazily, and discards all of it at
    its end; meanwhile nothing is trained. The shorter the epochs, the larger the share.
How the gain is predicted:
    r is the loader's start-up and shut-down, less 1 ms for each start that is left, and the excess of each iterator's first batch over a
    usual one, and what a step takes longer after a fork (`trainer_side.AFTER_FORK`). At worst the last two stay. The first batch
    itself is not made ahead in either case. B is what the workers need per step.
When it is wrong:
    Workers that stay keep what they opened and cached: their memory stays taken between epochs. A data set that is changed between epochs
    must be changed in its workers, too: where the script was seen to do that (set_epoch) it is said, and no lever tries it.
What to try:
    DataLoader(..., persistent_workers=True); a sampler that makes epochs longer.
"""

from __future__ import annotations

import numpy as np

from slowstep.analyses.input.restarts import Restarts
from slowstep.analyses.measurements import Measurements
from slowstep.analyses.steps.steps import Floats
from slowstep.calibration import loading
from slowstep.diagnosis.evidence.input.input_causes import most_of_a_sample
from slowstep.diagnosis.evidence.input.kept_workers import changed_between_epochs, of_kept_workers
from slowstep.diagnosis.evidence.trainer_side import AFTER_FORK_HIGH, PESSIMISTIC_BESIDE, concurrent_producers_ns, copying_after_forks
from slowstep.diagnosis.gain import Case, Counterfactual, predict, saved_by, share_interval
from slowstep.diagnosis.law import HEALTHY_UNATTRIBUTED
from slowstep.diagnosis.lever_specs import PERSISTENT_WORKERS, fix_of_its_loader, of_its_loader
from slowstep.diagnosis.rule import CLAIM, Answer, Judged, Rule
from slowstep.findings import Evidence, Finding, Fix, NotJudged
from slowstep.frameworks._remedies import Remedy
from slowstep.parts import PartKind
from slowstep.reasons import Wording
from slowstep.units import format_duration, format_share

NAME = "worker-restart"
# One start, or two, are no habit.
FEWEST = 3
# Of the window, in starting and ending workers: from there on that they were too few to judge leaves a verdict open.
UNJUDGED = HEALTHY_UNATTRIBUTED
# Of each start: an iterator over workers that stay has one, too.
_, LEFT_NS = loading.KEPT_WORKERS_START.bounds

FEW_STARTS = Wording(
    "few-starts",
    "starting and ending the loader's {workers:count worker} took {taken_ns:duration}, {share:share} of the time, but was seen "
    f"{{starts:plural once|twice}}; record {FEWEST} epochs or more. Fewer workers start sooner, and {{persistent}}=True starts them once",
)


def judge(m: Measurements) -> Answer:
    """Whether starting workers anew costs the training time."""
    restarts = m.over_time.restarts
    if 0 < restarts.with_workers < FEWEST:
        return _too_few(m, restarts.with_workers)
    if not restarts.with_workers or restarts.used_up < restarts.count / 2:
        return None
    begun = restarts.start_ns > 0
    starting = np.clip(restarts.start_ns - LEFT_NS * begun, 0, None)
    removed = starting + restarts.cold_ns
    share, low, high = share_interval(m, removed)
    if share < CLAIM:
        return None
    counterfactual = _with_kept_workers(m, starting, removed)
    each = float(removed.sum()) / restarts.count
    finding = Finding(
        rule=NAME,
        stage="preprocess",
        title=f"the loader's workers are started again at each of {restarts.count} epochs: {format_duration(each)} each, "
        f"{format_share(share)} of the time",
        share=share,
        share_low=low,
        share_high=high,
        claims=m.ledger.parts_of("preprocess", PartKind.LOADER_START, PartKind.LOADER_END),
        evidence=_evidence(m, restarts, share, counterfactual),
        gain=predict(m, counterfactual),
        fixes=(
            _keep_them(m),
            Fix(text="longer epochs: a sampler that passes over the data set several times"),
        ),
        names_cause=True,
    )
    return Judged(finding=finding, counterfactual=counterfactual)


def _keep_them(m: Measurements) -> Fix:
    """With no lever where that would train on other data than the script's."""
    text = m.training.words.advise(Remedy.PERSISTENT_WORKERS) + of_kept_workers(m)
    return Fix(text=text) if changed_between_epochs(m) else fix_of_its_loader(m, text, PERSISTENT_WORKERS)


def _evidence(m: Measurements, restarts: Restarts, share: float, counterfactual: Counterfactual) -> tuple[Evidence, ...]:
    return (
        Evidence(name="loader starts with new workers", value=restarts.with_workers, unit="starts", threshold=FEWEST),
        Evidence(name="batches between them", value=restarts.batches_each, unit="batches"),
        Evidence(name="one start and end", value=float(restarts.start_ns.sum()) / restarts.count / 1e6, unit="ms"),
        Evidence(name="first batch beyond a usual one", value=float(restarts.cold_ns.sum()) / restarts.count / 1e6, unit="ms"),
        *most_of_a_sample(m),
        Evidence(name="restarting", value=share, unit="share of window", threshold=CLAIM),
        saved_by(m, counterfactual),
    )


def _too_few(m: Measurements, starts: int) -> NotJudged | None:
    """What one start of the workers, or two, have taken, where that is much."""
    taken_ns = float(m.over_time.restarts.start_ns.sum())
    share = taken_ns / float(m.step_ns.sum())
    if share < UNJUDGED or m.input.loader is None:
        return None
    persistent = m.training.words.name_of(Remedy.PERSISTENT_WORKERS, "persistent workers")
    reason = FEW_STARTS(workers=m.input.loader.num_workers, taken_ns=taken_ns, share=share, starts=starts, persistent=persistent)
    lever = None if changed_between_epochs(m) else of_its_loader(m, PERSISTENT_WORKERS)
    return NotJudged(rule=NAME, reason=reason, lever=lever)


def _with_kept_workers(m: Measurements, starting: Floats, removed: Floats) -> Counterfactual:
    beside, own = max(concurrent_producers_ns(m) - float(removed.mean()), 0.0), m.step_ns - removed
    return Counterfactual(
        assumes="workers were kept between epochs",
        expected=Case(removed_ns=removed + copying_after_forks(m, own), concurrent_ns=beside),
        pessimistic=Case(removed_ns=starting, concurrent_ns=PESSIMISTIC_BESIDE * beside),
        optimistic=Case(removed_ns=removed + copying_after_forks(m, own, AFTER_FORK_HIGH), concurrent_ns=beside),
    )


RULE = Rule(
    name=NAME,
    stages=("preprocess",),
    topics=("compute", "input", "ledger", "machine", "over_time", "steps", "trainer", "training"),
    judge=judge,
)
