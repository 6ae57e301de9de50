"""Backward makes gradients of parameters that no optimizer holds.

A teacher that is asked with its graph, a frozen part that is only left out of the optimizer, a network that is a loss.

What it sees:
    In backward passes that are looked at now and then, parameters that get a gradient and that no optimizer of the process holds, called or
    not; and how long these passes are in operations that lead to such parameters only, and in those that multiply for one gradient that is
    of use and one that is not. A finding needs passes that make gradients for an optimizer too; that the gradients are not written to
    between passes (cleared, clipped), have no hooks, and that the parameters stay as they are. At least 10 % of the time would be saved.
Why it costs:
    Backward takes some two thirds of what forward and backward take together; without it the network's forward is left. The graph also
    keeps what the forward has made, and each gradient is added to a sum that only grows.
How the gain is predicted:
    r is the time of those operations, in the median of the passes that were timed, and half of that of operations that multiply for both,
    times how much of that was saved in slowstep's benchmark (benchmarks/unused_gradients.py): what the forward saves by keeping nothing is
    in it. B is what the loader's workers need for a batch.
When it is wrong:
    Who reads gradients only, writes to nothing and clears nothing (a log of their norms, hooks on values inside the network) is not seen,
    and has none afterwards. Where gradients are cleared with all of a model's, clipped with others, or the parameters change (averages of
    others, updates by hand), it is not known whether they are of use, and nothing is claimed. On an accelerator no clock of the host's
    tells how long operations are: then it is advice. Of compiled code, of several ranks, and of passes that make gradients for no optimizer
    nothing is said.
What to try:
    Ask the network without a graph, where nothing that is trained lies below it; else freeze its parameters, which pass gradients on.
"""

from __future__ import annotations

import numpy as np

from slowstep.analyses.compute.unused_gradients import Taker, UnusedGradients
from slowstep.analyses.measurements import Measurements
from slowstep.analyses.steps.steps import Floats
from slowstep.calibration import computing
from slowstep.diagnosis.evidence.trainer_side import PESSIMISTIC_BESIDE, concurrent_producers_ns, delay_share, with_core_delay
from slowstep.diagnosis.gain import Case, Counterfactual, predict, saved_by, share_interval, unknown_gain
from slowstep.diagnosis.rule import Answer, Judged, Rule
from slowstep.findings import Evidence, Finding, Fix, NotJudged
from slowstep.frameworks._remedies import Remedy
from slowstep.parts import BACKWARD
from slowstep.reasons import Wording
from slowstep.units import format_share

NAME = "unused-gradients"
# Of the time: what saves less is no bottleneck.
WORTH = 0.10
# Parameters that were compared less often may be some that change now and then.
COMPARISONS = 2
# Of a backward: an optimizer gets the rest.
MOST_OF_BACKWARD = 0.98
SAVED, (SAVED_LOW, SAVED_HIGH) = computing.UNUSED_BACKWARD.value, computing.UNUSED_BACKWARD.bounds

NOT_LOOKED = Wording(
    "no-graph-of-gradients",
    "no whole graph of a backward pass was looked at, which would show gradients that nobody uses; record longer",
)
MAY_BE_USED = Wording(
    "gradients-may-be-used",
    "backward takes {share:share} of the time for gradients of {parameters:count parameter} that no optimizer holds, and whether they are "
    "of use is unknown: something writes to them or to the parameters; if they are not, {remedy}",
)
FEW_LOOKS = Wording(
    "few-looks-at-gradients",
    "backward takes {share:share} of the time for gradients of {parameters:count parameter} that no optimizer holds; record longer, to see "
    "whether anything else changes these",
)


def judge(m: Measurements) -> Answer:
    """Whether gradients are made that nobody uses."""
    if not m.trainer.has_optimizers or m.trainer.by_hand or m.sharing.ranks > 1:
        return None
    if share_interval(m, with_core_delay(m, BACKWARD))[0] < WORTH:
        return None
    found = m.compute.unused
    if found is None:
        return NotJudged(rule=NAME, reason=NOT_LOOKED(), advisory=True)
    if found.taken is Taker.NONE_MADE:
        return None
    if found.saved_ns is None:
        return _advice(m, found)
    return _timed(m, found)


