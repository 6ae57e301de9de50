"""What somebody has named in a trace, beside the model: callbacks and writes, each judged as it is in a run."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Final

import numpy as np
import polars as pl

from slowstep.analyses.events.parts import COLUMNS, KERNELS, is_part, part_of, parts_of, piece
from slowstep.analyses.measurements import Measurements
from slowstep.analyses.replay.scenarios import NO_CALLBACKS, NO_WRITES
from slowstep.analyses.steps.steps import Floats
from slowstep.diagnosis.evidence.profiled.marked_steps import HOST_SHARE, by_step, per_step, share_of_steps, steps_seen
from slowstep.diagnosis.evidence.profiled.not_shown import no_device
from slowstep.diagnosis.gain import NOTHING_NS, RUN_TO_RUN, AnyCounterfactual, StepAfter, predict, saved_by, unknown_gain
from slowstep.diagnosis.lever_specs import CHECKPOINT_OFF
from slowstep.diagnosis.provider import Details, HeldTime, Provider, Unsure
from slowstep.diagnosis.replayed import Replayed
from slowstep.diagnosis.rule import CLAIM
from slowstep.findings import Evidence, Fix, Gain
from slowstep.part_words import is_named, part_in_words
from slowstep.parts import Part, PartKind, PieceKind
from slowstep.units import format_share


@dataclass(frozen=True, eq=False, slots=True)
class Shortened:
    """A counterfactual: from each step so much is taken away, shape (steps,), that the training thread does alone. A replay would need a
    device.
    """

    removed_ns: Floats
    assumes: str

    def gain(self, m: Measurements) -> Gain:
        """Low and high are those of the steps with least and most of it, and what two runs of one training differ by. Nothing is known of a
        step that nothing would be left of: then there is no high.
        """
        before = m.step_ns
        after = np.maximum(before - self.removed_ns, NOTHING_NS)
        if not before.sum() or not (after > NOTHING_NS).any():
            return unknown_gain(self.assumes)
        predicted, each = float(before.sum() / after.sum()), before / after
        low, high = float(each.min()) * (1 - RUN_TO_RUN), float(each.max()) * (1 + RUN_TO_RUN)
        is_open = not (after > NOTHING_NS).all()
        return Gain(predicted=predicted, low=min(low, predicted), high=None if is_open else max(high, predicted), assumes=self.assumes)

    def after(self, m: Measurements) -> StepAfter | None:
        """What is left of the mean step; None in a trace that marks no steps."""
        predicted = self.gain(m).predicted
        return None if predicted is None or m.marks.is_window else StepAfter(own_ns=m.mean_step_ns / predicted)

    def removed_ms(self, m: Measurements) -> float:
        """By how much the mean step gets shorter."""
        return float(np.minimum(self.removed_ns, m.step_ns).mean()) / 1e6


MOST = 0.5
# What the replay takes away besides is under a tenth of it.
NEARLY_ALL = 0.9


@dataclass(frozen=True, kw_only=True, slots=True)
class NamedStage:
    """A stage that only names tell, and what a rule says of a range of it: `alone` without a device, `waited` where one waits for it.

    `between_steps`: whether gaps between steps are its, too; of other ranges `gaps-between-steps` says what those cost.
    """

    stage: str
    scenario: str
    between_steps: bool
    alone: str
    waited: str
    assumes: str
    fixes: Callable[[str], tuple[Fix, ...]]


def _do_less(name: str) -> tuple[Fix, ...]:
    return (
        Fix(text=f"call {name} every k steps, or hand its work to a background thread or process"),
        Fix(text=f"do less in {name}: fewer images, smaller arrays, no read-back"),
    )


def _write_less(name: str) -> tuple[Fix, ...]:
    return (
        Fix(text=f"do {name} less often, or from a background thread on a copy of the state", lever=CHECKPOINT_OFF),
        Fix(text="leave out of the checkpoint what can be made again"),
    )


CALLBACKS: Final = NamedStage(
    stage="output",
    scenario=NO_CALLBACKS,
    between_steps=False,
    alone="runs on the training thread outside the model and takes",
    waited="holds the training thread inside the steps, and the device is idle:",
    assumes="what somebody has named outside the model took no time on the training thread",
    fixes=_do_less,
)
WRITES: Final = NamedStage(
    stage="store",
    scenario=NO_WRITES,
    between_steps=True,
    alone="writes on the training thread, which is blocked for",
    waited="writes on the training thread, and the device is idle:",
    assumes="writing checkpoints took no time on the training thread",
    fixes=_write_less,
)


def ranges(of: NamedStage) -> Provider:
    """What named ranges beside the model hold of the training thread, and with a device of the time in which it is idle."""
    return Provider(topics=("device", "facts", "marks", "replay"), find=partial(_ranges, of))


def _ranges(of: NamedStage, m: Measurements) -> HeldTime | None:
    return _beside_a_device(m, of) if m.device.seen else _without_device(m, of)


def _device_work(m: Measurements) -> HeldTime | None:
    rows = m.device.named_work
    if rows.is_empty():
        return None
    part = _largest(rows)
    own = rows.filter(is_part(part))
    held = by_step(m, own["step"], own["ns"])
    share, low, high = share_of_steps(m, held)
    details = partial(_of_device_work, m, part, share, held, int(own["kernels"].sum()))
    return HeldTime(share=share, low=low, high=high, at_least=CLAIM, details=details)


def _of_device_work(m: Measurements, part: Part, share: float, held: Floats, kernels: int) -> Details:
    named = part_in_words(part)
    return Details(
        stage="compute",
        title=f"the device computes for {named} {format_share(share)} of the time",
        claims=(piece(KERNELS, PieceKind.RANGE, of=part),),
        evidence=(
            Evidence(name="range", value=named, unit=""),
            Evidence(name="its kernels run", value=share, unit="share of window", threshold=CLAIM),
            Evidence(name="its kernels", value=kernels, unit="kernels"),
            _steps_with(held),
            steps_seen(m),
        ),
        counterfactual=None,
        gain=unknown_gain(f"{named} ran less often"),
        fixes=(Fix(text=f"do {named} less often, or on fewer batches: a trace of more steps shows how often it comes, and its cost"),),
        names_cause=True,
    )


# What the device computes for such a range: the ledger has it as the model's own work.
DEVICE_WORK: Final = Provider(topics=("device", "marks"), find=_device_work)


def _without_device(m: Measurements, of: NamedStage) -> HeldTime | None:
    parts = [part for part in m.ledger.parts_of(of.stage) if part.kind is not PartKind.VALIDATION]
    if not parts:
        return None
    part = max(parts, key=m.ledger.total_of)
    removed = per_step(m, part)
    share, low, high = share_of_steps(m, removed)
    # The device may compute meanwhile, or the range wait for it.
    unseen = no_device(m)
    unsure = None if unseen is None else Unsure(reason=unseen)
    return HeldTime(
        share=share, low=low, high=high, at_least=CLAIM, details=partial(_of_thread, m, of, part, share, removed), unsure=unsure
    )


def _of_thread(m: Measurements, of: NamedStage, part: Part, share: float, removed: Floats) -> Details:
    named = part_in_words(part)
    counterfactual = Shortened(removed, f"{named} took no time on the training thread")
    return Details(
        stage=of.stage,
        title=f"{named} {of.alone} {format_share(share)} of the time",
        opens_with_name=is_named(part),
        claims=(part,),
        evidence=_evidence(m, named, share, CLAIM, counterfactual, removed),
        counterfactual=counterfactual,
        gain=predict(m, counterfactual),
        fixes=of.fixes(named),
        names_cause=True,
    )


def _beside_a_device(m: Measurements, of: NamedStage) -> HeldTime:
    """Ranges are claimed that lie inside steps for the most part, and others where they are the rule's own."""
    rows = m.device.gaps.filter(pl.col("stage") == of.stage).with_columns(ns=pl.col("end_ns") - pl.col("start_ns"))
    within = pl.when(pl.col("between_steps")).then(0).otherwise(pl.col("ns")).sum().over(COLUMNS)
    gaps = rows if of.between_steps else rows.filter(within >= MOST * pl.col("ns").sum().over(COLUMNS))
    held = by_step(m, gaps["step"], gaps["ns"])
    share, low, high = share_of_steps(m, held)
    is_all = float(gaps["ns"].sum()) >= NEARLY_ALL * float(rows["ns"].sum())
    details = partial(_of_gaps, m, of, gaps, share, held, is_all=is_all)
    return HeldTime(share=share, low=low, high=high, at_least=HOST_SHARE, details=details)


