"""What one training of a recording gives its report, from what was measured and judged."""

from __future__ import annotations

import math
from dataclasses import asdict
from pathlib import Path
from typing import Any, cast

import numpy as np

from slowstep.analyses.machine.own_cost import OwnCost
from slowstep.analyses.measurements import CapturedWindow, Measurements
from slowstep.analyses.over_time.over_time import OccasionalEvent
from slowstep.analyses.steps.phases import TrainingInTurn
from slowstep.diagnosis.few_steps import is_provisional
from slowstep.diagnosis.gain import speed_interval
from slowstep.diagnosis.law import Diagnosis
from slowstep.document.captured import capture_facts, capture_note
from slowstep.document.doubts import find_doubts
from slowstep.document.ending import ending_note
from slowstep.document.ledger import ledger_section, unseen_ledger
from slowstep.document.lever_notes import lever_notes
from slowstep.document.report import (
    NO_THROUGHPUT,
    FindingRow,
    HealthRow,
    InTurn,
    LedgerRow,
    Next,
    NotJudgedRow,
    Overhead,
    Periodic,
    Run,
    StartupPartRow,
    Throughput,
    bare_run,
)
from slowstep.document.sections import Sections
from slowstep.document.words import sentence
from slowstep.faults import Attempts
from slowstep.findings import Finding, NotJudged, Verdict
from slowstep.frameworks._known import PLAIN
from slowstep.frameworks._words import Words
from slowstep.health import Health
from slowstep.part_words import part_in_words
from slowstep.parts import PartKind
from slowstep.record.writing.format import EXPERIMENT_FILE
from slowstep.stages import UNATTRIBUTED
from slowstep.timeline.timeline import RunFacts, Timeline
from slowstep.units import format_duration

# Of such a loader every other step at most has a batch.
_IN_TURNS = 1.5
# `slowstep bench` posts plans, and writes no file of an experiment.
_BENCHED = (
    "slowstep bench stopped this training, read its loader and fed it cached batches: this report is of the steps before that; "
    "slowstep run records the training as it is"
)


def sections_of_recording(
    folder: Path, timeline: Timeline, m: Measurements, diagnosis: Diagnosis, attempt: Attempts | None = None
) -> Sections:
    """What one training of a recording tells. What of it cannot be made is left out, and is one of the faults of `attempt`."""
    attempt = attempt or Attempts()
    row = attempt.otherwise(_bare_run(folder, timeline), _run, folder, timeline, m, attempt)
    attempt(_note_findings, row, diagnosis)
    return Sections(
        run=row,
        throughput=attempt.otherwise(NO_THROUGHPUT, _throughput, m, attempt),
        ledger=attempt.otherwise(unseen_ledger(), _seen_ledger, m),
        diagnosis=diagnosis,
        health=tuple(health_row(row) for row in (*timeline.health, *attempt.otherwise([], find_doubts, m))),
        overhead=attempt.otherwise(_overhead(None), lambda: _overhead(m.machine.own_cost, float(m.step_ns.mean()))),
    )


def _note_findings(row: Run, diagnosis: Diagnosis) -> None:
    """Put what is pressing, and what lies outside the script, among the notes of the run."""
    if outside := [f"{finding.title} ({finding.fixes[0].text})" for finding in diagnosis.findings if finding.outside]:
        row["notes"] = [*outside, *row.get("notes", [])]
    if urgent := [finding.title for finding in diagnosis.findings if finding.urgent]:
        row["notes"] = [*(f"out of memory within the hour at this rate: {title}" for title in urgent), *row.get("notes", [])]


def _by_hand(m: Measurements) -> str | None:
    """How steps are told in a script without an optimizer."""
    return "no torch.optim optimizer was used, so a step is taken to end with its backward pass" if m.trainer.by_hand else None


def _name(run: RunFacts, script: str | None) -> str:
    """What was run: of a command that names no script, as `bash run.sh`, the one that trained."""
    is_programs = bool(run.command) and Path(run.command[0]).stem == run.name
    return Path(script).stem if is_programs and script is not None else run.name


def _bare_run(folder: Path, timeline: Timeline) -> Run:
    """What is known of a run of which nothing was measured."""
    run = timeline.run
    return bare_run(name=run.name, command=list(run.command), started=run.started, recording=str(folder), exit_code=run.exit_code)


