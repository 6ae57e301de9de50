"""One function takes most of the time in which batches are made.

Faster code gains more than any number of workers.

What it sees:
    The training waits for input at least 5 % of the window, one function of the user's (of a library's data set that calls none: of the
    same library) holds at least half of the time of making batches outside collate (its calls are timed in about one batch of a hundred; of
    several loaders without workers, times what each takes in all), and workers alone could not hide the waits: all of the making and the
    training need more than the cores there are, or the training's own threads leave a first worker none, or workers that cannot keep up and
    the training use so much of the cores already that these alone would keep half of the waits, or receiving batches from a first worker
    takes half of what it would take off the training thread, or more. The data set's own method, which is the making itself, only where at
    least half of it is lines of Python that run again and again in each of its calls (counted in one batch), or asks a table (of pandas,
    xarray) for single rows; so any function where it is only the receiving that leaves a worker no profit.
    Or a loop without a loader makes its input for at least 5 % of the window, at least half of that in one function, and at least half of
    that one is lines of Python that run again and again.
Why it costs:
    Work that is done for every sample is paid on every core, and a Python loop over pixels or tokens takes many times what vectorised
    code takes.
How the gain is predicted:
    r is the wait for batches; B is what making batches takes when that function takes a twentieth of its time (a fifth at worst, and not
    less than the 15 us a sample that a few operations on small tensors take; nothing at best), divided by the workers, not below the CPU
    time of training and of making batches divided by the cores. A worker that is always busy slows the training meanwhile; relieved, it
    lets the training run a sixteenth faster (not at all at worst, an eighth at best). What the training waited for a core goes with what
    computes meanwhile: as much of it as the spared CPU time is of what makes batches and of other processes (half of that at worst). Where
    busy workers hand over late, all that receiving takes beyond 1 ms a batch goes, too, at best. Without workers the training thread makes
    batches itself, and nothing else binds; its own work is shorter by a twentieth of what it computes less for them (not at all at
    worst, a tenth at best), by a quarter at most: its caches stay warm, and its operations' threads awake.
When it is wrong:
    The function may do work that must be done, and be as fast as it can be. Timing calls makes many short ones look longer than they are.
    A data set's own loop is not seen where no sample ends while lines are counted, as in batches of one or two long ones.
    Where the function opens many files, reads much more than it uses or receives from a network, or its workers' threads are in each
    other's way for most of the wait, the findings on those lead.
What to try:
    Vectorise it, do it once and store the result, do it on whole batches or on the accelerator. Where the training thread makes its own
    batches and workers find a core, they hide a part of it. A worker that computes in Python also hands its batches over late; where that
    is much of the waits, another way of sharing memory may help (1.2 times as fast in the median of eight pairs on two cores, 1.03 to 1.5).
"""

from __future__ import annotations

import numpy as np

from slowstep.analyses.batches.transfer import RECEIVE_NS
from slowstep.analyses.input.loop_input import LoopInput, Maker
from slowstep.analyses.measurements import Measurements
from slowstep.analyses.python.calls import DOMINANT_SHARE, TimedFunction
from slowstep.analyses.steps.steps import Floats
from slowstep.calibration import python_lines
from slowstep.diagnosis.evidence.input.by_workers import fix_by_workers, handed_over, leave_most
from slowstep.diagnosis.evidence.input.faster_making import faster, reads_rows
from slowstep.diagnosis.evidence.input.input_causes import (
    CAUSE_SHARE,
    called_for_it,
    cores_leave_most,
    hidden_by_workers,
    loads_archives,
    more_workers_help,
    nearer_cause,
    timed_at,
    workers_take_most,
)
from slowstep.diagnosis.evidence.input.input_side import (
    ATTAINED,
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
    core_bound_ns,
    crowded,
    find_side,
    not_judged_by_function,
    relieved_ns,
    relieved_queue_ns,
    side_of_loop,
    warmed_ns,
    workers_needed,
)
from slowstep.diagnosis.evidence.input.loop_side import known_by, made_in_loop, spread_of_loop_input
from slowstep.diagnosis.evidence.input.read_whole import read_whole
from slowstep.diagnosis.evidence.input.worker_threads import take_most
from slowstep.diagnosis.evidence.record_longer import record_longer
from slowstep.diagnosis.evidence.spread import TimeSpread
from slowstep.diagnosis.gain import Case, Counterfactual, predict, saved_by, share_interval, share_queued
from slowstep.diagnosis.lever_specs import mock_loader, stub
from slowstep.diagnosis.rule import Answer, Judged, Rule
from slowstep.findings import Evidence, Finding, Fix, NotJudged
from slowstep.frameworks._remedies import Remedy
from slowstep.part_words import is_named, part_in_words, part_place, part_without_place
from slowstep.parts import Part, PartKind
from slowstep.reasons import Reason, Wording
from slowstep.units import format_share

