"""The operations of a step are dispatched from Python one by one.

What it sees:
    Operations that the host dispatches one by one where the framework could compile them, and that compiling them would take at least 3 %
    of the window away. Where operations return when they are done, each is timed in a few steps, with the processor time of the Python
    between them; a step has at least ten of them. Where they return before, the device is asked with every stack of the training thread
    whether it has anything to do: the thread stands beneath a line of the user's in single operations, and the device idles.
    What brings batches to the device is none of it, nor a loop that sleeps or prepares data, nor metrics and logs after the step.
Why it costs:
    Handing over an operation takes 10 to 30 us in the framework's runtime, and 20 to 60 us more of Python where layers, gradients and the
    optimizer are Python too, whatever it computes; a compiled step is one call, whose operations take a few us each or are fused.
How the gain is predicted:
    r is that time, less what a compiled call takes (calibration/compiling.py): where operations were counted, as long as to hand over
    five of them (2 to 20) and 2 % of all (0.5 to 6 %), else 5 % of all (at best nothing, at worst 20 %); and 45 % of what small
    operations compute, by fusing (at best half of what large ones do; at worst all take 1.8 times as long, as small convolutions do, or
    what a device did meanwhile was none of theirs). Operations that were timed compute for as long as they take beyond four times the
    shortest ones, and as their helpers do; in the interval for as long as they take beyond the shortest ones, and beyond sixteen times as
    long, as large ones do. Waits of helpers for a core are none of it. B is what the loader's workers, or the slowest stage of a
    pipeline, need per step.
When it is wrong:
    What Python does between two timed operations for 1 ms and more is none of it (at best up to 4 ms of it are); shorter Python of the
    script's own is: a compiled step does it once. Operations that compiling merges or leaves out gain more than is predicted. Where
    operations return before they are done, and nothing tells whether the device waits for them, it is not judged. The share that stacks
    tell is of some twenty a second: in short recordings its bounds are wide. What Python must decide between two operations cannot be
    compiled as it is. An update without a known optimizer is not seen where operations are timed.
What to try:
    Compile the whole step, gradients and update (tf.function, jax.jit), or take away what keeps the framework from it (Keras' compile()
    with run_eagerly=True, tf.config.run_functions_eagerly(True)). What Python does in the step (prints, .numpy(), lists that grow) is
    done once, when it is compiled.
"""

from __future__ import annotations

import numpy as np

from slowstep.analyses.compute.dispatched import FEWEST_OPERATIONS, Dispatched
from slowstep.analyses.compute.timed_operations import TimedOperations
from slowstep.analyses.events.parts import piece
from slowstep.analyses.ledger.by_operation import ByOperation
from slowstep.analyses.measurements import Measurements
from slowstep.analyses.python.functions import shown
from slowstep.analyses.steps.cell_code import TOP_LEVEL
from slowstep.analyses.steps.steps import Floats
from slowstep.calibration import compiling
from slowstep.diagnosis.evidence.compute.next_batch import next_batch_ns
from slowstep.diagnosis.evidence.trainer_side import PESSIMISTIC_BESIDE
from slowstep.diagnosis.gain import Case, Counterfactual, predict, saved_by, share_interval
from slowstep.diagnosis.lever_specs import RUN_EAGERLY_OFF
from slowstep.diagnosis.rule import CLAIM, Answer, Judged, Rule
from slowstep.findings import Evidence, EvidenceCode, Finding, Fix, NotJudged
from slowstep.frameworks._remedies import Remedy
from slowstep.parts import PartKind, PieceKind
from slowstep.reasons import Wording
from slowstep.units import format_share

NAME = "eager-step"
# Fewer timed steps may be those that are not like the others: an epoch's last, one with a validation.
FEWEST_TIMED = 4
# Of compute: what holds less of it is one of several things that do.
MOST = 0.5
CALL, OPERATION = compiling.COMPILED_CALL, compiling.COMPILED_OPERATION
LEFT, LARGE, SMALL = compiling.HANDING_OVER_LEFT, compiling.COMPILED_LARGE, compiling.COMPILED_SMALL

