"""Fills the report document from what was measured and judged."""

from __future__ import annotations

import math
import shlex
from dataclasses import asdict
from pathlib import Path
from typing import Any, Final, cast

import numpy as np

from slowstep.analyses.ledger import Ledger
from slowstep.analyses.measurements import Measurements
from slowstep.analyses.own_cost import OwnCost
from slowstep.diagnosis.engine import busy_note
from slowstep.diagnosis.law import Diagnosis
from slowstep.faults import Attempts
from slowstep.findings import Finding, NotJudged
from slowstep.health import Health
from slowstep.record.format import EXPERIMENT_FILE
from slowstep.report.document import (
    SCHEMA,
    FindingRow,
    HealthRow,
    LedgerRow,
    NotJudgedRow,
    Overhead,
    Part,
    Periodic,
    Report,
    Run,
    StartupPart,
    Throughput,
)
from slowstep.stages import STAGES, UNATTRIBUTED
from slowstep.timeline.timeline import RunFacts, Timeline
from slowstep.units import format_duration
from slowstep.workflow.doubts import find_doubts
from slowstep.workflow.ending import ended_by_an_error, ending_note, first_after_error
from slowstep.workflow.internal_errors import see_fault
from slowstep.workflow.lever_notes import lever_notes
from slowstep.workflow.session_next import ENOUGH_STEPS, session_next

# Below this a part is numerical dust and is not listed.
SMALLEST_SHARE = 1e-6
# Of stacks, too, there are 200 by then.
ENOUGH_NS = 10e9
# Of such a loader every other step at most has a batch.
_IN_TURNS = 1.5
NO_THROUGHPUT: Final[Throughput] = {"samples_per_s": None, "steps_per_s": None, "step_ms": {"median": None, "p05": None, "p95": None}}
# `slowstep bench` posts plans, and writes no file of an experiment.
_BENCHED = (
    "slowstep bench held this training, read its loader and fed it cached batches: only the steps before that are looked at here; "
    "slowstep run records the training as it is"
)


def fill(folder: Path, timeline: Timeline, m: Measurements, diagnosis: Diagnosis, attempt: Attempts | None = None) -> Report:
    """The report of one training. What of it cannot be made is left out, and is one of the faults of `attempt`."""
    attempt = attempt or Attempts()
    row = attempt.otherwise(_bare_run(folder, timeline), _run, folder, timeline, m, attempt)
    attempt(_say_what_next, row, folder, timeline, m, diagnosis)
    return {
        "schema": SCHEMA,
        "run": row,
        "throughput": attempt.otherwise(NO_THROUGHPUT, _throughput, m),
        "ledger": attempt.otherwise(_ledger(None, ()), _seen_ledger, m),
        "verdict": cast(Any, asdict(diagnosis.verdict)),
        "findings": [finding_row(finding) for finding in diagnosis.findings],
        "next": {"stage": diagnosis.next.stage, "predicted": diagnosis.next.predicted} if diagnosis.next else None,
        "not_judged": [not_judged_row(row) for row in diagnosis.not_judged],
        "health": [health_row(row) for row in (*timeline.health, *attempt.otherwise([], find_doubts, m))],
        "overhead": attempt.otherwise(_overhead(None), lambda: _overhead(m.own_cost)),
        "experiments": [],
    }


def _say_what_next(row: Run, folder: Path, timeline: Timeline, m: Measurements, diagnosis: Diagnosis) -> None:
    """Put what the reader is to do next, and before it, into the row of the run, and what is pressing among its notes."""
    first = diagnosis.change
    if urgent := [finding.title for finding in diagnosis.findings if finding.urgent]:
        row["notes"] = [*(f"out of memory within the hour at this rate: {title}" for title in urgent), *row.get("notes", [])]
    if diagnosis.by_fault:
        # The same training again would meet the same fault.
        row["next_command"] = see_fault(folder)
        return
    open_at_its_end = diagnosis.verdict.state == "undetermined" and _ended_by_itself(timeline, m)
    if timeline.run.session and diagnosis.verdict.state == "undetermined":
        first, row["next_command"] = session_next(timeline.run.session, diagnosis, steps=m.steps.total, is_alone=m.sharing.ranks == 1)
    elif can_be_proved(timeline, m, diagnosis):
        row["next_command"] = f"slowstep prove {shlex.join(timeline.run.command)}"
    elif diagnosis.telling is not None and _can_run_again(timeline, m):
        row["next_command"] = f"slowstep prove --levers {shlex.quote(diagnosis.telling)} {shlex.join(timeline.run.command)}"
    elif open_at_its_end or (diagnosis.verdict.state == "undetermined" and m.steps.total >= ENOUGH_STEPS):
        # A limit would record no more than this run did.
        row["next_command"] = f"slowstep run {shlex.join(timeline.run.command)}"
    if first is not None:
        row["before_next"] = first
    has_next = "next_command" in row or diagnosis.verdict.state != "healthy"
    if has_next and ended_by_an_error(timeline):
        row["before_next"] = first_after_error(timeline)
    if open_at_its_end:
        trained_ns = float(m.trainer.update_end_ns[-1] - m.trainer.update_end_ns[0])
        steps = f"{ENOUGH_STEPS} steps" if m.steps.total < ENOUGH_STEPS else ""
        time = f"{ENOUGH_NS / 1e9:.0f} s" if trained_ns < ENOUGH_NS else ""
        if steps or time:
            enough = " and ".join(filter(None, (steps, time)))
            made = f"{m.steps.total} steps in {format_duration(trained_ns)}"
            what = "the script train" if m.trainer.elsewhere is None else "this training run"
            longer = f"let {what} for {enough} or more: it ended by itself after {made}"
            row["before_next"] = longer if diagnosis.change is None else f"{diagnosis.change}, and {longer}"


