"""The loader's workers are too few to keep up with the training.

What it sees:
    A DataLoader with workers feeds the training, the training waits for them at least 5 % of the window beyond the receipt of batches
    that were ready, making a batch takes them together more than nine tenths of the time in which one is needed, and more workers would
    be held up neither by the cores nor by anything else that was measured.
Why it costs:
    The training consumes batches faster than the workers together make them, so it waits at every step for the difference.
How the gain is predicted:
    r is the part of the waits in which the batch was still being made. B is the time of making batches divided by the workers proposed, not
    below the CPU time of all processes of the training divided by 0.85 of the cores that they may use, 0.7 of them at worst: cores never
    compute all of the time, and slow each other when they do (see ATTAINED). At best only what makes batches needs them, and the training's
    threads outside of its waits, in which they may have spun for nothing. Where the number of batches that are made at once changes (ends
    of epochs, workers with nothing to do), what making one is blocked grows with the workers as it does there; where all share one limit (a
    lock, a disk, a line), or workers may use fewer cores than they are and need, the rule does not judge. Else workers share what they wait
    for by a tenth at worst.
When it is wrong:
    If what the workers wait for is itself at its limit (a saturated disk or network), and always as many batches are made at once, more
    workers wait longer than is predicted. Each worker needs memory.
What to try:
    DataLoader(..., num_workers=N); a larger prefetch_factor only helps where the time per batch varies a lot.
"""

from __future__ import annotations

from dataclasses import dataclass

from slowstep.analyses.batches.fetch_concurrency import FetchConcurrency
from slowstep.analyses.batches.loader import Loader
from slowstep.analyses.measurements import Measurements
from slowstep.analyses.python.calls import DOMINANT_SHARE
from slowstep.calibration import side_by_side
from slowstep.diagnosis.evidence.input.by_workers import how_to_divide, unless_each_draws, workers_set
from slowstep.diagnosis.evidence.input.faster_making import or_faster
from slowstep.diagnosis.evidence.input.input_causes import few_slow_samples, most_of_making
from slowstep.diagnosis.evidence.input.input_side import (
    ATTAINED,
    COMFORTABLE,
    WAIT_SHARE,
    InputSide,
    claims,
    concurrent_ns,
    core_bound_ns,
    find_side,
    keeps_up,
    known_bound_ns,
    needed_every_ns,
    removable_waits,
    wait_stage,
    workers_needed,
    workers_save,
)
from slowstep.diagnosis.gain import Case, Counterfactual, predict, saved_by, share_interval
from slowstep.diagnosis.lever_specs import fix_of_its_loader, of_its_loader, prefetch
from slowstep.diagnosis.lever_specs import workers as workers_lever
from slowstep.diagnosis.rule import Answer, Judged, Rule
from slowstep.findings import Evidence, Finding, Fix, NotJudged
from slowstep.frameworks._remedies import Remedy
from slowstep.parts import PartKind
from slowstep.reasons import Reason, Wording
from slowstep.units import format_count, format_duration

NAME = "too-few-workers"
# One more worker may slow those that are there: at worst they share what they wait for by a tenth.
PESSIMISTIC_SHARING = 1.10
ATTAINED_PESSIMISTIC, _ = side_by_side.ATTAINED.bounds
# From this share of the window on, the restarts of the loader forbid a healthy verdict (docs/definitions.md: 10 % unjudged).
RESTARTS = 0.10
# What workers that keep up could try to make ahead, times what they do; and what they do by themselves (torch's default).
AHEAD, USUAL_PREFETCH = 4, 2

