"""From a recording to its reports, one for each training in it: load, measure, judge, and fill the document."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any

from slowstep.analyses.job.job import Job, Rank
from slowstep.analyses.job.rank_steps import RankPace, own_work_ms, recorded_steps
from slowstep.analyses.job.recorded_job import recorded_job
from slowstep.analyses.measure_recording import measure_recording
from slowstep.analyses.measurements import Measurements
from slowstep.analyses.sharing.sharing import NONE_MISSING, MissingRanks
from slowstep.analyses.steps.captures import Capture
from slowstep.analyses.steps.trainer import other_training_processes
from slowstep.analyses.steps.untrained import with_failure
from slowstep.document.finding_rows import HealthRow
from slowstep.document.launchers import find_other_launcher, missing_launchers
from slowstep.document.ranks import RankSummary
from slowstep.document.recorded_run import recorded_run
from slowstep.document.recording_doubts import find_recording_doubts
from slowstep.errors import BadUsage, NothingRecorded, UnreadableInput
from slowstep.faults import Attempts, release_frames
from slowstep.record.writing.format import EXPERIMENT_FILE
from slowstep.report.json import REPORT_FILE
from slowstep.sources.recording import OpenRecording
from slowstep.timeline.timeline import Timeline
from slowstep.workflow.internal_errors import fault_rows
from slowstep.workflow.judge_job import JudgedJob, ReadExperiment, judge_job, report_of
from slowstep.workflow.judge_rank import RankSource, judge_rank
from slowstep.workflow.next_command.after_recording import after_recording
from slowstep.workflow.traces.named_paths import EXPECTED

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
    return REPORT_FILE if number == first else f"report-rank{number}.json"


def diagnose_all(folder: Path, *, warmup: int | None = None, beside: Sequence[HealthRow] = ()) -> Diagnosed:
    """The reports of all trainings of a recording; `beside` is said in their health of what lies beside it.

    Raises UnreadableInput, or NothingRecorded where nothing trained.
    """
    if not folder.exists():
        raise UnreadableInput(f"{folder} does not exist. {EXPECTED}")
    recording = OpenRecording(folder)
    outline = recording.outline()
    job = recorded_job(outline, folder)
    ranks = _each_by_itself(recording, outline, job, warmup)
    judged = judge_job(
        job,
        ranks,
        given=[folder],
        report_names=lambda first: {number: file_name(number, first) for number in ranks},
        read_experiment=_experiment_of(folder),
    )
    return Diagnosed(first=judged.first, reports=_reports(folder, judged, beside))


def _each_by_itself(recording: OpenRecording, outline: Timeline, job: Job, warmup: int | None) -> dict[int, RankSummary]:
    """The trainings, measured and judged one after the other, so that the tables and measurements of one are held at a time.

    Raises NothingRecorded where nothing can be measured of any.
    """
    found: dict[int, RankSummary] = {}
    refused: list[str] = []
    for rank in job.ranks:
        try:
            found[rank.number] = _by_itself(recording.timeline(without=other_training_processes(outline, rank.process)), job, rank, warmup)
        except NothingRecorded as error:
            refused.append(str(error))
        else:
            release_frames(found[rank.number].faults)
    if not found:
        raise NothingRecorded(with_failure(outline.run, refused[0])) if refused else _nothing(recording.timeline())
    # Beside others, what has hardly begun is no training to compare with.
    return {number: each for number, each in found.items() if each.pace.total_steps >= FEWEST_BESIDE_OTHERS} or found


def _by_itself(timeline: Timeline, job: Job, rank: Rank, warmup: int | None) -> RankSummary:
    """What one training tells by itself."""
    warmup = timeline.run.warmup if warmup is None else warmup
    missing = NONE_MISSING if rank.rank is None else MissingRanks(numbers=tuple(job.missing), count=job.missing_count)
    capture = partial(_measure_capture, rank.path)
    m = measure_recording(timeline, warmup, process=rank.process, measure_capture=capture, missing=missing).settle()
    attempt = Attempts()
    source = RankSource(
        path=rank.path,
        health=lambda: (*timeline.health, *attempt.otherwise([], find_recording_doubts, m)),
        run=lambda: recorded_run(rank.path, timeline, m, attempt),
        next_step=lambda diagnosis: after_recording(rank.path, timeline, m, diagnosis),
        pace=lambda _: _pace(m, rank, attempt),
    )
    alone = judge_rank(m, source, attempt)
    is_open = job.is_several and alone.sections.diagnosis.verdict.state == "undetermined"
    return replace(
        alone,
        other_launcher=attempt.otherwise(None, find_other_launcher, rank.path, m) if is_open else None,
        health=tuple(attempt.otherwise([], missing_launchers, timeline, rank.path, m)),
    )


def _pace(m: Measurements, rank: Rank, attempt: Attempts) -> RankPace:
    return RankPace(
        steps=attempt.otherwise(None, recorded_steps, m),
        total_steps=attempt.otherwise(rank.steps, _total_steps, m),
        step_ms=attempt.otherwise(None, _step_ms, m),
        own_ms=attempt.otherwise(None, own_work_ms, m),
    )


def _total_steps(m: Measurements) -> int:
    return m.steps.total


def _step_ms(m: Measurements) -> float:
    return float(m.step_ns.mean()) / 1e6


def _reports(folder: Path, judged: JudgedJob, beside: Sequence[HealthRow]) -> dict[int, dict[str, Any]]:
    faults = fault_rows({number: [*each.faults, *judged.faults] for number, each in judged.ranks.items()}, folder)
    return {number: report_of(judged, number, (*faults[number], *beside)) for number in judged.ranks}


def _experiment_of(folder: Path) -> ReadExperiment | None:
    """What reads the experiment in the recording's folder; None where there is none."""
    if not (folder / EXPERIMENT_FILE).exists():
        return None
    # Imported here: most recordings hold no experiment.
    from slowstep.workflow.experiments import join_experiment

    return partial(join_experiment, folder)


def _measure_capture(folder: Path, capture: Capture) -> Measurements | None:
    # Imported here: most recordings have no capture, and reading traces takes libraries of its own.
    from slowstep.workflow.read_capture import measure_capture

    return measure_capture(folder, capture)


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


def _nothing(timeline: Timeline) -> NothingRecorded:
    try:
        measure_recording(timeline)
    except NothingRecorded as error:
        return error
    return NothingRecorded("nothing was recorded.")
