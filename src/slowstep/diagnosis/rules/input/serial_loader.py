"""The training thread makes its batches itself, between the steps.

What it sees:
    A DataLoader with num_workers=0 feeds the training, or a loop without a loader does something before its forward, by lines that were
    timed in a few steps or else by stacks; or a framework counts how long it waits for batches, and has no workers. Making batches takes at
    least 5 % of the window.
Why it costs:
    While a batch is made the model waits, and while the model computes no batch is made. A worker process makes the next batch meanwhile.
How the gain is predicted:
    r is the time in which the training thread makes batches, less the receipt of each batch from a worker (1 ms assumed, 0.3 to 2 ms). Of
    several loaders only those get workers whose batches take longer than that to make. B is the time of making batches divided by the
    workers proposed, not below the CPU time of training, making batches and receipt divided by the cores that the process may use. At worst
    the worker slows the training by an eighth (they share caches, memory, and often a physical core), and workers that bind take a tenth
    longer at the same time. Not at all where the training computes with several threads that leave less than half of the cores that
    workers would need: its operations then wait for the thread whose core was taken. Measured on two cores: 0.65 to 0.94 times as fast with
    a worker, and half as fast in steps of 3 ms. Nothing is found there where workers would save less than 3 % even on cores of their own.
When it is wrong:
    Very large batches cost more to receive than assumed. A dataset that cannot be pickled or forked needs work first, and workers
    do not see what the training changes after they started: a replay memory is better made faster where it is. In a loop without a
    loader, input that is fetched after the update for the next step counts as output: its function is named by slow-callback.
What to try:
    DataLoader(..., num_workers=N), with persistent_workers=True where epochs are short; the loop's own input goes into a Dataset first.
    Input of the script's own, which slowstep.steps() names, is made in a background thread or process.
"""

from __future__ import annotations

from slowstep.analyses.batches.counted_work import CountedWork
from slowstep.analyses.batches.loader import Loader
from slowstep.analyses.input.loop_input import LoopInput
from slowstep.analyses.measurements import Measurements
from slowstep.analyses.python.calls import DOMINANT_SHARE
from slowstep.diagnosis.evidence.input.by_workers import fix_by_workers, gain_by_workers, handed_over, made_by_workers, workers_set
from slowstep.diagnosis.evidence.input.faster_making import or_faster
from slowstep.diagnosis.evidence.input.input_causes import most_of_making
from slowstep.diagnosis.evidence.input.input_side import (
    WAIT_SHARE,
    claims,
    crowded,
    find_side,
    is_made_by_pipeline,
    side_of_counted,
    side_of_loop,
    wait_stage,
    workers_needed,
)
from slowstep.diagnosis.evidence.input.loop_side import known_by, made_in_loop, spread_of_loop_input, workers_unknown
from slowstep.diagnosis.gain import Counterfactual, saved_by, share_interval
from slowstep.diagnosis.rule import Answer, Judged, Rule
from slowstep.findings import Evidence, Finding, Fix, NotJudged
from slowstep.frameworks._remedies import Remedy
from slowstep.part_words import is_plural, part_in_words, part_place, part_without_place
from slowstep.parts import Part, PartKind
from slowstep.reasons import Reason

NAME = "serial-loader"
BACKGROUND_THREAD = Fix(text="make the next batch in a background thread, where what makes it releases the GIL")


def judge(m: Measurements) -> Answer:
    """Whether the training thread makes its own batches, and what workers would gain."""
    if m.input.counted is not None and m.input.counted.num_workers == 0:
        return _judge_counted(m, m.input.counted)
    if (made := made_in_loop(m)) is not None:
        return _judge_loop(m, made)
    # Of a pipeline whose stages were looked at slow-pipeline knows who makes its batches.
    if m.input.loader is None or m.input.loader.num_workers > 0 or is_made_by_pipeline(m):
        return None
    side = find_side(m)
    if isinstance(side, Reason):
        return NotJudged(rule=NAME, reason=side)
    share, low, high = share_interval(m, side.removable_ns)
    if share < WAIT_SHARE:
        return None
    handed = handed_over(m, side)
    workers, taken = workers_needed(handed.side, 0), crowded(m, handed.side)
    counterfactual = made_by_workers(handed.side, workers, receipts=handed.receipts)
    gain = gain_by_workers(m, counterfactual, taken)
    if gain is None:
        return None
    finding = Finding(
        rule=NAME,
        stage=wait_stage(m),
        title=f"the training thread makes its batches itself{_set_so(m, m.input.loader)}, so making them and training never overlap",
        share=share,
        share_low=low,
        share_high=high,
        claims=claims(m),
        evidence=_evidence(m, m.input.loader, share, counterfactual),
        gain=gain,
        fixes=(fix_by_workers(m, handed, workers), *or_faster(m, side)),
    )
    return Judged(finding=finding, counterfactual=counterfactual if taken is None else None)


def _evidence(m: Measurements, loader: Loader, share: float, counterfactual: Counterfactual) -> tuple[Evidence, ...]:
    return (
        _who_makes(m, loader),
        Evidence(name="making batches", value=share, unit="share of window", threshold=WAIT_SHARE),
        *most_of_making(m),
        saved_by(m, counterfactual),
        Evidence(name="workers need", value=counterfactual.expected.concurrent_ns / 1e6, unit="ms per step"),
    )


