"""What somebody has named in a trace, beside the model: callbacks and writes, each judged as it is in a run."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Final

import numpy as np
import polars as pl

from slowstep.analyses.events.parts import COLUMNS, KERNELS, is_part, part_of, parts_of, piece
from slowstep.analyses.measurements import Measurements
from slowstep.analyses.replay.scenarios import NO_CALLBACKS, NO_WRITES
from slowstep.analyses.steps.steps import Floats
from slowstep.diagnosis.evidence.marked.marked_steps import HOST_SHARE, by_step, per_step, share_of_steps, steps_seen
from slowstep.diagnosis.evidence.marked.not_shown import no_device
from slowstep.diagnosis.gain import NOTHING_NS, RUN_TO_RUN, AnyCounterfactual, StepAfter, predict, saved_by, unknown_gain
from slowstep.diagnosis.lever_specs import CHECKPOINT_OFF
from slowstep.diagnosis.replayed import Replayed
from slowstep.diagnosis.rule import CLAIM, Answer, Judged
from slowstep.findings import Evidence, Finding, Fix, Gain, NotJudged
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


def judge_ranges(m: Measurements, name: str, of: NamedStage) -> Answer:
    """Whether named ranges beside the model hold the training thread, and with a device keep it idle; `name` is the rule's."""
    return _beside_a_device(m, name, of) if m.device.seen else _without_device(m, name, of)


def judge_device_work(m: Measurements, name: str) -> Answer:
    """Whether the device computes for such a range: the ledger has it as the model's own work. `name` is the rule's."""
    rows = m.device.named_work
    if rows.is_empty():
        return None
    part = _largest(rows)
    named, own = part_in_words(part), rows.filter(is_part(part))
    held = by_step(m, own["step"], own["ns"])
    share = share_of_steps(m, held)
    if share[0] < CLAIM:
        return None
    finding = Finding(
        rule=name,
        stage="compute",
        title=f"the device computes for {named} {format_share(share[0])} of the time",
        share=share[0],
        share_low=share[1],
        share_high=share[2],
        claims=(piece(KERNELS, PieceKind.RANGE, of=part),),
        evidence=(
            Evidence(name="range", value=named, unit=""),
            Evidence(name="its kernels run", value=share[0], unit="share of window", threshold=CLAIM),
            Evidence(name="its kernels", value=int(own["kernels"].sum()), unit="kernels"),
            _steps_with(held),
            steps_seen(m),
        ),
        gain=unknown_gain(f"{named} ran less often"),
        fixes=(Fix(text=f"do {named} less often, or on fewer batches: a trace of more steps shows how often it comes, and its cost"),),
        names_cause=True,
    )
    return Judged(finding=finding, counterfactual=None)


def _without_device(m: Measurements, name: str, of: NamedStage) -> Answer:
    parts = [part for part in m.ledger.parts_of(of.stage) if part.kind is not PartKind.VALIDATION]
    if not parts:
        return None
    part = max(parts, key=m.ledger.total_of)
    removed, named = per_step(m, part), part_in_words(part)
    share = share_of_steps(m, removed)
    if share[0] < CLAIM:
        return None
    unseen = no_device(m)
    if unseen is not None:
        # The device may compute meanwhile, or the range wait for it.
        return NotJudged(rule=name, reason=unseen)
    title = f"{named} {of.alone} {format_share(share[0])} of the time"
    counterfactual = Shortened(removed, f"{named} took no time on the training thread")
    evidence = (*_held(m, named, share[0], CLAIM, counterfactual), _steps_with(removed), steps_seen(m))
    return _judged(m, name, of, named, (part,), share, evidence, title, counterfactual, opens_with_name=is_named(part))


def _beside_a_device(m: Measurements, name: str, of: NamedStage) -> Answer:
    """Ranges are claimed that lie inside steps for the most part, and others where they are the rule's own. The replay takes all of the
    stage away: where that is more, the gain of these alone is not known.
    """
    rows = m.device.gaps.filter(pl.col("stage") == of.stage).with_columns(ns=pl.col("end_ns") - pl.col("start_ns"))
    within = pl.when(pl.col("between_steps")).then(0).otherwise(pl.col("ns")).sum().over(COLUMNS)
    gaps = rows if of.between_steps else rows.filter(within >= MOST * pl.col("ns").sum().over(COLUMNS))
    held = by_step(m, gaps["step"], gaps["ns"])
    share = share_of_steps(m, held)
    if share[0] < HOST_SHARE:
        return None
    largest = _largest(gaps)
    named = part_in_words(largest)
    parts = tuple(part_of(row) for row in gaps.select(COLUMNS).unique(maintain_order=True).iter_rows())
    title = f"{named} {of.waited} {format_share(share[0])} of the time"
    is_all = float(gaps["ns"].sum()) >= NEARLY_ALL * float(rows["ns"].sum())
    counterfactual = Replayed(of.scenario, of.assumes)
    evidence = (*_held(m, named, share[0], HOST_SHARE, counterfactual), _steps_with(held), steps_seen(m))
    return _judged(m, name, of, named, parts, share, evidence, title, counterfactual if is_all else None, opens_with_name=is_named(largest))


def _held(m: Measurements, named: str, share: float, threshold: float, counterfactual: AnyCounterfactual) -> tuple[Evidence, ...]:
    return (
        Evidence(name="range", value=named, unit=""),
        Evidence(name="beside the model", value=share, unit="share of window", threshold=threshold),
        saved_by(m, counterfactual),
    )


def _steps_with(held: Floats) -> Evidence:
    return Evidence(name="steps with it", value=int((held > 0).sum()), unit="steps")


def _largest(rows: pl.DataFrame) -> Part:
    held = {part: int(rows.filter(is_part(part))["ns"].sum()) for part in parts_of(rows)}
    return max(held, key=lambda part: held[part])


def _judged(
    m: Measurements,
    name: str,
    of: NamedStage,
    named: str,
    claims: tuple[Part, ...],
    share: tuple[float, float, float],
    evidence: tuple[Evidence, ...],
    title: str,
    counterfactual: AnyCounterfactual | None,
    *,
    opens_with_name: bool,
) -> Judged:
    finding = Finding(
        rule=name,
        stage=of.stage,
        title=title,
        opens_with_name=opens_with_name,
        share=share[0],
        share_low=share[1],
        share_high=share[2],
        claims=claims,
        evidence=evidence,
        gain=unknown_gain(of.assumes) if counterfactual is None else predict(m, counterfactual),
        fixes=of.fixes(named),
        names_cause=True,
    )
    return Judged(finding=finding, counterfactual=counterfactual)
