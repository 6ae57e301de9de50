"""The operations of a step are called from Python one by one.

What it sees:
    In a few steps every operation that TensorFlow is handed from Python is timed, and the processor time of the Python between them. There
    are at least ten of them in a step, and one call of a traced function would take at least 3 % of the window less. Of an eager step whose
    operations are large, that is little, and of a loop that sleeps or prepares data in Python too: neither is counted here.
Why it costs:
    Handing over an operation takes some 10 us inside of TensorFlow, and 20 to 60 us of Python before it (layers, gradients, optimizer),
    whatever it computes; a traced function runs the same operations without Python in a few us each.
How the gain is predicted:
    r is the Python between operations, and what these take beyond their computing, less what a call of a traced function takes for as many
    (calibration.py). They are taken to compute for as long as they take beyond four times the shortest ones; in the interval for as long as
    they take beyond the shortest ones, and beyond sixteen times as long. B is what the loader's workers, or the slowest stage of a tf.data
    pipeline, need per step.
When it is wrong:
    What Python does between two operations for 1 ms and more is none of it (at best up to 4 ms of it are); shorter Python of the script's
    own is: a traced function does it once. Operations that tracing merges or leaves out gain more than is predicted. Where operations
    return before they are done (an accelerator) it is not judged: nothing tells whether the device waits for them. A loop without an
    optimizer of Keras is not seen, nor is a function of JAX that is not compiled.
What to try:
    compile() without run_eagerly=True, no tf.config.run_functions_eagerly(True), or tf.function around the whole step. What Python does in
    the step (prints, .numpy(), lists that grow) is done once, when it is traced.
"""

from __future__ import annotations

import numpy as np

from slowstep import calibration
from slowstep.analyses.compute.dispatched import Dispatched
from slowstep.analyses.events.parts import piece
from slowstep.analyses.measurements import Measurements
from slowstep.analyses.steps.steps import Floats
from slowstep.diagnosis.evidence.made_beside import made_beside_ns
from slowstep.diagnosis.evidence.trainer_side import PESSIMISTIC_BESIDE
from slowstep.diagnosis.gain import Case, Counterfactual, predict, saved_by, share_interval
from slowstep.diagnosis.lever_specs import RUN_EAGERLY_OFF
from slowstep.diagnosis.rule import CLAIM, Answer, Judged, Rule
from slowstep.findings import Evidence, Finding, Fix, NotJudged
from slowstep.frameworks._remedies import Remedy
from slowstep.parts import PartKind
from slowstep.reasons import Wording
from slowstep.units import format_share

NAME = "eager-step"
# A step that is one call has fewer, with those that fetch its batch and look at what it gave.
FEWEST_OPERATIONS = 10
# Fewer timed steps may be those that are not like the others: an epoch's last, one with a validation.
FEWEST_TIMED = 4
# Of compute: what holds less of it is one of several things that do.
MOST = 0.5
CALL, OPERATION = calibration.GRAPH_CALL, calibration.OPERATION_IN_GRAPH

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
    """Whether handing over operations from Python holds the step."""
    dispatched = m.compute.dispatched
    # PyTorch has no other way to compute than this one, and what is a call of a compiled function is none of it.
    if dispatched is None or dispatched.operations < FEWEST_OPERATIONS:
        return None
    if dispatched.is_asynchronous:
        return NotJudged(rule=NAME, reason=ASYNCHRONOUS(operations=dispatched.operations))
    if dispatched.timed < FEWEST_TIMED:
        return NotJudged(rule=NAME, reason=FEW_TIMED(timed=dispatched.timed))
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
        title=f"{dispatched.operations:,.0f} operations of a step are called from Python one by one, which takes {format_share(share)} "
        "of the time",
        share=share,
        share_low=min(low, least[1]),
        share_high=max(high, most[2]),
        claims=of_compute if is_most else tuple(piece(part, NAME) for part in of_compute),
        evidence=(*_evidence(dispatched), saved_by(m, counterfactual)),
        gain=predict(m, counterfactual),
        fixes=(_fix(m),),
        names_cause=is_most,
    )
    return Judged(finding=finding, counterfactual=counterfactual)


def _evidence(dispatched: Dispatched) -> tuple[Evidence, ...]:
    return (
        Evidence(name="operations", value=dispatched.operations, unit="per step", threshold=FEWEST_OPERATIONS),
        Evidence(name="handing one over", value=dispatched.low_ns / 1e3, unit="us", where="the shortest tenth"),
        Evidence(name="Python between them", value=dispatched.python.expected / 1e6, unit="ms"),
        Evidence(name="their computing", value=dispatched.kernels.expected / 1e6, unit="ms"),
        Evidence(name="timed in", value=dispatched.timed, unit="steps"),
    )


def _fix(m: Measurements) -> Fix:
    """Of a loop of the framework's own, which calls the optimizer unseen, an option; else the script's function is to be traced."""
    words = m.training.words
    return (
        Fix(text=words.advise(Remedy.STEP_IN_ONE_CALL))
        if m.trainer.has_optimizers
        else Fix(text=words.advise(Remedy.NO_EAGER), lever=RUN_EAGERLY_OFF)
    )


def _counterfactual(m: Measurements, dispatched: Dispatched) -> Counterfactual:
    (call_low, call_high), (low, high) = CALL.bounds, OPERATION.bounds
    count, kernels, python = dispatched.operations, dispatched.kernels, dispatched.python

    def case(python_ns: float, kernels_ns: float, graph_ns: float) -> Case:
        return _case(m, dispatched, max(python_ns + dispatched.operations_ns - kernels_ns - graph_ns, 0.0))

    expected = case(python.expected, kernels.expected, CALL.value + count * OPERATION.value)
    pessimistic = case(python.low, kernels.high, call_high + count * high)
    return Counterfactual(
        assumes="the step were a call of one traced function",
        expected=expected,
        pessimistic=Case(
            removed_ns=pessimistic.removed_ns,
            concurrent_ns=PESSIMISTIC_BESIDE * expected.concurrent_ns,
            delay_share=pessimistic.delay_share,
        ),
        optimistic=case(python.high, kernels.low, call_low + count * low),
    )


def _case(m: Measurements, dispatched: Dispatched, removed_ns: float) -> Case:
    """What is removed between two updates, by its share of what the thread does there; of each step in proportion to its compute."""
    compute, delay = m.ledger.of("compute"), m.ledger.of("compute", PartKind.CORE_WAIT)
    own = float((m.step_ns - m.ledger.of("preprocess", PartKind.CORE_WAIT) - delay).sum())
    of_own = float((compute - delay).sum())
    share = min(removed_ns / max(dispatched.own_ns, 1.0) * own / of_own, 1.0) if of_own > 0 else 0.0
    removed: Floats = np.asarray(compute * share)
    delayed = float(delay.sum() / compute.sum()) if compute.any() else 0.0
    return Case(removed_ns=removed, concurrent_ns=made_beside_ns(m, float(removed.mean())), delay_share=delayed)


RULE = Rule(name=NAME, stages=("compute",), topics=("compute", "input", "ledger", "machine", "steps", "trainer", "training"), judge=judge)
