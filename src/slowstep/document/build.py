"""The one place where a report is built: once, of sections that are complete. Nothing changes it afterwards."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from typing import Any, cast

from slowstep.diagnosis.law import Diagnosis
from slowstep.document.bench import BenchRow
from slowstep.document.next_step import NextStep
from slowstep.document.recording import finding_row, next_row, not_judged_row
from slowstep.document.report import SCHEMA, FindingRow, HealthRow, Report, Run, VerdictRow
from slowstep.document.sections import ALONE, ExperimentSection, RankSection, Sections
from slowstep.document.words import verdict_row


def build(
    sections: Sections,
    *,
    ranks: RankSection = ALONE,
    experiment: ExperimentSection | None = None,
    more_health: Iterable[HealthRow] = (),
    bench: BenchRow | None = None,
) -> Report:
    """The report of one training. `more_health` is what was met besides, as errors of slowstep's own."""
    diagnosis = sections.diagnosis
    report: Report = {
        "schema": SCHEMA,
        "run": _run(sections.run, sections.next_step, ranks, experiment),
        "throughput": sections.throughput,
        "ledger": list(sections.ledger),
        "verdict": _verdict(diagnosis, experiment),
        "findings": _findings([finding_row(finding) for finding in diagnosis.findings], experiment),
        "next": next_row(diagnosis),
        "not_judged": [not_judged_row(row, diagnosis.verdict) for row in diagnosis.not_judged],
        "health": [*sections.health, *ranks.health, *(() if experiment is None else experiment.health), *more_health],
        "overhead": sections.overhead,
        "experiments": [] if experiment is None else list(experiment.rows),
    }
    if bench is not None:
        report["bench"] = bench
    return report


def _run(run: Run, next_step: NextStep, ranks: RankSection, experiment: ExperimentSection | None) -> Run:
    row: dict[str, Any] = {**run, **ranks.run}
    if notes := [*run.get("notes", ()), *ranks.notes]:
        row["notes"] = notes
    if experiment is not None:
        row["experiment"] = experiment.facts
    if next_step.command is not None:
        row["next_command"] = next_step.command
    if next_step.first is not None:
        row["before_next"] = next_step.first
    return cast(Run, row)


def _verdict(diagnosis: Diagnosis, experiment: ExperimentSection | None) -> VerdictRow:
    verdict = diagnosis.verdict
    if experiment is not None and experiment.proof is not None and verdict.state == "healthy":
        verdict = replace(verdict, reason=experiment.proof)
    return verdict_row(verdict, diagnosis.findings)


def _findings(rows: list[FindingRow], experiment: ExperimentSection | None) -> list[FindingRow]:
    """The measured gain of a finding is that of its first fix, tried as such."""
    measured = {} if experiment is None else experiment.measured
    for row in rows:
        if row["rule"] in measured:
            row["gain"]["measured"] = measured[row["rule"]]
    return rows