def _run(folder: Path, timeline: Timeline, m: Measurements, attempt: Attempts) -> Run:
    run, facts, steps = timeline.run, m.trainer.facts, m.steps
    first = int(m.trainer.update_end_ns[0])
    follows = m.trainer.elsewhere is not None and m.trainer.elsewhere.before > 0
    said = [attempt.otherwise(None, note, m) for note in (_by_hand, _stopped)]
    said += [attempt.otherwise(None, ending_note, timeline), attempt.otherwise(None, _session, timeline, m)]
    notes = [note for note in said if note]
    if run.experiment_ns is not None and not (folder / EXPERIMENT_FILE).exists():
        notes.append(_BENCHED)
    notes += lever_notes(run.levers, facts.notes.get("levers", ()))
    window = attempt.otherwise(None, _captured, m)
    if window is not None and window.m is not None:
        notes.append(capture_note(folder, window, window.m))
    began_ns = run.session.from_ns if run.session else run.started_ns
    row: dict[str, Any] = {
        "name": _name(run, facts.script),
        "command": list(run.command),
        "framework": _framework(facts.framework or PLAIN, facts.framework_version, m.training.words),
        "ranks": attempt.otherwise(1, lambda: m.sharing.ranks),
        "steps": steps.count,
        "step_boundary": steps.boundary,
        "batch_size": steps.batch_size,
        "batch_size_from": steps.batch_size_from,
        "batches_per_step": steps.batches_per_step,
        "device": attempt.otherwise(None, lambda: m.compute.device),
        "started": run.started,
        "duration_s": _seconds(began_ns, run.ended_ns),
        "startup_s": None if follows else _seconds(run.started_ns, first),
        "warmup_steps": steps.warmup,
        "provisional": is_provisional(m),
        "recording": str(folder),
        "recorded_steps": steps.total,
        "whole_periods": steps.whole_periods,
        "period_steps": steps.period,
        "cores": attempt.otherwise(None, lambda: m.machine.load.cores),
        "threads": facts.threads,
        "num_workers": attempt.otherwise(None, lambda: m.input.loader.num_workers if m.input.loader else None),
        "exit_code": run.exit_code,
        "startup": attempt.otherwise(None, _startup, m),
        "periodic": attempt.otherwise([], _periodic, m),
    }
    if m.trainer.elsewhere is not None and m.trainer.elsewhere.trainings:
        row["in_turn"] = [_in_turn(training) for training in m.trainer.elsewhere.trainings]
    if window is not None and window.m is not None:
        row["capture"] = capture_facts(folder, window)
    if notes:
        row["notes"] = notes
    if m.trainer.steps_per_batch >= _IN_TURNS:
        row["steps_per_batch"] = m.trainer.steps_per_batch
    if m.trainer.updates_per_step > 1:
        row["updates_per_step"] = m.trainer.updates_per_step
    if steps.is_batch_size_assumed:
        row["batch_size_assumed"] = True
    if steps.batch_sizes is not None:
        row["batch_sizes"] = list(steps.batch_sizes)
    return cast(Run, row)


def _seconds(begin_ns: int | None, end_ns: int | None) -> float | None:
    """From one time to another; None where one is unknown, or in a damaged recording lies on the wrong side of the other."""
    return (end_ns - begin_ns) / 1e9 if begin_ns and end_ns and end_ns >= begin_ns else None


def _in_turn(training: TrainingInTurn) -> InTurn:
    seconds = training.length_ns / 1e9
    known = training.samples is not None and seconds > 0
    rate = cast(int, training.samples) / seconds if known else None
    return {"steps": training.steps, "s": seconds, "samples_per_s": rate, "judged": training.is_judged}


def _framework(name: str, version: str | None, words: Words) -> str:
    """Which framework, its version, and whose loop trains where it is not the script's."""
    version = f"{name} {version}" if version else name
    return version if words.name in (PLAIN, name) else f"{version} with {words.title}"


def _captured(m: Measurements) -> CapturedWindow | None:
    return m.captured if m.has("captured") else None


def _stopped(m: Measurements) -> str | None:
    """That the process was suspended for a while, which is no part of the ledger."""
    times, seconds = m.machine.stopped
    if not times:
        return None
    how_often = "once" if times == 1 else f"{times} times"
    return (
        f"the training was suspended {how_often}, {format_duration(seconds * 1e9)} in total (stopped, or the machine was asleep); "
        "that time is left out"
    )


def _session(timeline: Timeline, m: Measurements) -> str | None:
    """That the recording was begun in mid-run, and which part of it is reported."""
    session = timeline.run.session
    if session is None:
        return None
    text = f"recorded from within {session.kind} that was running already: its start-up is not part of the report"
    if not m.trainer.other_cells:
        return text
    here, others = len(m.trainer.update_end_ns), m.trainer.other_cells
    return f"{text}; of several cells or commands that trained, the one with most updates is reported ({here}; {others} in others)"


def _startup(m: Measurements) -> list[StartupPartRow] | None:
    found = m.over_time.startup
    return None if found is None else [{"name": part.name, "s": part.ns / 1e9} for part in found.parts]


