from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from slowstep.errors import NothingRecorded
from slowstep.prove.lead_in import LeadIn, LeadLimits, lead_in
from staged_training import Stage, StagedTraining

LIMITS = LeadLimits(start_s=30.0, updates=45, enough_s=5.0, periods_s=20.0, most_s=60.0)


class Diagnoses:
    """Reports on request; the periods of the training are whole from a time on."""

    def __init__(self, training: StagedTraining, whole_from_s: float = 0.0, *, nothing: bool = False) -> None:
        self.training, self.whole_from_s, self.nothing = training, whole_from_s, nothing
        self.at_s: list[float] = []

    def __call__(self, until_ns: int) -> dict[str, Any]:
        assert until_ns == int(self.training.now_s * 1e9)
        self.at_s.append(round(self.training.now_s - self.training.began_s - (self.training.stage.trains_at_s or 0.0), 1))
        if self.nothing:
            raise NothingRecorded("only 1 update recorded")
        return {"run": {"whole_periods": self.at_s[-1] >= self.whole_from_s}}


def led(stage: Stage, **more: Any) -> tuple[LeadIn, Diagnoses]:
    training = StagedTraining(Path("nowhere"), stage)
    diagnoses = Diagnoses(training, **more)
    return lead_in(training, diagnoses, lambda *_: None, limits=LIMITS, clock=training.clock, sleep=training.sleep), diagnoses


def test_it_ends_when_there_are_steps_and_seconds_enough():
    lead, diagnoses = led(Stage())

    assert (lead.how, lead.reason) == ("enough", None)
    assert diagnoses.at_s == pytest.approx([5.0], abs=0.15)


def test_slow_steps_are_waited_for():
    lead, diagnoses = led(Stage(step_ms=500.0))

    assert lead.how == "enough"
    assert diagnoses.at_s == pytest.approx([22.0], abs=0.15)


def test_very_slow_steps_are_not_waited_for_for_ever():
    lead, diagnoses = led(Stage(step_ms=5000.0))

    assert lead.how == "limit"
    assert lead.report is not None
    assert diagnoses.at_s == pytest.approx([60.0], abs=0.15)


def test_periods_that_are_not_whole_are_waited_for_and_not_looked_at_all_the_time():
    lead, diagnoses = led(Stage(), whole_from_s=14.0)

    assert lead.how == "enough"
    assert 14.0 <= diagnoses.at_s[-1] < 18.0
    assert len(diagnoses.at_s) == 4


def test_periods_that_take_too_long_are_given_up():
    lead, diagnoses = led(Stage(), whole_from_s=1e9)

    assert lead.how == "enough"
    assert diagnoses.at_s[-1] == pytest.approx(20.0, abs=0.2)


def test_a_script_that_never_trains_is_not_waited_for_for_ever():
    lead, diagnoses = led(Stage(trains_at_s=None))

    assert (lead.how, lead.report) == ("never trained", None)
    assert lead.reason == "no training step was seen in 30 s"
    assert diagnoses.at_s == []


def test_a_script_that_ends_is_diagnosed_by_what_there_is():
    lead, _ = led(Stage(ends_at_s=4.0))

    assert (lead.how, lead.report is None) == ("ended", False)


def test_a_script_that_ends_before_it_trains_leaves_nothing_but_a_reason():
    lead, _ = led(Stage(trains_at_s=None, ends_at_s=1.0), nothing=True)

    assert (lead.how, lead.report, lead.reason) == ("ended", None, "only 1 update recorded")