ASYNCHRONOUS = Wording(
    "eager-and-asynchronous",
    "{operations:,.0f} operations a step are called from Python one by one, which return before they are done: "
    "whether the device waits for them is not known",
)

FEW_TIMED = Wording(
    "few-timed-operations",
    f"operations that are called from Python one by one were timed in {{timed:count step}}, and {FEWEST_TIMED} are needed; record longer",
)


def judge(m: Measurements) -> Answer:
    """Whether dispatching operations one by one holds the step."""
    dispatched = m.compute.dispatched
    # A framework that has no other way to compute tells of none, and what is a call of a compiled function is none of it.
    if dispatched is None or dispatched.is_one_call or dispatched.own_ns <= 0:
        return None
    timed = dispatched.timed
    if timed is not None and timed.is_asynchronous:
        return NotJudged(rule=NAME, reason=ASYNCHRONOUS(operations=timed.operations))
    if timed is not None and timed.timed < FEWEST_TIMED:
        return NotJudged(rule=NAME, reason=FEW_TIMED(timed=timed.timed))
    return _judged(m, dispatched)


def _judged(m: Measurements, dispatched: Dispatched) -> Judged | None:
    counterfactual = _counterfactual(m, dispatched)
    removed = counterfactual.expected.removed_ns
    share, low, high = share_interval(m, removed)
    if share < CLAIM:
        return None
    of_compute = m.ledger.parts_of("compute")
    is_most = float(removed.sum()) >= MOST * m.ledger.total("compute")
    least, most = (share_interval(m, case.removed_ns) for case in (counterfactual.pessimistic, counterfactual.optimistic))
    finding = Finding(
        rule=NAME,
        stage="compute",
        title=_title(m, dispatched, share),
        share=share,
        share_low=max(min(low, least[1]), 0.0),
        share_high=max(high, most[2]),
        claims=of_compute if is_most else tuple(piece(part, PieceKind.RULE, NAME) for part in of_compute),
        evidence=(*_evidence(m, dispatched), saved_by(m, counterfactual)),
        gain=predict(m, counterfactual),
        fixes=(_fix(m),),
        names_cause=is_most,
    )
    return Judged(finding=finding, counterfactual=counterfactual)


def _title(m: Measurements, dispatched: Dispatched, share: float) -> str:
    """How many there are, or beneath which line of the script's most of them are, whichever is known."""
    sampled, counted = dispatched.sampled, "" if dispatched.operations is None else f"{dispatched.operations:,.0f} "
    beneath = "" if sampled is None else f" in {_named(m, sampled)}"
    return f"{counted}operations of a step are called from Python one by one{beneath}, which takes {format_share(share)} of the time"


def _named(m: Measurements, sampled: ByOperation) -> str:
    where = _where(m, sampled)
    return f"line {where}" if TOP_LEVEL.fullmatch(sampled.frame.function) else f"{sampled.frame.function} ({where})"


def _where(m: Measurements, sampled: ByOperation) -> str:
    return f"{shown(sampled.frame.file, m.trainer.facts.script)}:{sampled.frame.line}"


def _evidence(m: Measurements, dispatched: Dispatched) -> tuple[Evidence, ...]:
    return (
        Evidence(name="handing operations over", value=dispatched.handing_over.expected / 1e6, unit="ms"),
        Evidence(name="their computing", value=dispatched.kernels.expected / 1e6, unit="ms"),
        *(() if dispatched.timed is None else _of_timed(dispatched.timed)),
        *(() if dispatched.sampled is None else _of_stacks(m, dispatched.sampled)),
    )


def _of_timed(timed: TimedOperations) -> tuple[Evidence, ...]:
    return (
        Evidence(name="operations", value=timed.operations, unit="per step", threshold=FEWEST_OPERATIONS),
        Evidence(name="handing one over", value=timed.low_ns / 1e3, unit="us", where="the shortest tenth"),
        Evidence(name="Python between them", value=timed.python.expected / 1e6, unit="ms"),
        Evidence(name="timed in", value=timed.timed, unit="steps", code=EvidenceCode.TIMED_IN),
    )


