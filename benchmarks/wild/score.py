"""Pure: what reports say beside what is true."""

from __future__ import annotations

import math
import statistics
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

from suite import Case

# How reports write where a line stands.
PLACES = ("{file}:{line}", "line {line} ({file})")


@dataclass(frozen=True, kw_only=True)
class Outcome:
    """One report on one training. `named` is None where there is no cause to name, `basis` says what of the report is its gain."""

    case: str
    truth: str
    said: str
    right: bool
    stage: str | None
    rule: str | None
    named: bool | None
    predicted: float | None
    basis: str | None
    true: float | None

    @property
    def undetermined(self) -> bool:
        return self.said == "undetermined"

    @property
    def confidently_wrong(self) -> bool:
        """Another state or stage than the true one, said without a doubt."""
        return not self.right and not self.undetermined

    @property
    def false_alarm(self) -> bool:
        """A bottleneck where there is none."""
        return self.truth == "healthy" and self.said == "bottleneck"

    @property
    def log_error(self) -> float | None:
        """|ln(predicted / true)|."""
        return abs(math.log(self.predicted / self.true)) if self.predicted and self.true else None


@dataclass(frozen=True, kw_only=True)
class Score:
    """Counts over outcomes, and the median error of the gain over those of bottlenecks; silence counts as infinitely wrong."""

    outcomes: tuple[Outcome, ...]

    def count(self, name: str) -> int:
        return sum(bool(getattr(outcome, name)) for outcome in self.outcomes)

    @property
    def planted(self) -> tuple[Outcome, ...]:
        return tuple(outcome for outcome in self.outcomes if outcome.truth == "bottleneck")

    @property
    def healthy(self) -> tuple[Outcome, ...]:
        return tuple(outcome for outcome in self.outcomes if outcome.truth == "healthy")

    @property
    def told(self) -> tuple[Outcome, ...]:
        """Those of bottlenecks with a gain, be it a bound."""
        return tuple(outcome for outcome in self.planted if outcome.predicted)

    @property
    def median_log_error(self) -> float | None:
        errors = [math.inf if each.log_error is None else each.log_error for each in self.planted if each.true]
        return statistics.median(errors) if errors else None


def to_outcome(case: Case, report: dict[str, Any], true: float | None) -> Outcome:
    """What a report says of a case whose true gain was measured beside it."""
    verdict, finding = report["verdict"], leading(report)
    predicted, basis = gain_of(finding, case) if finding else (None, None)
    return Outcome(
        case=case.name,
        truth=case.state,
        said=verdict["state"],
        right=verdict["state"] == case.state and (case.state == "healthy" or verdict["stage"] in case.stages),
        stage=verdict["stage"],
        rule=finding["rule"] if finding else None,
        named=None if case.state == "healthy" else finding is not None and names_cause(finding, case),
        predicted=predicted,
        basis=basis,
        true=true,
    )


def leading(report: dict[str, Any]) -> dict[str, Any] | None:
    """The first finding that something in the script causes, advice that claims no time only where there is no other."""
    within = [finding for finding in report["findings"] if not finding.get("outside")]
    return next((finding for finding in within if finding["claims"]), within[0] if within else None)


def names_cause(finding: dict[str, Any], case: Case) -> bool:
    """Whether a reader of the finding knows what to change."""
    if finding["rule"] in case.rules:
        return True
    places = [form.format(file=case.script.name, line=number) for number in case.line_numbers for form in PLACES]
    marks = [*case.words, *places]
    if case.function:
        marks.append(case.function)
    said = "\n".join(texts(finding))
    return any(stands_in(mark, said) for mark in marks)


def stands_in(mark: str, text: str) -> bool:
    """Whether a mark is in a text and no longer word is meant: line 12 is not line 120."""
    at = text.find(mark)
    while at >= 0:
        after = text[at + len(mark) : at + len(mark) + 1]
        if not (mark[-1:].isalnum() and (after.isalnum() or after == "_")):
            return True
        at = text.find(mark, at + 1)
    return False


def texts(finding: dict[str, Any]) -> Iterable[str]:
    """All words of a finding: its title, evidence and fixes, and those of the findings that are folded into it."""
    yield finding["title"]
    for row in finding["evidence"]:
        yield from (str(part) for part in (row["name"], row["value"], row["where"]) if isinstance(part, str))
    for fix in finding["fixes"]:
        yield fix["text"]
    for folded in finding.get("folded", ()):
        yield folded["title"]
        yield folded.get("names") or ""
        for fix in folded["fixes"]:
            yield fix["text"]


def gain_of(finding: dict[str, Any], case: Case) -> tuple[float | None, str | None]:
    """(gain, basis): that of the advised fix where `--fixed` is that fix, else what the time that it claims would gain at no cost."""
    if finding["rule"] in case.alike and finding["gain"]["predicted"]:
        return finding["gain"]["predicted"], "fix"
    if finding["claims"] and finding["share"] < 1:
        return 1 / (1 - finding["share"]), "bound"
    return None, None
