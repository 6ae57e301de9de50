"""From a recording to its reports, one for each training in it: load, measure, judge, and fill the document."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any

from slowstep.analyses.measure_recording import measure_recording
from slowstep.analyses.measurements import Measurements
from slowstep.analyses.ranks import RankSet, collect_ranks, compare, first_shown
from slowstep.analyses.steps.captures import Capture
from slowstep.analyses.steps.untrained import with_failure
from slowstep.diagnosis.engine import diagnose
from slowstep.document.build import build
from slowstep.document.next_step import NextStep
from slowstep.document.ranks import is_job, rank_sections, waits_for
from slowstep.document.recording import sections_of_recording
from slowstep.document.report import HealthRow
from slowstep.document.sections import ALONE, ExperimentSection, Sections
from slowstep.errors import BadUsage, NothingRecorded, UnreadableInput
from slowstep.faults import Attempts, Fault
from slowstep.record.writing.format import EXPERIMENT_FILE
from slowstep.sources._source import PLAIN
from slowstep.sources.recording import SOURCE as RECORDING
from slowstep.timeline.timeline import Timeline
from slowstep.units import format_count
from slowstep.workflow.internal_errors import completed, fault_rows
from slowstep.workflow.next_command.after_fault import after_fault
from slowstep.workflow.next_command.after_ranks import after_launcher, after_rank
from slowstep.workflow.next_command.after_recording import after_recording
from slowstep.workflow.traces.find import EXPECTED

REPORT = "report.json"
FEWEST_BESIDE_OTHERS = 3


@dataclass(frozen=True, kw_only=True, slots=True)
class Diagnosed:
    """The reports of all trainings of a recording, as the dicts of report.json, by number; `first` is the one to show."""

    first: int
    reports: dict[int, dict[str, Any]]

    @property
    def files(self) -> dict[str, dict[str, Any]]:
        """The reports by the names of their files: the first one is report.json."""
        return {file_name(number, self.first): report for number, report in self.reports.items()}


def file_name(number: int, first: int) -> str:
    """The file of a training's report."""
    return REPORT if number == first else f"report-rank{number}.json"


def diagnose_all(folder: Path, *, warmup: int | None = None, beside: Sequence[HealthRow] = ()) -> Diagnosed:
    """The reports of all trainings of a recording; `beside` is said in their health of what lies beside it.

    Raises UnreadableInput, or NothingRecorded where nothing trained.
    """
    if not folder.exists():
        raise UnreadableInput(f"{folder} does not exist. {EXPECTED}")
    timeline = RECORDING.read(folder, PLAIN)
    rank_set = collect_ranks(timeline)
    measured, unmeasured = _measure_all(timeline, rank_set, timeline.run.warmup if warmup is None else warmup)
    attempt = Attempts()
    measured = _compared(measured, rank_set)
    first = attempt.otherwise(min(measured), first_shown, measured)
    own = {number: Attempts() for number in measured}
    sections = {number: _sections(folder, timeline, m, own[number]) for number, m in measured.items()}
    files = {number: file_name(number, first) for number in sections}
    tell = partial(
        rank_sections, measured=measured, rank_set=rank_set, timeline=timeline, folder=folder, files=files, unmeasured=unmeasured
    )
    ranks = attempt.outcome(rank_sections.__name__, tell, sections)
    if isinstance(ranks, Fault):
        sections, ranks = {number: each.opened_by(ranks) for number, each in sections.items()}, {}
    elif is_job(rank_set):
        sections = {number: _with_next_rank(each, folder, measured[number], attempt) for number, each in sections.items()}
    sections[first], experiment = _with_experiment(sections[first], folder, attempt)
    faults = fault_rows({number: [*own[number].faults, *attempt.faults] for number in sections}, folder)

    def report(number: int) -> dict[str, Any]:
        more_health = (*faults[number], *beside)
        tried = experiment if number == first else None
        return dict(build(sections[number], ranks=ranks.get(number, ALONE), experiment=tried, more_health=more_health))

    return Diagnosed(first=first, reports={number: report(number) for number in sections})