def _of_gaps(m: Measurements, of: NamedStage, gaps: pl.DataFrame, share: float, held: Floats, *, is_all: bool) -> Details:
    """The replay takes all of the stage away: where that is more, the gain of these alone is not known."""
    largest, counterfactual = _largest(gaps), Replayed(of.scenario, of.assumes)
    named = part_in_words(largest)
    return Details(
        stage=of.stage,
        title=f"{named} {of.waited} {format_share(share)} of the time",
        opens_with_name=is_named(largest),
        claims=tuple(part_of(row) for row in gaps.select(COLUMNS).unique(maintain_order=True).iter_rows()),
        evidence=_evidence(m, named, share, HOST_SHARE, counterfactual, held),
        counterfactual=counterfactual if is_all else None,
        gain=predict(m, counterfactual) if is_all else unknown_gain(of.assumes),
        fixes=of.fixes(named),
        names_cause=True,
    )


def _evidence(
    m: Measurements, named: str, share: float, threshold: float, counterfactual: AnyCounterfactual, held: Floats
) -> tuple[Evidence, ...]:
    return (
        Evidence(name="range", value=named, unit=""),
        Evidence(name="beside the model", value=share, unit="share of window", threshold=threshold),
        saved_by(m, counterfactual),
        _steps_with(held),
        steps_seen(m),
    )


def _steps_with(held: Floats) -> Evidence:
    return Evidence(name="steps with it", value=int((held > 0).sum()), unit="steps")


def _largest(rows: pl.DataFrame) -> Part:
    held = {part: int(rows.filter(is_part(part))["ns"].sum()) for part in parts_of(rows)}
    return max(held, key=lambda part: held[part])
