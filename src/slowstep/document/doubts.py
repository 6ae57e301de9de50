"""What is doubtful about the measurements of a recording themselves, and what to do about it."""

from __future__ import annotations

import math

from slowstep.analyses.measurements import Measurements
from slowstep.analyses.python.functions import shown
from slowstep.analyses.steps.loader_changes import LoaderChange
from slowstep.analyses.steps.phases import Elsewhere
from slowstep.analyses.steps.steps import Steps
from slowstep.analyses.steps.trainer import Trainer
from slowstep.diagnosis.evidence.unnamed import RECORD_ALONE
from slowstep.diagnosis.gain import PACE_DEVIATIONS
from slowstep.document.captured import find_lost_capture
from slowstep.health import Health
from slowstep.units import format_count, format_share

# Two runs that may differ by twice the least gain of a verdict: who fixes something may not see it.
UNEVEN = 0.20
# Changes of the batch size, or of the loader, that are told one by one.
CHANGES_TOLD = 4


def find_doubts(m: Measurements) -> list[Health]:
    """What is doubtful about the measurements themselves."""
    rows = find_lost_capture(m.captured) if m.has("captured") else []
    if not m.python.has_stacks:
        rows.append(
            Health(
                name="no-stacks",
                severity="notice",
                count=1,
                remedy="no stack samples were taken, so functions cannot be named: record longer, at --level 1 or more",
            )
        )
    if (differ := math.exp(PACE_DEVIATIONS * m.machine.pace_spread) - 1) >= UNEVEN and not m.machine.load.busy:
        remedy = f"timings varied by {format_share(differ)} during the run, as on a shared machine; for a reliable figure: slowstep prove"
        rows.append(Health(name="uneven-pace", severity="notice", count=1, remedy=remedy))
    if m.steps.size_changes:
        rows.append(Health(name="batch-size-changed", severity="notice", count=len(m.steps.size_changes), remedy=_of_sizes(m.steps)))
    if m.input.loader_changes:
        remedy = _of_loaders(m.input.loader_changes)
        rows.append(Health(name="loader-changed", severity="notice", count=len(m.input.loader_changes), remedy=remedy))
    if m.trainer.elsewhere is not None:
        remedy = _of_others(m.trainer, m.trainer.elsewhere)
        rows.append(Health(name="other-trainings", severity="notice", count=len(m.trainer.elsewhere.anchors), remedy=remedy))
    if not m.steps.whole_periods:
        rows.append(
            Health(
                name="one-period",
                severity="info",
                count=1,
                remedy="fewer than two whole periods (epochs, checkpoints) were recorded: record longer for a narrower interval",
            )
        )
    if m.steps.only_counted:
        rows.append(
            Health(
                name="thinned",
                severity="info",
                count=m.steps.only_counted,
                remedy="the recording reached its size limit: details are kept for part of the steps",
            )
        )
    return rows


def _of_sizes(steps: Steps) -> str:
    """Where the batch size changed, and whether that is in the steps that are looked at."""
    told = _first_few([f"from {change.before} to {change.after} at step {change.step:,}" for change in steps.size_changes])
    looked_at = "values per step are means over steps of several sizes" if steps.batch_sizes else "the steps looked at are of one size"
    return f"the batch size changed {told}: {looked_at}"


def _of_loaders(changes: tuple[LoaderChange, ...]) -> str:
    """Where the training went on with another loader, and whether that is in the steps that are looked at."""
    told = _first_few([f"at step {change.step:,} from {change.before} to {change.after}" for change in changes])
    inside = any(change.inside for change in changes)
    looked_at = "values per step are means over all of them" if inside else "the steps looked at are of one of them"
    return f"the training went on with another loader {told}: {looked_at}"


def _of_others(trainer: Trainer, others: Elsewhere) -> str:
    """Which trainings with other optimizers came before or after the one that is looked at, and how to see them."""
    ways = [way[-1] for way in map(trainer.way_to, others.anchors) if way]
    places = list(dict.fromkeys(f"{frame.function} ({shown(frame.file, trainer.facts.script)}:{frame.line})" for frame in ways))
    more = f" and {len(places) - CHANGES_TOLD} more" if len(places) > CHANGES_TOLD else ""
    where = f" ({', '.join(places[:CHANGES_TOLD])}{more})" if places else ""
    made = f"{format_count(others.updates, 'update')} of other optimizers before or after these{where}"
    return f"{made}, {format_share(others.share)} of the training time, are not looked at: {RECORD_ALONE}"


def _first_few(told: list[str]) -> str:
    others = len(told) - CHANGES_TOLD
    more = f", and {others} more time{'s' if others > 1 else ''}" if others > 0 else ""
    return ", ".join(told[:CHANGES_TOLD]) + more
