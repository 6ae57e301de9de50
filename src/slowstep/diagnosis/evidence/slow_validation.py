"""A validation that is slow in itself: it takes longer for a sample than the training's forward and backward do."""

from __future__ import annotations

from dataclasses import dataclass, replace
from enum import Enum

from slowstep.analyses.measurements import Measurements
from slowstep.analyses.over_time.validation_pace import ValidationPace
from slowstep.analyses.steps.steps import Floats
from slowstep.diagnosis.evidence.trainer_side import PESSIMISTIC_BESIDE, body_rest, concurrent_producers_ns
from slowstep.diagnosis.gain import Case, Counterfactual
from slowstep.findings import Evidence
from slowstep.parts import BACKWARD
from slowstep.shares import MOSTLY
from slowstep.stages import RESULT_STAGES
from slowstep.units import format_share

# More forwards for each sample are meant: views of it, or words written one after the other. Where they are not counted, calls of the model
# that hold most of a validation have another reason than batches that are too small where these are no less than half of the training's.
ONE_FORWARD = 1.5
SMALL_BATCH = 0.5
# A fifth lies within what two stretches of one training differ.
SLOWER = 1.2
# Of a step that computes: backward takes twice as long as the forward, for it computes the gradients of inputs and of weights.
FORWARD_SHARE = 1 / 3


class HeldBy(Enum):
    """What most of a validation is."""

    WAITING = "waiting for its batches"
    FORWARDS = "calls of the model"
    REST = "what is done with results"


@dataclass(frozen=True, kw_only=True, slots=True)
class SlowValidation:
    """How long a sample takes, what a whole step of the training takes for one, and what would be left: the training's own input and
    forward. All for samples of a validation's size.
    """

    pace: ValidationPace
    step_ns: float
    left_ns: float
    forward_ns: float

    @property
    def times(self) -> float:
        """Of a whole step."""
        return self.pace.sample_ns / self.step_ns

    @property
    def held_by(self) -> HeldBy:
        """Most of it."""
        if self.pace.waiting_share >= MOSTLY:
            return HeldBy.WAITING
        return HeldBy.FORWARDS if (self.pace.forward_share or 0.0) >= MOSTLY else HeldBy.REST


def slow_validation(m: Measurements) -> SlowValidation | None:
    """What is known of it; None where it is not slow, where it calls the model several times for a sample, and where that is unknown."""
    pace = None if m.over_time.validations is None else m.over_time.validations.pace
    if pace is None or m.trainer.is_asynchronous or _does_more(m, pace):
        return None
    forward_ns = _forward_ns(m, pace) * pace.larger
    found = SlowValidation(pace=pace, step_ns=pace.trained_ns * pace.larger, left_ns=pace.input_ns + forward_ns, forward_ns=forward_ns)
    return found if found.times >= SLOWER else None


def _does_more(m: Measurements, pace: ValidationPace) -> bool:
    """Whether it is known, or may be, that a validation does more for a sample than a forward."""
    if pace.forwards is not None:
        return pace.forwards > ONE_FORWARD
    if pace.waiting_share >= MOSTLY:
        return False
    if pace.forward_share is None:
        return True
    return pace.forward_share >= MOSTLY and not has_small_batches(m, pace)


def has_small_batches(m: Measurements, pace: ValidationPace) -> bool:
    """Whether its batches are less than half of the training's."""
    return pace.batch is not None and m.steps.batch_size is not None and pace.batch < SMALL_BATCH * m.steps.batch_size


def as_the_training(m: Measurements, ns: Floats, slow: SlowValidation, delay_share: float) -> Counterfactual:
    """The steps if validations, which take `ns` of them, took for a sample what the training takes for its input and forward."""

    def case(left_ns: float, beside: float) -> Case:
        removed = ns * max(1 - left_ns / slow.pace.sample_ns, 0.0)
        producers_ns = concurrent_producers_ns(m, spared_cpu_ns=float(removed.mean()))
        return Case(removed_ns=removed, concurrent_ns=beside * producers_ns, delay_share=delay_share)

    expected = case(slow.left_ns, 1.0)
    return Counterfactual(
        assumes="a sample took in a validation what its input and forward take in the training",
        expected=expected,
        pessimistic=case(slow.step_ns, PESSIMISTIC_BESIDE),
        optimistic=replace(case(slow.forward_ns, 1.0), concurrent_ns=expected.concurrent_ns),
    )


def evidence_of(slow: SlowValidation) -> tuple[Evidence, ...]:
    """How slow, and what holds it."""
    pace = slow.pace
    held = Evidence(name="of it in", value=pace.function, unit="", where=format_share(pace.function_share)) if pace.function else None
    return (
        Evidence(name="one sample validated", value=pace.sample_ns / 1e6, unit="ms", threshold=slow.step_ns / 1e6),
        Evidence(name="one sample trained on", value=pace.trained_ns / 1e6, unit="ms", where="input, forward, backward and update"),
        Evidence(name="its forward", value=slow.forward_ns / 1e6, unit="ms"),
        Evidence(name="its batches", value=pace.batch, unit="samples"),
        Evidence(name="calls of the model", value=pace.forward_share, unit="share of validating"),
        *(() if held is None else (held,)),
    )


def _forward_ns(m: Measurements, pace: ValidationPace) -> float:
    """Of the training's, with what else is done before its backward; a third of what a step computes where the host does not wait for it,
    or that is not known apart.
    """
    if m.compute.device == "cpu":
        if pace.forward_ns is not None:
            return pace.forward_ns
        if m.ledger.of_parts(BACKWARD).any() and (before := float(body_rest(m).sum())) > 0:
            return before / float(m.steps.samples.sum())
    computes = sum(m.ledger.share(stage) for stage in ("compute", "d2h"))
    of_training = 1 - sum(m.ledger.share(stage) for stage in RESULT_STAGES)
    return FORWARD_SHARE * pace.trained_ns * computes / of_training if of_training > 0 else 0.0
