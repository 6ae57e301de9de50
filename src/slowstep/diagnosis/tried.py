"""What an experiment changes in a diagnosis: gains that it measured, and what it proved where no rule predicted one."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Final

from slowstep.diagnosis.law import BOTTLENECK_PREDICTED, GAIN_NOT_KNOWN, Diagnosis
from slowstep.findings import Finding, MeasuredGain, Verdict
from slowstep.reasons import Reason, Wording

PROVED_UNPREDICTED: Final = Wording("proved-unpredicted", "no gain of 10 % was predicted, but the experiment proved one for {rule}")
GAIN_MEASURED: Final = Wording(
    "gain-measured",
    "what fixing {rule} would gain could not be predicted ({whole}{share:share} of the time); "
    "the experiment measured {value:ratio} ({low:ratio} to {high:ratio})",
)


@dataclass(frozen=True, kw_only=True, slots=True)
class Tried:
    """What an experiment tells of findings: `measured` are gains by the rules whose first fixes were tried, `proved` is each gain that was
    proved of a fix, with its rule.
    """

    measured: Mapping[str, MeasuredGain] = field(default_factory=dict)
    proved: Sequence[tuple[float, str]] = ()


def with_tried(diagnosis: Diagnosis, tried: Tried) -> Diagnosis:
    """The diagnosis once it is known what an experiment showed of it."""
    findings = tuple(_with_measured(finding, tried) for finding in diagnosis.findings)
    return replace(diagnosis, findings=findings, verdict=_verdict(diagnosis.verdict, tried))


def _with_measured(finding: Finding, tried: Tried) -> Finding:
    """The measured gain of a finding is that of its first fix, tried as such."""
    measured = tried.measured.get(finding.rule)
    return finding if measured is None else replace(finding, gain=replace(finding.gain, measured=measured))


def _verdict(verdict: Verdict, tried: Tried) -> Verdict:
    reason = verdict.reason
    if verdict.state == "healthy":
        return replace(verdict, reason=_largest_proof(tried) or reason)
    if reason is not None and reason.wording is GAIN_NOT_KNOWN:
        return replace(verdict, reason=_once_tried(reason, tried))
    return verdict


def _largest_proof(tried: Tried) -> Reason | None:
    """What is to be said of a training in which no rule saw a bottleneck where a finding's fix gains as much as one; else None.

    Rules predict nothing of advice, whose levers are tried all the same.
    """
    gain, rule = max(tried.proved, default=(0.0, ""))
    return None if gain < BOTTLENECK_PREDICTED else PROVED_UNPREDICTED(rule=rule)


def _once_tried(unknown: Reason, tried: Tried) -> Reason:
    """Why the verdict is open where only an experiment tells: that it is to be tried, unless it was."""
    values = unknown.values
    gain = tried.measured.get(str(values["rule"]))
    if gain is None:
        return unknown
    told = {"value": gain.value, "low": gain.low, "high": gain.high}
    return GAIN_MEASURED(rule=values["rule"], whole=values["whole"], share=values["share"], **told)
