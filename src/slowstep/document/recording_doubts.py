"""What is doubtful about what was measured of a recording, and what to do about it."""

from __future__ import annotations

from slowstep.analyses.measurements import Measurements
from slowstep.analyses.python.functions import shown
from slowstep.analyses.steps.loader_changes import LoaderChange
from slowstep.analyses.steps.phases import Elsewhere
from slowstep.analyses.steps.steps import Steps
from slowstep.analyses.steps.trainer import Trainer
from slowstep.diagnosis.evidence.record_longer import record_longer
from slowstep.diagnosis.evidence.unnamed import RECORD_ALONE, are_notes_lost
from slowstep.diagnosis.gain import is_pace_uneven, runs_differ
from slowstep.document.captured import find_lost_capture
from slowstep.health import Health, HealthKind
from slowstep.units import format_count

# Changes of the batch size, or of the loader, that are told one by one.
CHANGES_TOLD = 4
NO_STACKS = HealthKind("no-stacks", "notice", "no stack samples were taken, so functions cannot be named: {remedy}")
UNEVEN_PACE = HealthKind(
    "uneven-pace",
    "notice",
    "the machine's speed varied during the run, as on a shared machine: nine of ten repeats would be within a factor of {factor:.3g} "
    "of this run's speed; slowstep prove measures gains all the same",
)
BATCH_SIZE_CHANGED = HealthKind("batch-size-changed", "notice", "the batch size changed {told}")
LOADER_CHANGED = HealthKind("loader-changed", "notice", "the training went on with another loader {told}")
OTHER_TRAININGS = HealthKind(
    "other-trainings",
    "notice",
    "{updates:count update} of other optimizers before or after these{where}, {share:share} of the training time, are not judged: "
    f"{RECORD_ALONE}",
)
ONE_PERIOD = HealthKind(
    "one-period",
    "info",
    "fewer than two whole periods (epochs, checkpoints) were recorded: record longer for a narrower interval",
)
THINNED = HealthKind("thinned", "info", "the recording reached its size limit: details are kept for part of the steps")


def find_recording_doubts(m: Measurements) -> list[Health]:
    """What is doubtful about what was measured of a recording: of traces it is told by `diagnosis/trace_doubts.py`."""
    # Of a damaged recording its losses are told.
    rows = [] if m.python.has_stacks or are_notes_lost(m) else [NO_STACKS(1, remedy=record_longer(m))]
    if m.has("captured"):
        rows += find_lost_capture(m.captured)
    if is_pace_uneven(m) and not m.machine.load.busy:
        rows.append(UNEVEN_PACE(1, factor=runs_differ(m)))
    if m.steps.size_changes:
        rows.append(BATCH_SIZE_CHANGED(len(m.steps.size_changes), told=_of_sizes(m.steps)))
    if m.input.loader_changes:
        rows.append(LOADER_CHANGED(len(m.input.loader_changes), told=_of_loaders(m.input.loader_changes)))
    if (others := m.trainer.elsewhere) is not None:
        where = _of_others(m.trainer, others)
        rows.append(OTHER_TRAININGS(len(others.anchors), updates=others.updates, where=where, share=others.share))
    if not m.steps.whole_periods:
        rows.append(ONE_PERIOD(1))
    if m.steps.only_counted:
        rows.append(THINNED(m.steps.only_counted))
    return rows


def _of_sizes(steps: Steps) -> str:
    """Where the batch size changed, and whether that is in the steps that are looked at."""
    told = _first_few([f"from {change.before} to {change.after} at step {change.step:,}" for change in steps.size_changes])
    looked_at = "values per step are means over steps of several sizes" if steps.batch_sizes else "the steps looked at are of one size"
    return f"{told}: {looked_at}"


def _of_loaders(changes: tuple[LoaderChange, ...]) -> str:
    """Where the training went on with another loader, and whether that is in the steps that are looked at."""
    told = _first_few([f"at step {change.step:,} from {change.before} to {change.after}" for change in changes])
    inside = any(change.inside for change in changes)
    looked_at = "values per step are means over all of them" if inside else "the steps looked at are of one of them"
    return f"{told}: {looked_at}"


def _of_others(trainer: Trainer, others: Elsewhere) -> str:
    """Which trainings with other optimizers came before or after the one that is looked at, and how to see them."""
    ways = [way[-1] for way in map(trainer.way_to, others.anchors) if way]
    places = list(dict.fromkeys(f"{frame.function} ({shown(frame.file, trainer.facts.script)}:{frame.line})" for frame in ways))
    more = f" and {len(places) - CHANGES_TOLD} more" if len(places) > CHANGES_TOLD else ""
    return f" ({', '.join(places[:CHANGES_TOLD])}{more})" if places else ""


def _first_few(told: list[str]) -> str:
    others = len(told) - CHANGES_TOLD
    more = f", and {format_count(others, 'more time')}" if others > 0 else ""
    return ", ".join(told[:CHANGES_TOLD]) + more