FIRST_BATCHES = Wording(
    "first-batches", "{share:share} of the time goes to each epoch's first batch, which nothing makes ahead; try longer epochs"
)
WORKERS_KEEP_UP = Wording(
    "workers-keep-up",
    "{whose} {workers:plural keeps|keep} up on average (one batch in {made_ms:.2g} ms, needed every {needed_ms:.2g} ms): "
    "what is waited for are batches that take longer than others; try {prefetch}={ahead}",
)
WORKERS_SHARE_A_LIMIT = Wording(
    "workers-share-a-limit",
    "batches that {workers} workers make at once take {times:times} as long as one that is made alone: more workers would wait for "
    "each other, too; look for a lock, a disk or a server that all of them share",
)
WORKERS_BOUND = Wording(
    "workers-bound",
    "{workers} may use only {cores:g} of the {of:g} cores that the training may, and need {needed_ms:.2g} ms of these where a batch is "
    "needed every {every_ms:.2g} ms: they have inherited that, so more of them do not help; {remedy}",
)
UNBIND = "os.sched_setaffinity(0, range(os.cpu_count())) in worker_init_fn gives them all"


def judge(m: Measurements) -> Answer:
    """Whether more workers would shorten the waits."""
    if m.input.loader is None or m.input.loader.num_workers == 0:
        return None
    side = find_side(m)
    if isinstance(side, Reason):
        return NotJudged(rule=NAME, reason=side)
    share, low, high = share_interval(m, side.removable_ns)
    if share < WAIT_SHARE:
        return _restarts(m)
    now = m.input.loader.num_workers
    if m.input.facts.fetch_concurrency is not None and m.input.facts.fetch_concurrency.share_a_limit:
        return NotJudged(rule=NAME, reason=_shared(m.input.facts.fetch_concurrency, now))
    if (bound := _bound(m, side, now)) is not None:
        return bound
    workers = workers_needed(side, now)
    counterfactual = _counterfactual(m, side, workers)
    if not workers_save(m, side, workers):
        return None
    if keeps_up(side, now):
        return _uneven(m, side)
    each = 1e6 * max(m.input.demand.batches, 1e-9)
    evidence = (
        workers_set(m, now, threshold=workers, where=m.input.loader.data_set),
        Evidence(name="waiting for workers", value=share, unit="share of window", threshold=WAIT_SHARE),
        *most_of_making(m),
        Evidence(name="worker time per step", value=side.wall_ns / 1e6, unit="ms", threshold=side.rest_ns * now / 1e6),
        Evidence(name="workers idle", value=m.input.demand.idle_share, unit="share of their time"),
        saved_by(m, counterfactual),
    )
    finding = Finding(
        rule=NAME,
        stage=wait_stage(m),
        title=f"{_whose(m.input.loader, now)} cannot keep up: {format_duration(1e6 * side.wall_ns / each)} to make a batch, "
        f"one needed every {format_duration(1e6 * side.rest_ns / each)}",
        share=share,
        share_low=low,
        share_high=high,
        claims=claims(m),
        evidence=evidence,
        gain=predict(m, counterfactual),
        fixes=(_fix(m, m.input.loader, workers), *or_faster(m, side)),
    )
    return Judged(finding=finding, counterfactual=counterfactual)


def _whose(loader: Loader, workers: int) -> str:
    together = loader.read_together
    which = f" of the loader that is waited for most, of {together}," if together > 1 else ""
    return f"{format_count(workers, 'worker')}{which}"


def _fix(m: Measurements, loader: Loader, workers: int) -> Fix:
    text = m.training.words.advise(Remedy.WORKERS, workers) + _for(loader) + unless_each_draws(m)
    if (how := how_to_divide(m)) is not None:
        text = f"{text}, and {how}: nothing in its code asks for that, and each may give all samples now"
    return fix_of_its_loader(m, text, workers_lever(workers))


def _for(loader: Loader) -> str:
    if loader.read_together == 1:
        return ""
    if loader.is_named:
        return f" for {loader.dataset}"
    return f" for the loader that is waited for most{'' if loader.dataset is None else f', one of {loader.dataset}'}"


def _restarts(m: Measurements) -> NotJudged | None:
    """What no number of workers changes, and no rule judges yet: starting the loader and making its first batch, epoch by epoch.

    Workers that are started anew are the affair of worker-restart: what they would leave is the first batch.
    """
    restarts = m.over_time.restarts
    anew = restarts.cold_ns if restarts.with_workers else -m.ledger.of("preprocess", PartKind.LOADER_START)
    lost = float((m.input.filling_ns - anew).sum() / m.step_ns.sum())
    if lost < RESTARTS:
        return None
    return NotJudged(rule=NAME, reason=FIRST_BATCHES(share=lost))