def can_be_proved(timeline: Timeline, m: Measurements, diagnosis: Diagnosis) -> bool:
    """Whether a lever tries the fix of the bottleneck or bounds it, in a training that can be run again by its command, alone."""
    named = next((finding for finding in diagnosis.findings if finding.rule == diagnosis.verdict.rule), None)
    return named is not None and bool(named.fixes[0].lever or named.fixes[0].bounded_by) and _can_run_again(timeline, m)


def _can_run_again(timeline: Timeline, m: Measurements) -> bool:
    """Whether its command runs this training alone."""
    alone = timeline.run.session is None and timeline.run.launchers is None and m.sharing.ranks == 1
    return alone and bool(timeline.run.command)


def _ended_by_itself(timeline: Timeline, m: Measurements) -> bool:
    """Whether the training came to its own end: not to that of the recording, nor by an error or a signal."""
    return timeline.run.session is None and not timeline.run.exit_code and m.trainer.facts.notes.get("end") == "exit"


def _by_hand(m: Measurements) -> str | None:
    """How steps are told in a script without an optimizer."""
    return "no torch.optim optimizer was seen: a step ends with its backward, the update is made by hand" if m.trainer.by_hand else None


def _name(run: RunFacts, script: str | None) -> str:
    """What was run: of a command that names no script, as `bash run.sh`, the one that trained."""
    is_programs = bool(run.command) and Path(run.command[0]).stem == run.name
    return Path(script).stem if is_programs and script is not None else run.name


def _bare_run(folder: Path, timeline: Timeline) -> Run:
    """What is known of a run of which nothing was measured."""
    run = timeline.run
    row = dict.fromkeys(
        ("framework", "step_boundary", "batch_size", "batch_size_from", "device", "duration_s", "startup_s", "warmup_steps")
    )
    known = {"name": run.name, "command": list(run.command), "ranks": 1, "steps": 0, "started": run.started, "recording": str(folder)}
    return cast(Run, row | known | {"exit_code": run.exit_code})


def _run(folder: Path, timeline: Timeline, m: Measurements, attempt: Attempts) -> Run:
    run, facts, steps = timeline.run, m.trainer.facts, m.steps
    first = int(m.trainer.update_end_ns[0])
    said = [attempt.otherwise(None, note, m) for note in (_by_hand, busy_note, _stopped)]
    said += [attempt.otherwise(None, ending_note, timeline), attempt.otherwise(None, _session, timeline, m)]
    notes = [note for note in said if note]
    if run.experiment_ns is not None and not (folder / EXPERIMENT_FILE).exists():
        notes.append(_BENCHED)
    notes += lever_notes(run.levers, facts.notes.get("levers", ()))
    began_ns = run.session.from_ns if run.session else run.started_ns
    row: dict[str, Any] = {
        "name": _name(run, facts.script),
        "command": list(run.command),
        "framework": f"torch {facts.torch}" if facts.torch else "torch",
        "ranks": attempt.otherwise(1, lambda: m.sharing.ranks),
        "steps": steps.count,
        "step_boundary": steps.boundary,
        "batch_size": steps.batch_size,
        "batch_size_from": steps.batch_size_from,
        "batches_per_step": steps.batches_per_step,
        "device": attempt.otherwise(None, lambda: m.device),
        "started": run.started,
        "duration_s": (run.ended_ns - began_ns) / 1e9 if run.ended_ns and began_ns else None,
        "startup_s": (first - run.started_ns) / 1e9 if run.started_ns else None,
        "warmup_steps": steps.warmup,
        "recording": str(folder),
        "recorded_steps": steps.total,
        "whole_periods": steps.whole_periods,
        "period_steps": steps.period,
        "cores": attempt.otherwise(None, lambda: m.load.cores),
        "threads": facts.threads,
        "num_workers": attempt.otherwise(None, lambda: m.loader.num_workers if m.loader else None),
        "exit_code": run.exit_code,
        "startup": attempt.otherwise(None, _startup, m),
        "periodic": attempt.otherwise([], _periodic, m),
    }
    if notes:
        row["notes"] = notes
    if m.trainer.steps_per_batch >= _IN_TURNS:
        row["steps_per_batch"] = m.trainer.steps_per_batch
    if steps.batch_sizes is not None:
        row["batch_sizes"] = list(steps.batch_sizes)
    return cast(Run, row)