NAME = "slow-transform"
# What the function still takes after the fix: vectorised code is rarely better than ten times as fast on a first try.
LEFT = 0.05
# `np.load(path)["x"][index]` reads all of the array for one row of it.
LOAD_ONCE = Fix(text="where np.load opens the same archive for every sample, load its arrays once (an .npy file with mmap_mode='r')")
LEFT_PESSIMISTIC = 0.20
# What it takes a sample at worst.
SAMPLE_PESSIMISTIC_NS = python_lines.VECTORISED_SAMPLE.bounds[1]
BY_CORES, BY_RECEIPT = "the cores are used up", "batches take about as long to receive from workers"
BY_THREADS = "the training's own threads use the cores"
BY_PART = "workers would hide only a part of it"
NO_WORKERS = ", and workers would save little of it"

NO_CALL_TIMED = Wording("no-call-timed", "no call was timed while batches were made; {remedy}")
LOOP_NOT_SEEN = Wording(
    "loop-not-seen",
    "whether {name} ({where}), {share:share} of making samples, is a loop in Python was not seen; {remedy}",
)
OWN_LOOP_NOT_SEEN = Wording("own-loop-not-seen", "whether {part} is a loop in Python was not seen; {remedy}")


def judge(m: Measurements) -> Answer:
    """Whether one function keeps the loader busy beyond what workers can hide."""
    if (made := made_in_loop(m)) is not None:
        return _judge_loop(m, made)
    if m.input.loader is None:
        return None
    side = find_side(m)
    if isinstance(side, Reason):
        return not_judged_by_function(NAME, side)
    # Workers that find no cores hide nothing. What others take of them is nothing that the function does.
    hidden = hidden_by_workers(side) and crowded(m, side, by_others=False) is None and not cores_leave_most(m, side)
    # Those of a first worker's batches that take about as long to receive as to make are not hidden at a profit.
    received = hidden and m.input.loader.num_workers == 0 and leave_most(m, side)
    if share_interval(m, side.removable_ns)[0] < WAIT_SHARE or (hidden and not received):
        return None
    if not m.input.timed_fetches:
        return NotJudged(rule=NAME, reason=NO_CALL_TIMED(remedy=record_longer(m)))
    function = _named_function(m)
    if function is None:
        return None
    if received and not _is_reducible(m, function):
        return _not_python(m, function)
    return _found(m, side, function, received=received)


def _named_function(m: Measurements) -> TimedFunction | None:
    """The function that most samples are made in; None where it is no part of that which could be written otherwise."""
    if m.over_time.stragglers is not None and m.over_time.stragglers.share_of_making >= DOMINANT_SHARE:
        # Few samples hold most of the time: what is slow is those, see straggler-samples, and not the function as such.
        return None
    function = m.input.fetch_function
    # Below the data set's own method a function is a part of the making; that method itself is the making, which may be one operation.
    if function is None or not (len(function.path) > 1 or _is_reducible(m, function)):
        return None
    return function


def _is_reducible(m: Measurements, function: TimedFunction) -> bool:
    """Whether most of it is known to be what other code does in a small part of the time."""
    return function.is_python or reads_rows(m, function)


def _found(m: Measurements, side: InputSide, function: TimedFunction, *, received: bool) -> Judged:
    """That it is to blame; `received` says that batches take about as long to receive from workers."""
    share, low, high = share_interval(m, side.removable_ns)
    where = timed_at(m, function)
    counterfactual, workers = _counterfactual(m, side, function), () if received else _workers(m, side)
    why = BY_RECEIPT if received else BY_PART if workers else _by_cores(m, side)
    bound = stub(m, function.name, function.file) or mock_loader(m)
    finding = Finding(
        rule=NAME,
        stage="preprocess",
        title=f"{function.name} ({where}) takes {format_share(function.share)} of the time in which samples are made, and {why}",
        opens_with_name=True,
        share=share,
        share_low=low,
        share_high=high,
        claims=claims(m),
        evidence=_evidence(m, side, function, counterfactual, received=received),
        gain=predict(m, counterfactual),
        fixes=(
            Fix(text=faster(m, function), bounded_by=bound),
            *((LOAD_ONCE,) if loads_archives(m) else ()),
            *workers,
            Fix(text=f"do {function.name} once before training and store its result, but for what it draws at random", bounded_by=bound),
            *((Fix(text=m.training.words.advise(Remedy.HAND_OVER)),) if m.input.held_transfer_share >= CAUSE_SHARE else ()),
        ),
        names=f"{function.name} ({where})",
        # Where it is known why the function takes its time, that is the cause, and this finding a part of it.
        names_cause=not nearer_cause(m) and not read_whole(m) and not take_most(m),
    )
    return Judged(finding=finding, counterfactual=counterfactual)