def _periodic(m: Measurements) -> list[Periodic]:
    """What is not in every step, most time first."""
    whole = float(m.step_ns.sum())
    rows: list[Periodic] = [
        {"name": _event_name(e), "every_steps": e.every_steps, "ms": e.each_ns / 1e6, "share": min(float(e.ns.sum()) / whole, 1.0)}
        for e in m.over_time.events
    ]
    return sorted(rows, key=lambda row: -row["share"])


def _event_name(event: OccasionalEvent) -> str:
    if event.name is not None:
        return event.name
    return "something unnamed" if event.part.stage == UNATTRIBUTED else part_in_words(event.part)


def _throughput(m: Measurements, attempt: Attempts) -> Throughput:
    usual = m.step_ns[~m.steps.eventful]
    usual = usual if len(usual) else m.step_ns
    seconds = float(m.step_ns.sum()) / 1e9
    samples = float(m.steps.samples.sum())
    p05, median, p95 = np.percentile(usual, [5, 50, 95]) / 1e6
    speed: Throughput = {
        "samples_per_s": samples / seconds if math.isfinite(samples) and samples > 0 else None,
        "steps_per_s": m.steps.count / seconds,
        "step_ms": {"median": float(median), "p05": float(p05), "p95": float(p95)},
    }
    # Of too few steps for a verdict, too few for an interval: they say nothing of how much steps differ.
    if not is_provisional(m) and (ends := attempt.otherwise(None, speed_interval, m)) is not None:
        fastest_ns, slowest_ns = ends
        speed["steps_per_s_interval"] = {"low": 1e9 / slowest_ns, "high": 1e9 / fastest_ns}
    return speed


def _unseen(m: Measurements) -> tuple[str, ...]:
    """Stages that nothing was recorded of: with an accelerator its copies, with other ranks what is shared with them."""
    copies = ("h2d", "d2h") if m.compute.device != "cpu" else ()
    unseen = m.sharing.ranks > 1 and not m.sharing.seen and not m.ledger.of("gradient_sharing").any()
    hidden = (*copies, "gradient_sharing") if unseen else copies
    return tuple(stage for stage in hidden if not m.ledger.parts_of(stage, PartKind.FROM_CAPTURE))


def _seen_ledger(m: Measurements) -> list[LedgerRow]:
    return ledger_section(m.ledger, _unseen(m))


def next_row(diagnosis: Diagnosis) -> Next | None:
    """What binds next as a part of the report."""
    following = diagnosis.next
    return None if following is None else {"stage": following.stage, "predicted": sentence(following.predicted)}


def finding_row(finding: Finding) -> FindingRow:
    """A finding as a row of the report."""
    row = asdict(finding)
    for internal in ("share_low", "share_high", "names", "names_cause", "advisory", "urgent"):
        del row[internal]
    if not finding.outside:
        del row["outside"]
    del row["gain"]["steady_low"]
    del row["gain"]["unknown_because"]
    if (because := finding.gain.unknown_because) is not None:
        row["gain"]["unknown_because"] = sentence(because)
    row["claims"] = list(dict.fromkeys(map(part_in_words, finding.claims)))
    for name in ("also", "folded", "evidence", "fixes"):
        row[name] = list(row[name])
    for other in row["folded"]:
        other["fixes"] = list(other["fixes"])
    return cast(FindingRow, row)


def not_judged_row(row: NotJudged, verdict: Verdict) -> NotJudgedRow:
    """A rule that could not judge as a row of the report with this verdict."""
    found: NotJudgedRow = {"rule": row.rule, "code": row.reason.code, "reason": sentence(row.reason), "advisory": row.advisory}
    if verdict.reason is not None and verdict.reason.holds(row.reason):
        found["in_verdict"] = True
    if row.lever is not None:
        found["lever"] = row.lever
    if row.pressing:
        found["pressing"] = True
    return found


def health_row(row: Health) -> HealthRow:
    """A health record as a row of the report."""
    return {"name": row.name, "severity": row.severity, "count": row.count, "remedy": row.remedy}


def _overhead(cost: OwnCost | None, step_ns: float = math.inf) -> Overhead:
    if cost is None:
        return {"us_per_step": None, "share": None}
    row: Overhead = {"us_per_step": cost.ns_per_step / 1e3, "share": cost.share, "once_ms": cost.once_ns / 1e6}
    if cost.recording_share is not None:
        row["parts"] = [{"name": name, "share": share} for name, share in sorted(cost.parts.items(), key=lambda part: -part[1])]
        row["limit_share"] = cost.limit_share(step_ns)
        row["held"] = cost.recording_share <= row["limit_share"]
        row["call_timing_share_at_most"] = cost.timing_share
    return row
