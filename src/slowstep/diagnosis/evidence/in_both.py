"""One function that runs in the steps' bodies and beside them: what it holds in both places, for one finding.

Calls that were timed in bodies tell one half, the gaps' exact length and their stacks the other. Of a step of several batches a timed body
holds what lies between them, too, so what the function takes there is in both halves, and counts once.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from slowstep.analyses.measurements import Measurements
from slowstep.analyses.python.functions import shown
from slowstep.analyses.python.outside_model import OutsideModel
from slowstep.analyses.steps.steps import Floats
from slowstep.diagnosis.evidence.after_update import TIMED_SPREAD
from slowstep.diagnosis.evidence.spread import TimeSpread
from slowstep.diagnosis.evidence.trainer_side import body_rest, with_core_delay
from slowstep.diagnosis.gain import Counterfactual, share_queued
from slowstep.parts import BODY, COLLECTION, CodePlace, Part, PartKind


@dataclass(frozen=True, kw_only=True, slots=True)
class InBoth:
    """Ns per step that the function takes in all: as expected, at least and at most."""

    expected: Floats
    queued: Floats  # what of it the body waited for a core
    low: Floats
    high: Floats


def in_both(m: Measurements, part: Part, own: Floats, spread: TimeSpread) -> InBoth | None:
    """None where the function of a `part` of gaps, which takes `own` per step there, known to `spread`, was not seen in bodies."""
    beside = m.compute.work.outside_model
    if beside is None or (beside.name, place_of(m, beside)) != (part.name, part.place) or part.kind is not PartKind.FUNCTION:
        return None
    body = body_rest(m)
    between = np.zeros_like(own) if m.ledger.between is None else m.ledger.between.gaps_ns
    gaps = m.ledger.of("output") + m.ledger.of("store") - m.ledger.of_parts(COLLECTION)
    # Where in its gaps a function runs is not known: at worst all that fits between batches, at best all that fits after
    # updates.
    after, after_at_most = np.maximum(own - between, 0.0), np.minimum(own * spread.high, np.maximum(gaps - between, 0.0))
    expected = np.maximum(body * beside.share + after, own)
    high = body * min(max(beside.high, beside.share * (1 + TIMED_SPREAD)), 1.0) + after_at_most
    return InBoth(
        expected=expected,
        queued=(with_core_delay(m, BODY) - m.ledger.of_parts(BODY)) * beside.share,
        low=np.minimum(np.maximum(body * beside.low + after * spread.low, own * spread.low), expected),
        high=np.maximum(high, expected),
    )


def place_of(m: Measurements, beside: OutsideModel) -> CodePlace:
    """Where it begins."""
    return CodePlace(shown(beside.file, m.trainer.facts.script), beside.first_line)


def of_both(counterfactual: Counterfactual, held: InBoth) -> Counterfactual:
    """The counterfactual of a function's gaps, for all that it holds."""
    gaps = counterfactual.expected
    # What is not the gaps' is the body's. How much of it is delay is known of what is expected, and held to be so in the pessimistic and
    # the optimistic case.
    queued = share_queued(np.minimum(gaps.removed_ns, held.expected) * gaps.delay_share + held.queued, held.expected)
    return replace(
        counterfactual,
        expected=replace(gaps, removed_ns=held.expected, delay_share=queued),
        pessimistic=replace(counterfactual.pessimistic, removed_ns=held.low, delay_share=queued),
        optimistic=replace(counterfactual.optimistic, removed_ns=held.high, delay_share=queued),
    )
