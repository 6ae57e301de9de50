"""The words of verdicts: what the report answers in one sentence."""

from __future__ import annotations

from collections.abc import Iterable

from slowstep.document.finding_rows import VerdictRow
from slowstep.findings import Finding, Verdict
from slowstep.reason_words import sentence


def verdict_row(verdict: Verdict, findings: Iterable[Finding]) -> VerdictRow:
    """The verdict on these findings as the report's answer."""
    return {
        "state": verdict.state,
        "stage": verdict.stage,
        "healthy": verdict.healthy,
        "rule": verdict.rule,
        "summary": _summary(verdict, title_of(verdict, findings)),
        "answer": _answer(verdict, title_of(verdict, findings)),
        "code": None if verdict.reason is None else verdict.reason.code,
    }


def title_of(verdict: Verdict, findings: Iterable[Finding]) -> str | None:
    """The title of the finding whose rule the verdict names; None where it names none."""
    return next((finding.title for finding in findings if finding.rule == verdict.rule), None)


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
