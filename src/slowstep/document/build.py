"""The one place where a report is built: once, of sections that are complete. Nothing changes it afterwards."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any, cast

from slowstep.diagnosis.law import Diagnosis
from slowstep.document.bench import BenchRow
from slowstep.document.finding_rows import HealthRow, VerdictRow
from slowstep.document.next_step import NOTHING_NEXT, NextStep
from slowstep.document.report import SCHEMA, Report
from slowstep.document.rows import finding_row, next_row, not_judged_row
from slowstep.document.run_rows import Run
from slowstep.document.sections import ALONE, ExperimentSection, RankSection, Sections
from slowstep.findings import Finding, Verdict
from slowstep.reason_words import opens_with_name, sentence


def build(
    sections: Sections,
    *,
    next_step: NextStep = NOTHING_NEXT,
    ranks: RankSection = ALONE,
    experiment: ExperimentSection | None = None,
    more_health: Iterable[HealthRow] = (),
    bench: BenchRow | None = None,
) -> Report:
    """The report of one training. `more_health` is what was met besides, as errors of slowstep's own."""
    diagnosis = sections.diagnosis
    report: Report = {
        "schema": SCHEMA,
        "run": _run(sections, next_step, ranks, experiment),
        "throughput": sections.throughput,
        "ledger": list(sections.ledger),
        "verdict": verdict_row(diagnosis.verdict, diagnosis.findings),
        "findings": [finding_row(finding) for finding in diagnosis.findings],
        "next": next_row(diagnosis),
        "not_judged": [not_judged_row(row, diagnosis.verdict) for row in diagnosis.not_judged],
        "health": [*sections.health, *ranks.health, *(() if experiment is None else experiment.health), *more_health],
        "overhead": sections.overhead,
        "experiments": [] if experiment is None else list(experiment.rows),
    }
    if sections.pipeline is not None:
        report["pipeline"] = sections.pipeline
    if sections.loader_settings is not None:
        report["loader_settings"] = list(sections.loader_settings)
    if bench is not None:
        report["bench"] = bench
    return report


def _run(sections: Sections, next_step: NextStep, ranks: RankSection, experiment: ExperimentSection | None) -> Run:
    row: dict[str, Any] = {**sections.run, **ranks.run}
    if notes := [*_first_notes(sections.diagnosis), *sections.run.get("notes", ()), *ranks.notes]:
        row["notes"] = notes
    if experiment is not None:
        row["experiment"] = experiment.facts
    if next_step.command is not None:
        row["next_command"] = next_step.command
    if next_step.in_python:
        row["next_in_python"] = True
    if next_step.first is not None:
        row["before_next"] = next_step.first
    return cast(Run, row)


def _first_notes(diagnosis: Diagnosis) -> Iterator[str]:
    """What is pressing, and what lies outside the script."""
    for finding in diagnosis.findings:
        if finding.urgent:
            yield f"out of memory within the hour at this rate: {finding.title}"
    for finding in diagnosis.findings:
        if finding.outside:
            yield f"{finding.title} ({finding.fixes[0].text})"


def verdict_row(verdict: Verdict, findings: Iterable[Finding]) -> VerdictRow:
    """The verdict on these findings as the report's answer."""
    return {
        "state": verdict.state,
        "stage": verdict.stage,
        "healthy": verdict.healthy,
        "rule": verdict.rule,
        "summary": _summary(verdict, _title_of(verdict, findings)),
        "answer": _answer(verdict, _title_of(verdict, findings)),
        "opens_with_name": _opens_with_name(verdict, findings),
        "code": None if verdict.reason is None else verdict.reason.code,
    }


def _title_of(verdict: Verdict, findings: Iterable[Finding]) -> str | None:
    """The title of the finding whose rule the verdict names; None where it names none."""
    return next((finding.title for finding in findings if finding.rule == verdict.rule), None)


def _opens_with_name(verdict: Verdict, findings: Iterable[Finding]) -> bool:
    """Whether the answer begins with one."""
    first = verdict.scope or verdict.reason
    if first is not None:
        return opens_with_name(first)
    return any(finding.opens_with_name for finding in findings if finding.rule == verdict.rule)


def _summary(verdict: Verdict, title: str | None) -> str:
    """A verdict in one sentence; `title` is that of the finding whose rule it names."""
    if verdict.state != "undetermined":
        return _answer(verdict, title)
    scope = "" if verdict.scope is None else f" {sentence(verdict.scope)}"
    return f"undetermined{scope}, because {_said(verdict, title)}"


def _answer(verdict: Verdict, title: str | None) -> str:
    """The same, of a reader who knows the state."""
    return _said(verdict, title) if verdict.scope is None else f"{sentence(verdict.scope)}: {_said(verdict, title)}"


def _said(verdict: Verdict, title: str | None) -> str:
    return title or "" if verdict.reason is None else sentence(verdict.reason)