def _compared(measured: dict[int, Measurements], rank_set: RankSet) -> dict[int, Measurements]:
    """All ranks, each knowing the others; where they cannot be compared, each with that fault, so that none is called healthy."""
    compared = Attempts().outcome(compare.__name__, compare, measured, rank_set.missing)
    if isinstance(compared, Fault):
        return {number: m.changed(faults=(*m.faults, compared)) for number, m in measured.items()}
    return compared


def _sections(folder: Path, timeline: Timeline, m: Measurements, attempt: Attempts) -> Sections:
    """What one training tells by itself, with its capture."""
    diagnosis = diagnose(m)
    attempt.faults += [*m.faults, *diagnosis.faults]
    sections = sections_of_recording(folder, timeline, m, diagnosis, attempt)
    if diagnosis.by_fault:
        next_step = after_fault(folder)
    else:
        next_step = attempt.otherwise(NextStep(), after_recording, folder, timeline, m, diagnosis)
    sections = replace(sections, next_step=next_step)
    if (capture := _capture(m)) is not None:
        # Imported here: most recordings have no capture, and reading traces takes libraries of its own.
        from slowstep.workflow.read_capture import join_capture

        sections = completed(attempt, sections, join_capture, folder, capture, attempt)
    return sections


def _with_next_rank(sections: Sections, folder: Path, m: Measurements, attempt: Attempts) -> Sections:
    """With the report of the rank that this one waits for as the next to look at."""
    found = attempt.otherwise(None, waits_for, sections.diagnosis, folder, m)
    if found is None:
        return sections
    return replace(sections, next_step=after_launcher(found) if isinstance(found, Path) else after_rank(found, [folder]))


def _with_experiment(sections: Sections, folder: Path, attempt: Attempts) -> tuple[Sections, ExperimentSection | None]:
    """With what to do after the experiment in the recording's folder, and what that showed; None where there is none."""
    if not (folder / EXPERIMENT_FILE).exists():
        return sections, None
    # Imported here: most recordings hold no experiment.
    from slowstep.workflow.experiments import join_experiment

    joined = attempt.outcome(join_experiment.__name__, join_experiment, sections, folder)
    return (sections.opened_by(joined), None) if isinstance(joined, Fault) else joined


def _capture(m: Measurements) -> Capture | None:
    return Attempts().otherwise(None, lambda: m.training.capture)


def diagnose_recording(
    folder: Path, *, warmup: int | None = None, rank: int | None = None, beside: Sequence[HealthRow] = ()
) -> dict[str, Any]:
    """The report of a recording, of the training that is to be shown first where none is named.

    Raises UnreadableInput, NothingRecorded where nothing trained, or BadUsage for a rank that has no report.
    """
    diagnosed = diagnose_all(folder, warmup=warmup, beside=beside)
    number = diagnosed.first if rank is None else rank
    if number not in diagnosed.reports:
        known = ", ".join(map(str, diagnosed.reports))
        raise BadUsage(f"--rank {number}: this recording has no report of it. It has those of {known}.")
    return diagnosed.reports[number]


def _measure_all(timeline: Timeline, rank_set: RankSet, warmup: int | None) -> tuple[dict[int, Measurements], dict[int, str]]:
    """What was measured of each training, and why nothing was of the others. Raises NothingRecorded where that holds for all."""
    measured: dict[int, Measurements] = {}
    unmeasured: dict[int, str] = {}
    for training in rank_set.trainings:
        try:
            measured[training.number] = measure_recording(timeline, warmup, process=training.process).settle()
        except NothingRecorded as error:
            unmeasured[training.number] = str(error)
    # Beside others, what has hardly begun is no training to compare with.
    begun = {number for number, m in measured.items() if _has_hardly_begun(m)}
    if len(begun) < len(measured):
        for number in begun:
            unmeasured[number] = f"only {format_count(measured.pop(number).steps.total, 'update')} recorded"
    if not measured:
        raise NothingRecorded(with_failure(timeline.run, next(iter(unmeasured.values())))) if unmeasured else _nothing(timeline)
    return measured, unmeasured


def _has_hardly_begun(m: Measurements) -> bool:
    return Attempts().otherwise(False, lambda: m.steps.total < FEWEST_BESIDE_OTHERS)


def _nothing(timeline: Timeline) -> NothingRecorded:
    try:
        measure_recording(timeline)
    except NothingRecorded as error:
        return error
    return NothingRecorded("nothing was recorded.")
