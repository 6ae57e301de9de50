"""Collating samples into a batch takes longer than making them.

What it sees:
    The training waits for input at least 5 % of the window, and the collate function takes at least half of the time of making batches.
Why it costs:
    Collating is a copy: a gigabyte takes a fraction of a second. A collate function that loops in Python, pads element by element or
    converts types takes many times that, for every batch, in the process that should make the next one.
How the gain is predicted:
    r is the wait for batches; B is what making batches takes when collating costs no more than copying the batch at 1 GB/s, divided by the
    workers, not below the CPU time of training and of making batches divided by the cores. A worker that is always busy slows the training
    meanwhile; relieved, it lets the training run a sixteenth faster (not at all at worst, an eighth at best). What the training waited for
    a core goes with what computes meanwhile: as much of it as the spared CPU time is of what makes batches and of other processes (half of
    that at worst). Without workers the training's own work is shorter by a twentieth of what is spared (not at all at worst, a tenth at
    best), by a quarter at most: its caches stay warm, and its operations' threads awake.
When it is wrong:
    torch's own collate function is not blamed for less than 1 ms a batch, what receiving one takes anyway. A collate function that does
    work which other code would have to do instead (tokenizing whole batches, for instance).
What to try:
    torch.stack, the default collate function, padding to the longest by one tensor operation; move per-sample work into the dataset. Where
    a function of the user's holds at least half of collating, it is that one: vectorise it, or do it once, where all epochs need the same.
"""

from __future__ import annotations

from slowstep.analyses.batches.transfer import RECEIVE_NS
from slowstep.analyses.measurements import Measurements
from slowstep.analyses.python.calls import TimedFunction
from slowstep.diagnosis.evidence.input.input_causes import most_of_it_in, timed_at
from slowstep.diagnosis.evidence.input.input_side import (
    NOT_WARMED,
    QUEUED_PESSIMISTIC,
    RELIEF_EXPECTED,
    SIDE_BY_SIDE,
    WAIT_SHARE,
    WARMED_EXPECTED,
    WARMED_OPTIMISTIC,
    InputSide,
    Warmed,
    claims,
    concurrent_ns,
    find_side,
    not_judged_by_function,
    relieved_ns,
    relieved_queue_ns,
    removable_waits,
    warmed_ns,
)
from slowstep.diagnosis.gain import Case, Counterfactual, predict, saved_by, share_interval, share_queued
from slowstep.diagnosis.lever_specs import mock_loader, stub, stub_of_collate
from slowstep.diagnosis.rule import Answer, Judged, Rule
from slowstep.findings import Evidence, Finding, Fix, NotJudged
from slowstep.frameworks._remedies import Remedy
from slowstep.reasons import Reason, Wording
from slowstep.units import format_share

NAME = "slow-collate"
DOMINATES = 0.5
# Copying a batch together: a memory-bound copy with its allocation runs at 1 GB/s at least on any machine of the last ten years.
COPY_BYTES_PER_NS = 1.0
# Measured of samples of two small tensors, 16 a batch, in steps of 1.7 and 3.4 ms: torch's own takes 0.5 ms of the 0.6 of making a batch,
# and handing the loader whole batches gains nothing without workers and at most a tenth with one (medians of five runs each).
FEWER_PARTS = "return few tensors from the dataset, not lists, numbers or many tensors, or whole batches of them from __getitems__"

COLLATE_NOT_RECORDED = Wording("collate-not-recorded", "the time in the collate function was not recorded")


