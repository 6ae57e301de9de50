from __future__ import annotations

import pytest

from made_measured_traces import gaps_of, made_measured
from made_parts import span_part
from slowstep.analyses.events.parts import FORWARD
from slowstep.analyses.replay.scenarios import NO_CALLBACKS
from slowstep.diagnosis.rule import Judged
from slowstep.diagnosis.rules.after_update.slow_callback import judge
from slowstep.findings import NotJudged
from slowstep.parts import VALIDATION

SAVING = span_part("output", "save_images")
LOG = span_part("output", "log")


def test_a_range_that_takes_its_time_is_named_and_its_gain_is_the_rest() -> None:
    answer = judge(made_measured(has_device=False, ledger={SAVING: 25.0}, rest=FORWARD))

    assert isinstance(answer, Judged)
    assert answer.finding.claims == (SAVING,)
    gain = answer.finding.gain
    assert gain.predicted == pytest.approx(100 / 75)
    assert gain.low is not None
    assert gain.high is not None
    assert gain.low < 100 / 75 < gain.high


def test_a_gain_that_differs_from_step_to_step_has_a_wide_interval() -> None:
    uneven = judge(made_measured(steps=4, has_device=False, ledger={SAVING: [0.0, 0.0, 0.0, 60.0]}, rest=FORWARD))

    assert isinstance(uneven, Judged)
    assert uneven.finding.gain.low is not None
    assert uneven.finding.gain.low < 1.0


@pytest.mark.parametrize(
    ("ledger", "has_device"),
    [({SAVING: 2.0}, False), ({VALIDATION: 40.0}, False), ({}, False), ({SAVING: 25.0}, True)],
    ids=["too short", "validation", "nothing", "with a device"],
)
def test_what_is_short_or_said_by_others_is_not_blamed(ledger, has_device) -> None:
    assert judge(made_measured(has_device=has_device, ledger=ledger, rest=FORWARD)) is None


def test_what_a_device_did_meanwhile_must_be_seen() -> None:
    answer = judge(made_measured(has_device=False, ledger={SAVING: 25.0}, rest=FORWARD, facts={"vendor": "nvidia"}))

    assert isinstance(answer, NotJudged)
    assert answer.reason.code == "no-device-work"


def saving(ms: float, *, between_steps: bool = False) -> list[dict[str, object]]:
    return gaps_of(ms, stage="output", part=SAVING, call="save_images", between_steps=between_steps)


def test_with_a_device_a_range_inside_the_steps_is_judged_by_the_time_that_the_device_lacks() -> None:
    m = made_measured(tables={"gaps": [*saving(20.0), *gaps_of(4.0, gap=1, stage="output", part=LOG)]}, replay={NO_CALLBACKS: 80.0})

    answer = judge(m)

    assert isinstance(answer, Judged)
    assert answer.finding.claims == (SAVING, LOG)
    assert answer.finding.share == pytest.approx(0.24)
    assert answer.finding.title.startswith("save_images holds")
    assert answer.finding.gain.predicted == pytest.approx(1.25)


@pytest.mark.parametrize("gaps", [saving(20.0, between_steps=True), saving(4.9)], ids=["between steps", "too short"])
def test_with_a_device_gaps_between_steps_and_short_ones_are_no_callbacks(gaps: list[dict[str, object]]) -> None:
    assert judge(made_measured(tables={"gaps": gaps})) is None


def test_ranges_that_lie_between_steps_are_left_to_the_rule_on_these() -> None:
    between = gaps_of(1.0, gap=1, stage="output", part=LOG, between_steps=True)

    answer = judge(made_measured(tables={"gaps": [*saving(20.0), *between]}, replay={NO_CALLBACKS: 79.0}))

    assert isinstance(answer, Judged)
    assert answer.finding.claims == (SAVING,)
    assert answer.finding.share == pytest.approx(0.20)
    assert answer.finding.gain.predicted is not None


def test_the_gain_is_not_that_of_taking_away_what_is_between_steps_too() -> None:
    between = gaps_of(10.0, gap=1, stage="output", part=LOG, between_steps=True)

    answer = judge(made_measured(tables={"gaps": [*saving(20.0), *between]}, replay={NO_CALLBACKS: 70.0}))

    assert isinstance(answer, Judged)
    assert answer.finding.gain.predicted is None