def _timed(m: Measurements, found: UnusedGradients) -> Answer:
    share = share_interval(m, _removed_ns(m, found, SAVED))[0]
    if share < WORTH:
        return None
    if found.taken is Taker.BY_SOMEBODY:
        remedy = _remedy(m, found)
        return NotJudged(rule=NAME, reason=MAY_BE_USED(share=share, parameters=found.parameters, remedy=remedy))
    if found.comparisons < COMPARISONS:
        return NotJudged(rule=NAME, reason=FEW_LOOKS(share=share, parameters=found.parameters))
    return _judged(m, found)


def _judged(m: Measurements, found: UnusedGradients) -> Judged:
    share, low, high = share_interval(m, _removed_ns(m, found, 1.0))
    counterfactual = _counterfactual(m, found)
    finding = Finding(
        rule=NAME,
        stage="compute",
        title=f"for {format_share(share)} of the time backward makes gradients of {_whose(found)}, which no optimizer holds",
        share=share,
        share_low=low,
        share_high=high,
        claims=(BACKWARD,),
        evidence=(
            Evidence(name="backward of no use", value=share, unit="share of window", threshold=WORTH, where=found.name),
            *_counted(found),
            saved_by(m, counterfactual),
        ),
        gain=predict(m, counterfactual),
        fixes=(Fix(text=_remedy(m, found)),),
        names_cause=True,
    )
    return Judged(finding=finding, counterfactual=counterfactual)


def _advice(m: Measurements, found: UnusedGradients) -> Answer:
    """Where no clock tells how long the operations are."""
    if found.taken is not Taker.BY_NOBODY or found.comparisons < COMPARISONS or (found.operations or 0.0) < WORTH:
        return None
    finding = Finding(
        rule=NAME,
        stage="compute",
        title=f"backward makes gradients of {_whose(found)}, which no optimizer holds",
        share=0.0,
        share_low=0.0,
        share_high=1.0,
        claims=(),
        evidence=_counted(found),
        gain=unknown_gain("gradients were made for optimizers only"),
        fixes=(Fix(text=_remedy(m, found)),),
        advisory=True,
    )
    return Judged(finding=finding, counterfactual=None)


def _counted(found: UnusedGradients) -> tuple[Evidence, ...]:
    return (
        Evidence(name="its operations", value=found.operations, unit="share of backward's"),
        Evidence(name="parameters without an optimizer", value=found.parameters, unit="tensors"),
        Evidence(name="their elements", value=found.elements, unit="elements"),
        Evidence(name="passes that make such gradients", value=found.passes, unit="per step"),
    )


def _counterfactual(m: Measurements, found: UnusedGradients) -> Counterfactual:
    def case(saved: float, factor: float = 1.0) -> Case:
        removed = _removed_ns(m, found, saved)
        beside = factor * concurrent_producers_ns(m, spared_cpu_ns=float(removed.mean()))
        return Case(removed_ns=removed, concurrent_ns=beside, delay_share=delay_share(m, BACKWARD))

    return Counterfactual(
        assumes="gradients were made for optimizers only",
        expected=case(SAVED),
        pessimistic=case(SAVED_LOW, PESSIMISTIC_BESIDE),
        optimistic=case(SAVED_HIGH),
    )


def _removed_ns(m: Measurements, found: UnusedGradients, saved: float) -> Floats:
    """Time per step, with its share of the waits for a core; with what a forward keeps no more it may be more than backward has."""
    own_ns = float(m.ledger.of_parts(BACKWARD).mean())
    share = min((found.saved_ns or 0.0) / own_ns, MOST_OF_BACKWARD) if own_ns > 0 else 0.0
    return np.asarray(with_core_delay(m, BACKWARD) * share * saved)


def _whose(found: UnusedGradients) -> str:
    return found.name or f"{found.parameters:,} parameter{'' if found.parameters == 1 else 's'}"


def _remedy(m: Measurements, found: UnusedGradients) -> str:
    """Without a graph nothing is passed on to what is trained."""
    remedy = Remedy.FREEZE if found.passes_on else Remedy.NO_GRAPH
    return m.training.words.advise(remedy, network=found.name or "the network that has them")


RULE = Rule(
    name=NAME,
    stages=("compute",),
    topics=("compute", "input", "ledger", "machine", "sharing", "steps", "trainer", "training"),
    judge=judge,
)