def judge(m: Measurements) -> Answer:
    """Whether collating holds most of making batches."""
    if m.input.loader is None:
        return None
    side = find_side(m)
    if isinstance(side, Reason):
        return not_judged_by_function(NAME, side)
    if m.input.demand.collate_ns is None:
        return NotJudged(rule=NAME, reason=COLLATE_NOT_RECORDED())
    held = m.input.demand.collate_ns / max(side.wall_ns, 1.0)
    waits = removable_waits(m)
    share, low, high = share_interval(m, waits)
    if share < WAIT_SHARE or held < DOMINATES or (m.input.loader.collate_is_default and m.input.demand.collate_ns < RECEIVE_NS):
        return None
    counterfactual = _counterfactual(m, side)
    name = (m.input.loader.collate or "collate_fn").removeprefix("__main__.")
    where = f" ({m.input.loader.collate_where})" if m.input.loader.collate_where else ""
    inner = m.input.collate_function
    most = "" if inner is None else f", most of it in {inner.name} ({timed_at(m, inner)})"
    evidence = (
        Evidence(name="collate function", value=name, unit="", where=m.input.loader.collate_where),
        *(() if inner is None else (most_of_it_in(m, inner),)),
        Evidence(name="collating", value=held, unit="share of making a batch", threshold=DOMINATES),
        Evidence(name="collate time per step", value=m.input.demand.collate_ns / 1e6, unit="ms"),
        Evidence(name="waiting for batches", value=share, unit="share of window", threshold=WAIT_SHARE),
        saved_by(m, counterfactual),
    )
    finding = Finding(
        rule=NAME,
        stage="preprocess",
        title=f"{name}{where} takes {format_share(held)} of the time in which a batch is made{most}",
        opens_with_name=True,
        share=share,
        share_low=low,
        share_high=high,
        claims=claims(m),
        evidence=evidence,
        gain=predict(m, counterfactual),
        fixes=_fixes(m, name, inner),
        names_cause=True,
    )
    return Judged(finding=finding, counterfactual=counterfactual)


def _fixes(m: Measurements, name: str, inner: TimedFunction | None) -> tuple[Fix, ...]:
    """Of a function that the collate function calls it is that one's work that is to be made faster, and not the whole to be left."""
    bound = stub_of_collate(m) or mock_loader(m)
    if inner is not None:
        bound = stub(m, inner.name, inner.file) or bound
        once = f"do {inner.name} once before training and store its result, where all epochs need the same"
        return Fix(text=_faster(inner), bounded_by=bound), Fix(text=once, bounded_by=bound)
    if m.input.loader is not None and m.input.loader.collate_is_default:
        return (Fix(text=FEWER_PARTS, bounded_by=bound),)
    return (Fix(text=f"let {name} {m.training.words.advise(Remedy.ONLY_STACK)}", bounded_by=bound),)


def _faster(inner: TimedFunction) -> str:
    if inner.python_share is None or inner.is_python:
        return f"vectorise {inner.name}"
    return f"do less in {inner.name}, or use faster libraries there"


def _counterfactual(m: Measurements, side: InputSide) -> Counterfactual:
    collate = m.input.demand.collate_ns or 0.0
    floor = min((m.input.demand.batch_bytes or 0.0) / COPY_BYTES_PER_NS, collate)
    workers = m.input.loader.num_workers if m.input.loader is not None else 0

    def case(left: float, warmed: Warmed, slowed: float = 0.0, queued: float = 1.0) -> Case:
        spared = collate - left
        if workers == 0:
            removed = (side.removable_ns + side.filling_ns) * spared / max(side.wall_ns, 1.0)
            return Case(removed_ns=removed + warmed_ns(side, removed, warmed))
        spared_cpu = spared * min(side.cpu_ns / max(side.wall_ns, 1.0), 1.0)
        relieved, freed = (take(side, spared_cpu, slowed=slowed, queued=queued) for take in (relieved_ns, relieved_queue_ns))
        removed = side.removable_ns + side.filling_ns * spared / max(side.wall_ns, 1.0) + relieved
        beside = concurrent_ns(side, workers, spared_wall_ns=spared, spared_cpu_ns=spared_cpu)
        return Case(removed_ns=removed, concurrent_ns=beside, delay_share=share_queued(freed, removed))

    words = "collating took no longer than copying the batch" + (", and left more of the cores to the training" if workers else "")
    return Counterfactual(
        assumes=words,
        expected=case(floor, WARMED_EXPECTED, RELIEF_EXPECTED),
        pessimistic=case(min(3 * floor, collate), NOT_WARMED, queued=QUEUED_PESSIMISTIC),
        optimistic=case(0.0, WARMED_OPTIMISTIC, SIDE_BY_SIDE),
    )


RULE = Rule(
    name=NAME, stages=("preprocess",), topics=("compute", "input", "ledger", "machine", "steps", "trainer", "training"), judge=judge
)