def _who_makes(m: Measurements, loader: Loader) -> Evidence:
    if loader.is_marked:
        return Evidence(name="input of the script's own", value=str(loader.dataset), unit="", where="in slowstep.steps()")
    if not m.training.words.sets_workers():
        return Evidence(name="input", value=m.training.words.loader_class, unit="", where=loader.data_set)
    return workers_set(m, 0, threshold=1, where=loader.data_set)


def _set_so(m: Measurements, loader: Loader) -> str:
    words = m.training.words
    return "" if loader.is_marked or not words.sets_workers() else f" ({words.name_of(Remedy.WORKERS, 'workers')}=0)"


def _judge_counted(m: Measurements, counted: CountedWork) -> Answer:
    """Of a framework that reads its input itself, and keeps sums of what it waits."""
    side = side_of_counted(m)
    if isinstance(side, Reason):
        return NotJudged(rule=NAME, reason=side)
    share, low, high = share_interval(m, side.removable_ns)
    if share < WAIT_SHARE:
        return None
    workers, taken = workers_needed(side, 0), crowded(m, side)
    counterfactual = made_by_workers(side, workers, receipts=counted.batches)
    gain = gain_by_workers(m, counterfactual, taken)
    if gain is None:
        return None
    evidence = (
        workers_set(m, 0, threshold=1, where=counted.data_set),
        Evidence(name="making batches", value=share, unit="share of window", threshold=WAIT_SHARE),
        saved_by(m, counterfactual),
    )
    finding = Finding(
        rule=NAME,
        stage="preprocess",
        title=f"{m.training.words.title} makes each batch when it is to train on it, so making them and training never overlap",
        opens_with_name=True,
        share=share,
        share_low=low,
        share_high=high,
        claims=claims(m, PartKind.INPUT_WAIT),
        evidence=evidence,
        gain=gain,
        fixes=(Fix(text=m.training.words.advise(Remedy.WORKERS, workers)),),
    )
    return Judged(finding=finding, counterfactual=counterfactual if taken is None else None)


def _judge_loop(m: Measurements, made: LoopInput) -> Answer:
    others = float(made.others_ns.sum() / m.step_ns.sum())
    if others >= WAIT_SHARE and made.other is not None:
        # What the script's own threads make is judged by slow-prefetch-thread.
        return None if made.other.kind is PartKind.THREAD_WAIT else NotJudged(rule=NAME, reason=workers_unknown(made.other))
    side = side_of_loop(m, made)
    if isinstance(side, Reason):
        return NotJudged(rule=NAME, reason=side)
    share, low, high = share_interval(m, side.removable_ns)
    if share < WAIT_SHARE or made.largest is None:
        return None
    spread = spread_of_loop_input(m, made)
    workers, taken = workers_needed(side, 0), crowded(m, side)
    counterfactual = made_by_workers(side, workers, spread)
    gain = gain_by_workers(m, counterfactual, taken)
    if gain is None:
        return None
    finding = Finding(
        rule=NAME,
        stage="read" if made.blocked_ns.sum() > made.made_ns.sum() else "preprocess",
        title=f"the training loop makes its batches itself, in {part_in_words(made.largest)}, so making them and training never overlap",
        share=share,
        share_low=low * spread.low,
        share_high=min(high * spread.high, 1.0),
        claims=made.claims,
        evidence=_loop_evidence(m, made, made.largest, share, counterfactual),
        gain=gain,
        fixes=(
            Fix(
                text=f"{_moved_aside(m, part_without_place(made.largest), workers, is_plural=is_plural(made.largest))}, "
                "if it needs nothing that the training changes meanwhile (as a replay memory)"
            ),
            *(() if _is_python(made) else (BACKGROUND_THREAD,)),
        ),
        names_cause=True,
    )
    return Judged(finding=finding, counterfactual=counterfactual if taken is None else None)


def _loop_evidence(m: Measurements, made: LoopInput, largest: Part, share: float, counterfactual: Counterfactual) -> tuple[Evidence, ...]:
    return (
        Evidence(name="made in the loop", value=part_without_place(largest), unit="", where=part_place(largest)),
        Evidence(name="making batches", value=share, unit="share of window", threshold=WAIT_SHARE),
        Evidence(name="of it blocked", value=float(made.blocked_ns.mean()) / 1e6, unit="ms per step"),
        known_by(m, made),
        saved_by(m, counterfactual),
    )


def _moved_aside(m: Measurements, name: str, workers: int, *, is_plural: bool) -> str:
    words = m.training.words
    made = f"{name} {'do' if is_plural else 'does'}"
    return words.advise(Remedy.MOVE_ASIDE, made=made, workers=words.write({Remedy.WORKERS: workers}) or "worker processes")


def _is_python(made: LoopInput) -> bool:
    """Whether what makes the batches holds the GIL all the time."""
    return made.maker is not None and (made.maker.python_share or 0.0) >= DOMINANT_SHARE


RULE = Rule(
    name=NAME, stages=("read", "preprocess"), topics=("compute", "input", "ledger", "machine", "steps", "trainer", "training"), judge=judge
)
