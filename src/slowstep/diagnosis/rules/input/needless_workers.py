"""The loader's workers cost more time than they save.

A batch is made in less time than it takes to receive one.

What it sees:
    A DataLoader with workers feeds the training, on a machine that nobody else keeps busy, and what a step would be shorter by without
    them (r, below) is at least 5 % of the window.
Why it costs:
    A batch that a worker made is put into shared memory, sent through a queue, unpickled and mapped by the training thread: half a
    millisecond to two, however little is in it. Data that is in memory already is put together in less.
How the gain is predicted:
    r is all waits for input, the start of workers included, less the time that workers need for a batch, which the training thread then
    needs: of torch's own collating, which in a worker puts its tensors into shared memory, a quarter (all at worst, an eighth
    at best). Where workers are forked again in every step, its own work takes half as long without (as long at worst, a 3.5th
    of it at best). What workers and training wait for a core because of each other goes with the workers (at worst half of the
    training's, and none of theirs). The training's own work is taken to be 0.2 ms shorter (not at all at worst, 0.4 ms
    at best), since it meets no memory that was just mapped, and an eighth longer (a quarter at worst, not at all
    at best), since batches pass through its caches. B is 0: nothing overlaps with it. Measured of samples in memory, 4 to 128 a batch,
    one and two workers on two cores: collating took 0.23 to 0.72 ms in a worker and 0.03 to 0.17 ms without; steps of 0.5 to 1 ms of work
    had 0.1 to 0.4 ms less of it without workers, steps of 5 to 8 ms up to a fifth more. Batches of more than two tensors take it 19 us
    longer for each (0 to 30): from 1 to 300 tensors of 80 bytes 0.06 to 6 ms.
When it is wrong:
    A worker may make the batch of an idle machine sooner than the training thread does with its own memory. Where making takes longer in
    a full data set than in what was recorded, workers earn their keep again. Where only the better reading of all this would gain a tenth,
    that is said, as what num_workers=0 may gain: with one worker and 7 ms of work a step five pairs of runs gained 1.02 to 1.39 (median
    1.15), and 0.97 was expected.
What to try:
    num_workers=0; for data in memory, to index its tensors by whole batches.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from slowstep.analyses.measurements import Measurements
from slowstep.analyses.steps.steps import Floats
from slowstep.calibration import without_workers
from slowstep.diagnosis.evidence.input.by_workers import workers_set
from slowstep.diagnosis.evidence.input.input_side import QUEUED_PESSIMISTIC, WAIT_SHARE, InputSide, find_side
from slowstep.diagnosis.evidence.input.sent_state import sends_state
from slowstep.diagnosis.evidence.trainer_side import AFTER_FORK, AFTER_FORK_HIGH, copying_after_forks
from slowstep.diagnosis.gain import Case, Counterfactual, predict, saved_by, share_interval, share_queued
from slowstep.diagnosis.law import BOTTLENECK_PREDICTED
from slowstep.diagnosis.lever_specs import fix_of_its_loader, of_its_loader
from slowstep.diagnosis.lever_specs import workers as workers_lever
from slowstep.diagnosis.rule import Answer, Judged, Rule
from slowstep.findings import Evidence, Finding, Fix, NotJudged
from slowstep.frameworks._remedies import Remedy
from slowstep.parts import Part
from slowstep.reasons import Reason, Wording
from slowstep.units import format_duration

NAME = "needless-workers"
# Of the training thread's own work: the rest is there without workers, too.
MOST_UNMAPPING = 0.8

RECEIVING_ON_BUSY_MACHINE = Wording(
    "receiving-on-busy-machine",
    "a step may be {share:share} shorter without workers, but receiving takes longer on a busy machine, whoever made the batch",
)
WITHOUT_WORKERS_MAY_GAIN = Wording(
    "without-workers-may-gain",
    "{workers}=0 may gain, try it: without workers a step may be {shorter:share} shorter, or {longer:share} longer",
)


@dataclass(frozen=True, kw_only=True, slots=True)
class _Assumed:
    """What becomes of a step without workers, see above."""

    collated: float  # what is left of torch's own collating where it does not fill shared memory
    mapped_ns: float  # what the training thread's own work takes longer beside memory that it has just mapped
    unmapped_ns: float  # what giving that back takes, for each tensor beyond two
    slowed: float  # by what share it is longer where the thread makes batches too
    queued: float = 1.0  # the part of the training's waiting for a core that goes with the workers
    makes_at_once: bool = True  # no batch waits for a core while it is made
    after_fork: float = AFTER_FORK  # how many times as long a step after a fork takes


_COLLATED, _MAPPED, _UNMAPPED, _SLOWED = (
    without_workers.COLLATED_HERE,
    without_workers.NEWLY_MAPPED,
    without_workers.GIVEN_BACK,
    without_workers.MADE_BETWEEN,
)
EXPECTED = _Assumed(collated=_COLLATED.value, mapped_ns=_MAPPED.value, unmapped_ns=_UNMAPPED.value, slowed=_SLOWED.value)
PESSIMISTIC = _Assumed(
    collated=_COLLATED.bounds[1],
    mapped_ns=_MAPPED.bounds[0],
    unmapped_ns=_UNMAPPED.bounds[0],
    slowed=_SLOWED.bounds[1],
    queued=QUEUED_PESSIMISTIC,
    makes_at_once=False,
    after_fork=1.0,
)
OPTIMISTIC = _Assumed(
    collated=_COLLATED.bounds[0],
    mapped_ns=_MAPPED.bounds[1],
    unmapped_ns=_UNMAPPED.bounds[1],
    slowed=_SLOWED.bounds[0],
    after_fork=AFTER_FORK_HIGH,
)
# Waiting for a core, or for memory to be copied, is no sign that workers are needless: it only adds to what taking them away gains.
ALONE = replace(EXPECTED, queued=0.0, after_fork=1.0)
ALONE_OPTIMISTIC, ALONE_PESSIMISTIC = (replace(case, queued=0.0, after_fork=1.0) for case in (OPTIMISTIC, PESSIMISTIC))
# Of a step: taking away less is no bottleneck, and leaves nothing in doubt.
MAY_MATTER = 1 - 1 / BOTTLENECK_PREDICTED


def judge(m: Measurements) -> Answer:
    """Whether the training thread had better make its batches itself."""
    side = find_side(m)
    if m.input.loader is None or not m.input.loader.num_workers or isinstance(side, Reason):
        return None
    parts = _parts_of_waits(m)
    waits = m.ledger.of_parts(*parts)
    share, low, high = share_interval(m, _case(m, side, waits, ALONE).removed_ns)
    if share < WAIT_SHARE:
        return _may_gain(m, side, waits)
    if m.machine.load.busy:
        return NotJudged(rule=NAME, reason=RECEIVING_ON_BUSY_MACHINE(share=share))
    counterfactual = _without_workers(m, side, waits)
    waited_ns, made_ns = float(waits.mean()), _made_here_ns(m, side, EXPECTED)
    evidence = (
        Evidence(name="waiting for a batch", value=waited_ns / 1e6, unit="ms per step", threshold=made_ns / 1e6),
        Evidence(name="making it without workers", value=made_ns / 1e6, unit="ms per step", where=m.input.loader.data_set),
        Evidence(name="making it in a worker", value=side.wall_ns / 1e6, unit="ms per step"),
        workers_set(m, m.input.loader.num_workers),
        saved_by(m, counterfactual),
    )
    finding = Finding(
        rule=NAME,
        stage="preprocess",
        title=f"a batch could be made in {format_duration(made_ns)} without workers: "
        f"waiting for those that workers make takes {format_duration(waited_ns)}",
        share=share,
        share_low=low,
        share_high=high,
        claims=parts,
        evidence=evidence,
        gain=predict(m, counterfactual),
        fixes=(
            fix_of_its_loader(m, m.training.words.write({Remedy.WORKERS: 0}) or "read the loader without workers", workers_lever(0)),
            Fix(text=f"of data that is in memory, index the tensors by whole batches, without a {m.training.words.loader_class}"),
        ),
        # Where they send their state with each batch that is what takes time to receive.
        names_cause=not sends_state(m),
    )
    return Judged(finding=finding, counterfactual=counterfactual)


def _parts_of_waits(m: Measurements) -> tuple[Part, ...]:
    """What the training waits for its input, but for what is made anew between passes: that stays."""
    rebuilt = () if m.input.rebuilt is None else m.input.rebuilt.parts
    return tuple(part for part in (*m.ledger.parts_of("read"), *m.ledger.parts_of("preprocess")) if part not in rebuilt)


def _may_gain(m: Measurements, side: InputSide, waits: Floats) -> NotJudged | None:
    """That taking the workers away may matter where it is not expected to; None where it cannot, or others make all waits longer."""
    optimistic, pessimistic = (
        _case(m, side, waits, assumed).removed_ns.sum() / m.step_ns.sum() for assumed in (ALONE_OPTIMISTIC, ALONE_PESSIMISTIC)
    )
    if optimistic < MAY_MATTER or m.machine.load.busy:
        return None
    reason = WITHOUT_WORKERS_MAY_GAIN(
        workers=m.training.words.name_of(Remedy.WORKERS, "workers"), shorter=optimistic, longer=max(-pessimistic, 0.0)
    )
    return NotJudged(rule=NAME, reason=reason, lever=of_its_loader(m, workers_lever(0)))


def _without_workers(m: Measurements, side: InputSide, waits: Floats) -> Counterfactual:
    return Counterfactual(
        assumes="the training thread made a batch as fast as a worker, and the loader's own collating were four times as fast",
        expected=_case(m, side, waits, EXPECTED),
        pessimistic=_case(m, side, waits, PESSIMISTIC),
        optimistic=_case(m, side, waits, OPTIMISTIC),
    )


def _case(m: Measurements, side: InputSide, waits: Floats, assumed: _Assumed) -> Case:
    freed = assumed.queued * side.queued_ns
    own = m.step_ns - waits - freed
    copying = copying_after_forks(m, own, assumed.after_fork)
    tensors = 0.0 if m.input.facts.forms is None else max(m.input.facts.forms.tensors - 2, 0.0)
    longer = assumed.slowed * (own - copying)
    mapped = assumed.mapped_ns + np.minimum(tensors * assumed.unmapped_ns, MOST_UNMAPPING * (own - copying))
    removed = waits + freed + copying + mapped - _made_here_ns(m, side, assumed) - longer
    return Case(removed_ns=removed, delay_share=share_queued(freed, removed))


def _made_here_ns(m: Measurements, side: InputSide, assumed: _Assumed) -> float:
    """What the training thread would need for a batch, ns per step."""
    by_default = m.input.loader is not None and bool(m.input.loader.collate_is_default)
    making = _working(m, side) if assumed.makes_at_once else 1.0
    return making * (side.wall_ns - (1 - assumed.collated) * (m.input.demand.collate_ns or 0.0) * by_default)


def _working(m: Measurements, side: InputSide) -> float:
    """The part of the workers' time in which they do not wait for a core: they compute or are blocked."""
    return min(side.cpu_ns / max(side.wall_ns, 1.0) + (m.input.demand.blocked_share or 0.0), 1.0)


RULE = Rule(
    name=NAME, stages=("preprocess",), topics=("compute", "input", "ledger", "machine", "over_time", "steps", "training"), judge=judge
)
