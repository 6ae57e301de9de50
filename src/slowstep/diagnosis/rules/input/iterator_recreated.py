"""A new iterator of the loader is made for nearly every batch.

The ones before are discarded unread, or have no more.

What it sees:
    Over the window at most two batches were taken from each iterator of the training's loader, and making them and waiting for their first
    batches holds at least 3 % of the window. Where workers are started and most iterators were read to their end it is worker-restart.
Why it costs:
    Each new iterator shuffles all indices, starts the workers, and has them make several batches ahead, of which one is used: nothing is
    ever ready in time, and most of what is made is discarded. The indices of a large data set are millions of Python objects, which the
    garbage collector walks through while they are young, and which are freed one by one when the iterator is dropped.
How the gain is predicted:
    r is the loader's start-up, its workers' end and the freeing of what iterators hold, the waits for first batches, garbage collections of
    young objects meanwhile (none at worst, all collections at best), and what the training's own work takes longer where workers are forked
    anew (twice, see `trainer_side.AFTER_FORK`; nothing at worst, 3.5 times at best, or what lists of all indices take out of the caches, 6
    ns an index). B is the time of making batches divided by the workers, not below the CPU time of all divided by the cores; without
    workers, the making of a batch stays.
When it is wrong:
    Where one batch of each iterator is all that is wanted (a new task at each step), the loader is the wrong tool rather than wrongly used.
What to try:
    Make the iterator once before the loop, and again only at StopIteration: for batch in loader, or itertools.chain over epochs. Where an
    epoch has no more batches, or Lightning's trainer ends it, make epochs longer, and let the loader and its workers outlive them.
"""

from __future__ import annotations

import numpy as np

from slowstep.analyses.batches.loader import Loader
from slowstep.analyses.input.restarts import Restarts
from slowstep.analyses.measurements import Measurements
from slowstep.analyses.steps.steps import Floats
from slowstep.calibration import loading
from slowstep.diagnosis.evidence.input.input_causes import most_of_a_sample
from slowstep.diagnosis.evidence.input.input_side import claims
from slowstep.diagnosis.evidence.input.kept_workers import of_kept_workers
from slowstep.diagnosis.evidence.trainer_side import (
    AFTER_FORK_HIGH,
    PESSIMISTIC_BESIDE,
    concurrent_producers_ns,
    copying_after_forks,
    with_core_delay,
)
from slowstep.diagnosis.gain import Case, Counterfactual, predict, saved_by, share_interval, share_queued
from slowstep.diagnosis.rule import CLAIM, Answer, Judged, Rule
from slowstep.findings import Evidence, Finding, Fix
from slowstep.frameworks._remedies import Remedy
from slowstep.parts import COLLECTION, Part, PartKind
from slowstep.units import format_share

NAME = "iterator-recreated"
FEWEST = 10
# A shuffled pass begins with a list of all indices, which fills the caches. Whether it shuffles is not known.
LISTED_OPTIMISTIC_NS, MOST_BY_LISTS = loading.LISTED.value, loading.LISTED_AT_MOST.value
# One batch of each, or a pair of them (two micro-batches).
MOST_BATCHES = 2.0


def judge(m: Measurements) -> Answer:
    """Whether iterators are made in the step loop."""
    restarts = m.over_time.restarts
    few = restarts.batches_each is not None and restarts.batches_each <= MOST_BATCHES
    if restarts.count < FEWEST or not few or m.input.loader is None:
        return None
    serial, used_up = m.input.loader.num_workers == 0, restarts.used_up > restarts.count / 2
    if used_up and not serial:
        return None
    removed = restarts.start_ns + (0.0 if serial else m.input.filling_ns) + restarts.collected_ns
    share, low, high = share_interval(m, removed)
    if share < CLAIM:
        return None
    # Such a trainer makes the iterators of its loaders itself.
    by_trainer = m.training.words.has(Remedy.KEEP_LOADER)
    who = m.training.words.title if by_trainer else "the loop"
    assumes = _assumes(by_trainer=by_trainer, serial=serial, used_up=used_up)
    counterfactual = _counterfactual(m, assumes, removed, workers=m.input.loader.num_workers)
    ends = m.ledger.parts_of("preprocess", PartKind.LOADER_START, PartKind.LOADER_END)
    finding = Finding(
        rule=NAME,
        stage="preprocess",
        title=f"{who} creates a new iterator of its loader for every {_batches(restarts.batches_each or 0.0)}: {format_share(share)} of "
        "the time",
        opens_with_name=by_trainer,
        share=share,
        share_low=low,
        share_high=high,
        claims=(*ends, *(() if serial else claims(m)), *_garbage_claimed(m)),
        evidence=_evidence(m, m.input.loader, restarts, share, counterfactual),
        gain=predict(m, counterfactual),
        fixes=_fixes(m, by_trainer=by_trainer, serial=serial, used_up=used_up),
        names_cause=True,
    )
    return Judged(finding=finding, counterfactual=counterfactual)