def _workers(m: Measurements, side: InputSide) -> tuple[Fix, ...]:
    """Workers for a loader without them, where they find cores and would save a part of the step that counts."""
    if m.input.loader is None or m.input.loader.num_workers > 0 or crowded(m, side) is not None or not more_workers_help(m, side):
        return ()
    handed = handed_over(m, side)
    return (fix_by_workers(m, handed, workers_needed(handed.side, 0)),)


def _not_python(m: Measurements, function: TimedFunction) -> NotJudged | None:
    """A little that is made fast is nobody's fault: without workers that would gain, only what is known to be a loop in Python is named."""
    if function.python_share is not None:
        return None
    return NotJudged(
        rule=NAME, reason=LOOP_NOT_SEEN(name=function.name, where=timed_at(m, function), share=function.share, remedy=record_longer(m))
    )


def _judge_loop(m: Measurements, made: LoopInput) -> Answer:
    """The same of a loop that makes its batches itself."""
    side = side_of_loop(m, made)
    if isinstance(side, Reason):
        return NotJudged(rule=NAME, reason=side)
    held = np.zeros(m.steps.count) if made.largest is None else m.ledger.of_parts(made.largest)
    share, _, _ = share_interval(m, held)
    # What is blocked is not made faster by other code.
    if made.largest is None or share < WAIT_SHARE or held.sum() < DOMINANT_SHARE * side.removable_ns.sum():
        return None
    maker, take_most = made.maker, workers_take_most(m, side)
    if maker is None or maker.python_share is None:
        # Where workers take most of it, serial-loader says what there is to say.
        return (
            None if take_most else NotJudged(rule=NAME, reason=OWN_LOOP_NOT_SEEN(part=part_in_words(made.largest), remedy=record_longer(m)))
        )
    if maker.python_share < DOMINANT_SHARE:
        # An operation on whole tensors already, or what no other code makes faster.
        return None
    return _found_in_loop(m, side, made, made.largest, maker, is_alone=not take_most)


def _found_in_loop(m: Measurements, side: InputSide, made: LoopInput, largest: Part, maker: Maker, *, is_alone: bool) -> Judged:
    """That the loop's own making is to blame; `is_alone`: workers would save little of it."""
    assert maker.python_share is not None
    held, inner, spread = m.ledger.of_parts(largest), maker.inner, spread_of_loop_input(m, made)
    share, low, high = share_interval(m, held)
    name, named = part_without_place(largest), part_in_words(largest)
    slow = name if inner is None else inner.name
    counterfactual = _without_loop(side, held, spread, f"{name} took a twentieth of its time", python_share=maker.python_share)
    finding = Finding(
        rule=NAME,
        stage="preprocess",
        title=f"{named} makes batches in the loop for {format_share(share)} of the time{NO_WORKERS if is_alone else ''}",
        opens_with_name=is_named(largest),
        share=share,
        share_low=low * spread.low,
        share_high=min(high * spread.high, 1.0),
        claims=made.claims,
        evidence=(
            Evidence(name="made in the loop", value=name, unit="", where=part_place(largest)),
            Evidence(name="making batches", value=share, unit="share of window", threshold=WAIT_SHARE),
            *(() if inner is None else (Evidence(name="most of it in", value=inner.name, unit="", where=format_share(inner.share)),)),
            _loop_in_python(maker.python_share),
            known_by(m, made),
            Evidence(name="receiving a batch instead", value=RECEIVE_NS / 1e6, unit="ms per step"),
            saved_by(m, counterfactual),
        ),
        gain=predict(m, counterfactual),
        fixes=(
            Fix(text=f"vectorise {slow}, or make several batches at once", bounded_by=stub(m, name, maker.file)),
            Fix(text="make the batches once, before the training, where they fit memory and are the same in every epoch"),
        ),
        names=named,
        names_cause=True,
    )
    return Judged(finding=finding, counterfactual=counterfactual)


def _without_loop(side: InputSide, held: Floats, spread: TimeSpread, assumes: str, *, python_share: float) -> Counterfactual:
    spared, optimistic_ns = held * (1 - LEFT), np.minimum(held * spread.high, np.maximum(side.removable_ns, held))
    return Counterfactual(
        assumes=assumes,
        expected=Case(removed_ns=spared + warmed_ns(side, spared, WARMED_EXPECTED)),
        pessimistic=Case(removed_ns=held * python_share * (1 - LEFT_PESSIMISTIC) * spread.low),
        optimistic=Case(removed_ns=optimistic_ns + warmed_ns(side, optimistic_ns, WARMED_OPTIMISTIC)),
    )


def _loop_in_python(share: float) -> Evidence:
    return Evidence(name="a loop in Python", value=share, unit="share of it", threshold=DOMINANT_SHARE)