def _uneven(m: Measurements, side: InputSide) -> NotJudged | None:
    """Workers that keep up are waited for where a batch takes much longer than others; few slow samples are their own rule's affair."""
    slow = few_slow_samples(m)
    if m.input.loader is None or (slow is not None and slow.removed_ns.sum() >= DOMINANT_SHARE * removable_waits(m).sum()):
        return None
    workers, ahead = m.input.loader.num_workers, AHEAD * (m.input.loader.prefetch_factor or USUAL_PREFETCH)
    each = 1e6 * max(m.input.demand.batches, 1e-9)
    reason = WORKERS_KEEP_UP(
        whose=_whose(m.input.loader, workers),
        workers=workers,
        made_ms=side.wall_ns / workers / each,
        needed_ms=needed_every_ns(side) / each,
        prefetch=m.training.words.name_of(Remedy.PREFETCH, "prefetch"),
        ahead=ahead,
    )
    return NotJudged(rule=NAME, reason=reason, lever=of_its_loader(m, prefetch(ahead)))


def _bound(m: Measurements, side: InputSide, now: int) -> NotJudged | None:
    """Workers that may use fewer cores than they are, and would keep up on all: nobody knows how fast they are there."""
    if side.worker_cores is None or now <= side.worker_cores:
        return None
    each, needed_ns = 1e6 * max(m.input.demand.batches, 1e-9), side.cpu_ns / side.worker_cores
    if needed_ns <= COMFORTABLE * needed_every_ns(side):
        return None
    reason = WORKERS_BOUND(
        workers=format_count(now, "worker"),
        cores=side.worker_cores,
        of=side.cores,
        needed_ms=needed_ns / each,
        every_ms=needed_every_ns(side) / each,
        remedy=UNBIND,
    )
    return NotJudged(rule=NAME, reason=reason, change=UNBIND)


def _shared(found: FetchConcurrency, now: int) -> Reason:
    return WORKERS_SHARE_A_LIMIT(workers=now, times=now**found.slows)


def _counterfactual(m: Measurements, side: InputSide, workers: int) -> Counterfactual:
    longer = _longer(m, workers)

    def beside(times: float) -> float:
        return concurrent_ns(side, workers, spared_wall_ns=(1 - times) * max(side.wall_ns - side.cpu_ns, 0.0))

    def case(at_once_ns: float, cores_ns: float) -> Case:
        return Case(removed_ns=side.removable_ns, concurrent_ns=max(at_once_ns, cores_ns))

    how = (
        "did not slow each other" if longer.expected == 1 else f"were blocked {longer.expected:.2f} times as long as now, for they share it"
    )
    return Counterfactual(
        assumes=f"{workers} workers shared the work evenly and {how}",
        expected=case(beside(longer.expected), core_bound_ns(m, side, ATTAINED)),
        pessimistic=case(max(beside(longer.pessimistic), side.rest_ns) * PESSIMISTIC_SHARING, core_bound_ns(m, side, ATTAINED_PESSIMISTIC)),
        optimistic=case(beside(longer.optimistic), min(core_bound_ns(m, side, 1.0), known_bound_ns(m, side))),
    )


@dataclass(frozen=True, slots=True)
class _Longer:
    """How many times as long as now the making of a batch is blocked."""

    expected: float = 1.0
    pessimistic: float = 1.0
    optimistic: float = 1.0


def _longer(m: Measurements, workers: int) -> _Longer:
    """With so many workers; as now where it is not known, or may be so, whether they hold each other up."""
    found = m.input.facts.fetch_concurrency
    if found is None:
        return _Longer()
    more = workers / m.input.demand.workers
    slows = found.slows if found.low > 0 else 0.0
    return _Longer(*(more ** min(max(each, 0.0), 1.0) for each in (slows, found.high, found.low)))


RULE = Rule(
    name=NAME,
    stages=("read", "preprocess"),
    topics=("compute", "input", "ledger", "machine", "over_time", "steps", "trainer", "training"),
    judge=judge,
)