def _evidence(m: Measurements, loader: Loader, restarts: Restarts, share: float, counterfactual: Counterfactual) -> tuple[Evidence, ...]:
    return (
        Evidence(name="iterators created", value=restarts.count, unit="iterators", threshold=FEWEST, where=loader.data_set),
        Evidence(name="batches taken of each", value=restarts.batches_each, unit="batches", threshold=MOST_BATCHES),
        Evidence(name="read to their end", value=restarts.used_up, unit="iterators"),
        Evidence(name="creating them and their first batch", value=share, unit="share of window", threshold=CLAIM),
        *most_of_a_sample(m),
        Evidence(name="garbage collection meanwhile", value=float(restarts.collected_ns.mean()) / 1e6, unit="ms per step"),
        saved_by(m, counterfactual),
    )


def _counterfactual(m: Measurements, assumes: str, removed: Floats, *, workers: int) -> Counterfactual:
    """Steps without what making the iterators takes."""
    collected, own = m.over_time.restarts.collected_ns, m.step_ns - removed
    # What is made and never read must not be made any more: the workers' need per batch that is used stays.
    beside = min((m.input.demand.wall_ns or 0.0) / workers, concurrent_producers_ns(m)) if workers else 0.0
    optimistic_ns, all_collected = _optimistic_ns(m, removed)
    return Counterfactual(
        assumes=assumes,
        expected=Case(removed_ns=removed + copying_after_forks(m, own), concurrent_ns=beside),
        pessimistic=Case(removed_ns=0.9 * (removed - collected), concurrent_ns=PESSIMISTIC_BESIDE * beside),
        optimistic=Case(
            removed_ns=optimistic_ns,
            concurrent_ns=beside,
            delay_share=share_queued(all_collected - m.ledger.of_parts(COLLECTION), optimistic_ns),
        ),
    )


def _optimistic_ns(m: Measurements, removed: Floats) -> tuple[Floats, Floats]:
    """What is removed at best, and what all garbage collection in it takes."""
    restarts, own = m.over_time.restarts, m.step_ns - removed
    all_collected = np.maximum(with_core_delay(m, COLLECTION), restarts.collected_ns)
    listed = LISTED_OPTIMISTIC_NS * (m.input.facts.dataset_length or 0) * restarts.count / m.steps.count
    quicker = np.maximum(copying_after_forks(m, own, AFTER_FORK_HIGH), np.minimum(listed, MOST_BY_LISTS * own))
    return removed - restarts.collected_ns + all_collected + quicker, all_collected


def _batches(each: float) -> str:
    return "batch" if round(each) <= 1 else f"{each:.0f} batches"


def _garbage_claimed(m: Measurements) -> tuple[Part, ...]:
    """The collector, where most of its time is spent on what new iterators have made: it goes with them."""
    collected, whole = float(m.over_time.restarts.collected_ns.sum()), m.ledger.total_of(COLLECTION)
    return (COLLECTION,) if collected > whole / 2 else ()


def _assumes(*, by_trainer: bool, serial: bool, used_up: bool) -> str:
    if used_up:
        return "one epoch lasted for the whole training"
    return "the loader's workers were kept between epochs" if by_trainer and not serial else "one iterator was read to its end"


def _fixes(m: Measurements, *, by_trainer: bool, serial: bool, used_up: bool) -> tuple[Fix, ...]:
    if not (by_trainer or used_up):
        return (Fix(text="call iter(loader) once before the loop, and again only when it is exhausted: for batch in loader"),)
    longer = Fix(text="longer epochs: a sampler that passes over the data set several times")
    if serial:
        return (longer,)
    words = m.training.words
    made_once = f": {words.write({Remedy.KEEP_LOADER: 0})}" if by_trainer else ""
    return (Fix(text=f"{words.advise(Remedy.PERSISTENT_WORKERS)}, made once{made_once}{of_kept_workers(m)}"), longer)


RULE = Rule(
    name=NAME,
    stages=("preprocess",),
    topics=("compute", "input", "ledger", "machine", "over_time", "steps", "trainer", "training"),
    judge=judge,
)