def _evidence(
    m: Measurements, side: InputSide, function: TimedFunction, counterfactual: Counterfactual, *, received: bool
) -> tuple[Evidence, ...]:
    share, _, _ = share_interval(m, side.removable_ns)
    return (
        Evidence(name="function", value=function.name, unit="", where=timed_at(m, function)),
        Evidence(
            name="its share",
            value=function.share,
            unit="share of making samples",
            threshold=DOMINANT_SHARE,
            where=" > ".join(function.path),
        ),
        *called_for_it(function),
        *((_loop_in_python(function.python_share),) if function.python_share is not None and function.is_python else ()),
        Evidence(name="waiting for batches", value=share, unit="share of window", threshold=WAIT_SHARE),
        _not_hidden(m, side, received=received),
        saved_by(m, counterfactual),
    )


def _by_cores(m: Measurements, side: InputSide) -> str:
    """Whose work leaves workers no cores."""
    alone = m.input.loader is not None and m.input.loader.num_workers == 0
    return BY_THREADS if alone and crowded(m, side, by_others=False) is not None else BY_CORES


def _not_hidden(m: Measurements, side: InputSide, *, received: bool) -> Evidence:
    """Why workers do not hide it."""
    if received:
        return Evidence(name="receiving a batch instead", value=RECEIVE_NS / 1e6, unit="ms")
    rest_ms = side.rest_ns / 1e6
    if not hidden_by_workers(side):
        return Evidence(
            name="CPU time needed", value=concurrent_ns(side, 1_000_000) / 1e6, unit="ms per step on all cores", threshold=rest_ms
        )
    if crowded(m, side, by_others=False) is not None:
        return Evidence(name="cores used", value=m.machine.resources.tree_cores, unit="cores", threshold=side.cores)
    bound = core_bound_ns(m, side, ATTAINED, by_others=False)
    return Evidence(name="shortest step on these cores", value=bound / 1e6, unit="ms", threshold=rest_ms)


def _counterfactual(m: Measurements, side: InputSide, function: TimedFunction) -> Counterfactual:
    collate = m.input.demand.collate_ns or 0.0
    held = function.share * (side.wall_ns - collate)
    cpu = held * side.cpu_ns / max(side.wall_ns, 1.0)
    workers = m.input.loader.num_workers if m.input.loader is not None else 0

    def case(left: float, warmed: Warmed, slowed: float = 0.0, queued: float = 1.0, handed: float = 0.0) -> Case:
        spared_wall, spared_cpu = held * (1 - left), cpu * (1 - left)
        if workers == 0:
            made = side.removable_ns + side.filling_ns
            return Case(removed_ns=made * spared_wall / side.wall_ns + warmed_ns(side, made * spared_cpu / side.wall_ns, warmed))
        relieved, freed = (take(side, spared_cpu, slowed=slowed, queued=queued) for take in (relieved_ns, relieved_queue_ns))
        removed = side.removable_ns + side.filling_ns * spared_wall / side.wall_ns + relieved + handed * _late(m)
        beside = concurrent_ns(side, workers, spared_wall_ns=spared_wall, spared_cpu_ns=spared_cpu)
        return Case(removed_ns=removed, concurrent_ns=beside, delay_share=share_queued(freed, removed))

    words = f"{function.name} took a twentieth of its time" + (", and left more of the cores to the training" if workers else "")
    known = m.steps.samples[np.isfinite(m.steps.samples)]
    samples = float(known.mean()) if known.size else 0.0
    pessimistic_ns = max(LEFT_PESSIMISTIC, min(SAMPLE_PESSIMISTIC_NS * samples / max(held, 1.0), 1.0))
    return Counterfactual(
        assumes=words,
        expected=case(LEFT, WARMED_EXPECTED, RELIEF_EXPECTED),
        pessimistic=case(pessimistic_ns, NOT_WARMED, queued=QUEUED_PESSIMISTIC),
        optimistic=case(0.0, WARMED_OPTIMISTIC, SIDE_BY_SIDE, handed=1.0),
    )


def _late(m: Measurements) -> Floats:
    """What receiving takes per step beyond the usual, where busy workers are known to hand over late: ns.

    More of it than is known may be their doing: one that waits for a core may hold the GIL.
    """
    if m.input.held_transfer_share < CAUSE_SHARE:
        return np.zeros(m.steps.count)
    usual = RECEIVE_NS * (m.steps.requests_per_step or 1.0)
    return np.maximum(m.ledger.of("preprocess", PartKind.TRANSPORT) - usual, 0.0)


RULE = Rule(
    name=NAME,
    stages=("preprocess",),
    topics=("compute", "input", "ledger", "machine", "over_time", "steps", "trainer", "training"),
    judge=judge,
)