def _of_stacks(m: Measurements, sampled: ByOperation) -> tuple[Evidence, ...]:
    where = f"{_where(m, sampled)}, {sampled.most} samples"
    return (
        Evidence(name="device idle in single operations", value=sampled.idled, unit="samples", where=f"of {sampled.of} in steps"),
        Evidence(name="device busy in single operations", value=sampled.worked, unit="samples"),
        Evidence(name="most of them beneath", value=sampled.frame.function, unit="", where=where),
    )


def _fix(m: Measurements) -> Fix:
    """Of a loop of the framework's own, which calls the optimizer unseen, an option; else the script's function is to be compiled."""
    words = m.training.words
    if m.trainer.has_optimizers or not words.has(Remedy.NO_EAGER):
        return Fix(text=words.advise(Remedy.STEP_IN_ONE_CALL))
    return Fix(text=words.advise(Remedy.NO_EAGER), lever=RUN_EAGERLY_OFF)


def _counterfactual(m: Measurements, dispatched: Dispatched) -> Counterfactual:
    expected, pessimistic, optimistic = (_case(m, dispatched, removed_ns) for removed_ns in _removed(dispatched))
    return Counterfactual(
        assumes="the step were one call of a compiled function",
        expected=expected,
        pessimistic=Case(
            removed_ns=pessimistic.removed_ns,
            concurrent_ns=PESSIMISTIC_BESIDE * expected.concurrent_ns,
            delay_share=pessimistic.delay_share,
        ),
        optimistic=optimistic,
    )


def _removed(dispatched: Dispatched) -> tuple[float, float, float]:
    """What compiling takes off the mean step, in ns: as expected, at worst and at best."""
    handing_over, kernels = dispatched.handing_over, dispatched.kernels
    spared = handing_over.expected + kernels.expected, handing_over.low + kernels.high, handing_over.high + kernels.low
    (fastest, slowest), (call, call_low, call_high) = LARGE.bounds, _call_ns(dispatched)
    expected = LARGE.value * kernels.low + SMALL.value * (kernels.expected - kernels.low)
    # What is surely computed may be compiled to slower kernels; what a device did meanwhile may be none of theirs.
    most = kernels.high if dispatched.timed is None else max(kernels.high, slowest * kernels.expected)
    return spared[0] - call - expected, spared[1] - call_high - most, spared[2] - call_low - fastest * kernels.low


def _call_ns(dispatched: Dispatched) -> tuple[float, float, float]:
    """What one call of a compiled function takes for the operations, beside what they compute: as expected, at least and at most."""
    handing_over, (least, most) = dispatched.handing_over, LEFT.bounds
    if (count := dispatched.operations) is None:
        return LEFT.value * handing_over.expected, least * handing_over.high, most * handing_over.low
    each_ns, (call_low, call_high), (low, high) = handing_over.expected / count, CALL.bounds, OPERATION.bounds
    calls = ((CALL.value, OPERATION.value), (call_low, low), (call_high, high))
    expected, least, most = (each_ns * (call + count * operation) for call, operation in calls)
    return expected, least, most


def _case(m: Measurements, dispatched: Dispatched, removed_ns: float) -> Case:
    """What is removed, by its share of what the thread does; of each step in proportion to its compute. Less than nothing where it adds."""
    compute, delay = m.ledger.of("compute"), m.ledger.of("compute", PartKind.CORE_WAIT)
    own = float((m.step_ns - m.ledger.of("preprocess", PartKind.CORE_WAIT) - delay).sum())
    of_own = float((compute - delay).sum())
    share = min(removed_ns / dispatched.own_ns * own / of_own, 1.0) if of_own > 0 else 0.0
    removed: Floats = np.asarray(compute * share)
    delayed = float(delay.sum() / compute.sum()) if compute.any() else 0.0
    return Case(removed_ns=removed, concurrent_ns=next_batch_ns(m, float(removed.mean())), delay_share=delayed)


RULE = Rule(name=NAME, stages=("compute",), topics=("compute", "input", "ledger", "machine", "steps", "trainer", "training"), judge=judge)
