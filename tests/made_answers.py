"""Answers of rules, for tests of what is concluded from them, whatever was measured."""

from __future__ import annotations

from dataclasses import dataclass
from types import ModuleType
from typing import Any

import pytest

from slowstep.analyses.measurements import Measurements
from slowstep.diagnosis import engine, healthy, trace_view
from slowstep.diagnosis.gain import StepAfter
from slowstep.diagnosis.rule import Answer, Judged, Rule
from slowstep.findings import Evidence, Finding, Fix, Gain
from slowstep.parts import Part, PartKind

# Whoever asks for the rules.
ASKS: tuple[ModuleType, ...] = (engine, healthy, trace_view)


@dataclass(frozen=True)
class Foretold:
    """A counterfactual whose gain a test says."""

    predicted: float
    assumes: str = "it is gone"

    def gain(self, _: Measurements) -> Gain:
        return Gain(predicted=self.predicted, low=self.predicted, high=self.predicted, assumes=self.assumes)

    def after(self, m: Measurements) -> StepAfter:
        return StepAfter(own_ns=m.mean_step_ns / self.predicted)


def judged(
    rule: str,
    predicted: float | None,
    low: float | None = None,
    *,
    stage: str = "output",
    part: Part | None = None,
    share: float = 0.3,
    share_low: float | None = None,
    **more: Any,
) -> Judged:
    """What a rule found: the gain is known to 5 % where `low` is not given, its share to 10 % where `share_low` is not.

    It claims a part of its own where none is given; `more` are fields of the finding.
    """
    least = None if predicted is None else max(1.0, predicted * 0.95) if low is None else low
    finding = Finding(
        rule=rule,
        stage=stage,
        title=f"{rule} is there",
        share=share,
        share_low=share * 0.9 if share_low is None else share_low,
        share_high=share * 1.1,
        claims=(part or Part(stage, PartKind.SPAN, rule),),
        evidence=(Evidence(name="seen", value=1, unit=""),),
        gain=Gain(predicted=predicted, low=least, high=None if predicted is None else predicted * 1.1, assumes="it is gone"),
        fixes=(Fix(text="remove it"),),
        **more,
    )
    return Judged(finding=finding, counterfactual=None if predicted is None else Foretold(predicted))


def set_answers(monkeypatch: pytest.MonkeyPatch, *answers: Answer, stages: tuple[str, ...] = ("compute",)) -> None:
    """Has as many rules as there are answers answer them, of a recording and of a trace: `r0`, `r1`, ..."""
    rules = {f"r{i}": _answering(f"r{i}", answer, stages) for i, answer in enumerate(answers)}
    for module in ASKS:
        monkeypatch.setattr(module, "rules", lambda: rules)


def _answering(name: str, answer: Answer, stages: tuple[str, ...]) -> Rule:
    return Rule(name=name, stages=stages, topics=("ledger",), judge=lambda _: answer)