def _stopped(m: Measurements) -> str | None:
    """That the process stood still for a while, which is no part of the ledger."""
    times, seconds = m.stopped
    if not times:
        return None
    how_often = "once" if times == 1 else f"{times} times"
    return f"the training stood still {how_often}, {format_duration(seconds * 1e9)} in all (stopped, or the machine asleep): left out"


def _session(timeline: Timeline, m: Measurements) -> str | None:
    """That the recording was begun in mid-run, and which part of it is reported."""
    session = timeline.run.session
    if session is None:
        return None
    text = f"recorded from within {session.kind} that was running already: its start-up is not in the report"
    if not m.trainer.other_cells:
        return text
    here, others = len(m.trainer.update_end_ns), m.trainer.other_cells
    return f"{text}; of several cells or commands that trained, the one with most updates is reported ({here}; {others} in others)"


def _startup(m: Measurements) -> list[StartupPart] | None:
    found = m.over_time.startup
    return None if found is None else [{"name": part.name, "s": part.ns / 1e9} for part in found.parts]


def _periodic(m: Measurements) -> list[Periodic]:
    """What is not in every step, most time first."""
    whole = float(m.step_ns.sum())
    rows: list[Periodic] = [
        {"name": e.name, "every_steps": e.every_steps, "ms": e.each_ns / 1e6, "share": min(float(e.ns.sum()) / whole, 1.0)}
        for e in m.over_time.events
    ]
    return sorted(rows, key=lambda row: -row["share"])


def _throughput(m: Measurements) -> Throughput:
    usual = m.step_ns[~m.steps.eventful]
    usual = usual if len(usual) else m.step_ns
    seconds = float(m.step_ns.sum()) / 1e9
    samples = float(m.steps.samples.sum())
    p05, median, p95 = np.percentile(usual, [5, 50, 95]) / 1e6
    return {
        "samples_per_s": samples / seconds if math.isfinite(samples) and samples > 0 else None,
        "steps_per_s": m.steps.count / seconds,
        "step_ms": {"median": float(median), "p05": float(p05), "p95": float(p95)},
    }


def _unseen(m: Measurements) -> tuple[str, ...]:
    """Stages that nothing was recorded of: with an accelerator its copies, with other ranks what is shared with them."""
    copies = ("h2d", "d2h") if m.device != "cpu" else ()
    unseen = m.sharing.ranks > 1 and not m.sharing.seen and not m.ledger.of("gradient_sharing").any()
    return (*copies, "gradient_sharing") if unseen else copies


def _seen_ledger(m: Measurements) -> list[LedgerRow]:
    return _ledger(m.ledger, _unseen(m))


def _ledger(ledger: Ledger | None, unseen: tuple[str, ...]) -> list[LedgerRow]:
    """The account of every stage: null of those that are unseen, and of all without a ledger."""
    whole = ledger.whole if ledger is not None else 0.0
    steps = ledger.ns.shape[1] if ledger is not None else 0
    rows: list[LedgerRow] = []
    for stage in (*STAGES, UNATTRIBUTED):
        if ledger is None or stage in unseen:
            rows.append({"stage": stage, "share": None, "ms_per_step": None, "parts": []})
            continue
        ns = ledger.total(stage)
        parts: list[Part] = []
        for name in (name for s, name in ledger.parts if s == stage != UNATTRIBUTED):
            own = ledger.total(stage, name)
            if own / whole >= SMALLEST_SHARE:
                parts.append({"name": name, "share": own / whole, "ms_per_step": own / steps / 1e6})
        parts.sort(key=lambda part: -(part["share"] or 0.0))
        rows.append({"stage": stage, "share": ns / whole, "ms_per_step": ns / steps / 1e6, "parts": parts})
    return rows


def finding_row(finding: Finding) -> FindingRow:
    """A finding as a row of the report."""
    row = asdict(finding)
    for internal in ("share_low", "share_high", "names", "names_cause", "advisory", "urgent"):
        del row[internal]
    del row["gain"]["steady_low"]
    for name in ("claims", "also", "folded", "evidence", "fixes"):
        row[name] = list(row[name])
    for other in row["folded"]:
        other["fixes"] = list(other["fixes"])
    return cast(FindingRow, row)


def not_judged_row(row: NotJudged) -> NotJudgedRow:
    """A rule that could not judge as a row of the report."""
    found: NotJudgedRow = {"rule": row.rule, "reason": row.reason, "advisory": row.advisory}
    if row.lever is not None:
        found["lever"] = row.lever
    if row.pressing:
        found["pressing"] = True
    return found


def health_row(row: Health) -> HealthRow:
    """A health record as a row of the report."""
    return {"name": row.name, "severity": row.severity, "count": row.count, "remedy": row.remedy}


def _overhead(cost: OwnCost | None) -> Overhead:
    if cost is None:
        return {"us_per_step": None, "share": None}
    return {"us_per_step": cost.ns_per_step / 1e3, "share": cost.share, "once_ms": cost.once_ns / 1e6}
