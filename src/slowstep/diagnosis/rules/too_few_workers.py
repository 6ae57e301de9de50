"""The loader's workers cannot keep up with the training, though more of them could.

What it sees:
    A DataLoader with workers feeds the training, the training waits for them at least 5 % of the window beyond the receipt of batches
    that were ready, and more workers would be held up neither by the cores nor by anything else that was measured.
Why it costs:
    The training consumes batches faster than the workers together make them, so it waits at every step for the difference.
How the gain is predicted:
    r is the part of the waits in which the batch was still being made. B is the producers' time divided by the workers proposed, not
    below the CPU time of all processes of the training divided by 0.85 of the cores that they may use, 0.7 of them at worse: cores never
    compute all of the time, and slow each other when they do (see ATTAINED).
When it is wrong:
    If what the workers wait for is itself at its limit (a saturated disk or network), more workers wait longer. Each worker needs memory.
What to try:
    DataLoader(..., num_workers=N); a larger prefetch_factor only helps where the time per batch varies a lot.
"""

from __future__ import annotations

from slowstep.analyses.loader import Loader
from slowstep.analyses.measurements import Measurements
from slowstep.analyses.producers import STARTUP
from slowstep.diagnosis.gain import Case, Counterfactual, predict, share_interval
from slowstep.diagnosis.input_side import (
    ATTAINED,
    WAIT_SHARE,
    Side,
    beside_ns,
    claims,
    core_bound_ns,
    find_side,
    wait_stage,
    workers_needed,
    workers_save,
)
from slowstep.diagnosis.lever_specs import workers as workers_lever
from slowstep.diagnosis.rule import Answer, Judged, Rule
from slowstep.findings import Evidence, Finding, Fix, NotJudged
from slowstep.units import format_count

NAME = "too-few-workers"
# One more worker may slow those that are there: at worse they share what they wait for by a tenth.
WORSE_SHARING = 1.10
ATTAINED_AT_WORSE = 0.70
# From this share of the window on, the restarts of the loader forbid a healthy verdict (design: a stage of 10 % that went unjudged).
RESTARTS = 0.10


def judge(m: Measurements) -> Answer:
    """Whether more workers would shorten the waits."""
    if m.loader is None or m.loader.num_workers == 0:
        return None
    side = find_side(m)
    if isinstance(side, str):
        return NotJudged(rule=NAME, reason=side)
    share, low, high = share_interval(m, side.removable_ns)
    if share < WAIT_SHARE:
        return _restarts(m)
    now = m.loader.num_workers
    workers = workers_needed(side, now)
    counterfactual = _counterfactual(m, side, workers)
    if not workers_save(m, side, workers):
        return None
    evidence = (
        Evidence(name="num_workers", value=now, unit="workers", threshold=workers, where=m.loader.dataset),
        Evidence(name="waiting for workers", value=share, unit="share of window", threshold=WAIT_SHARE),
        Evidence(name="worker time per step", value=side.wall_ns / 1e6, unit="ms", threshold=side.rest_ns * now / 1e6),
        Evidence(name="workers idle", value=m.demand.idle_share, unit="share of their time"),
        Evidence(name="removed per step", value=float(side.removable_ns.mean()) / 1e6, unit="ms"),
    )
    finding = Finding(
        rule=NAME,
        stage=wait_stage(m),
        title=f"{_whose(m.loader, now)} cannot keep up: {side.wall_ns / 1e6:.0f} ms to make a batch, "
        f"one needed every {side.rest_ns / 1e6:.0f} ms",
        share=share,
        share_low=low,
        share_high=high,
        claims=claims(m),
        evidence=evidence,
        gain=predict(m, counterfactual),
        fixes=(_fix(m.loader, workers),),
    )
    return Judged(finding=finding, counterfactual=counterfactual)


def _whose(loader: Loader, workers: int) -> str:
    together = loader.read_together
    which = f" of the loader that is waited for most, of {together}," if together > 1 else ""
    return f"{format_count(workers, 'worker')}{which}"


def _fix(loader: Loader, workers: int) -> Fix:
    # The lever changes the one that is read last.
    lever = workers_lever(workers) if loader.is_read_last else None
    which = f" for {loader.dataset or 'the loader that is waited for most'}" if loader.read_together > 1 else ""
    return Fix(text=f"DataLoader(..., num_workers={workers}){which}", lever=lever)


def _restarts(m: Measurements) -> NotJudged | None:
    """What no number of workers changes, and no rule judges yet: starting the loader and making its first batch, epoch by epoch.

    Workers that are started anew are the affair of worker-restart: what they would leave is the first batch.
    """
    restarts = m.over_time.restarts
    anew = restarts.cold_ns if restarts.with_workers else -m.ledger.of("preprocess", STARTUP)
    lost = float((m.filling_ns - anew).sum() / m.step_ns.sum())
    if lost < RESTARTS:
        return None
    return NotJudged(
        rule=NAME, reason=f"{lost:.0%} of the time goes to each epoch's first batch, which nothing makes ahead; try longer epochs"
    )


def _counterfactual(m: Measurements, side: Side, workers: int) -> Counterfactual:
    beside = beside_ns(side, workers)
    words = f"{workers} workers share the work evenly and do not slow each other"
    shared = max(beside, side.rest_ns) * WORSE_SHARING
    return Counterfactual(
        assumes=words,
        expected=Case(removed_ns=side.removable_ns, beside_ns=max(beside, core_bound_ns(m, side, ATTAINED))),
        worse=Case(removed_ns=side.removable_ns, beside_ns=max(shared, core_bound_ns(m, side, ATTAINED_AT_WORSE))),
        better=Case(removed_ns=side.removable_ns, beside_ns=max(beside, core_bound_ns(m, side, 1.0))),
    )


RULE = Rule(name=NAME, stages=("read", "preprocess"), judge=judge)
