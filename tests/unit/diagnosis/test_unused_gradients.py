"""Gradients of parameters that no optimizer holds, and those of which it is no fault or nothing is known."""

from __future__ import annotations

from typing import Any

import pytest

from judged import answer_of, code_of, finding, judged, named, unjudged, values
from made_measurements import MS, measurements
from slowstep.analyses.compute.unused_gradients import Taker, UnusedGradients
from slowstep.analyses.measurements import Measurements
from slowstep.frameworks._known import all_words
from slowstep.parts import BACKWARD, BODY

RULE = "unused-gradients"
TEACHER: dict[str, Any] = {
    "taken": Taker.BY_NOBODY, "name": "teacher", "parameters": 70, "elements": 1_500_000, "comparisons": 9, "passes": 1.0,
    "operations": 0.6, "alone_ns": 7 * MS, "halves_ns": 0.0,
}  # fmt: skip


def makes(ledger: dict[Any, float] | None = None, changes: dict[str, Any] | None = None, **unused: Any) -> Measurements:
    """Steps of 19.5 ms, of which backward takes 12, with gradients of a teacher."""
    return measurements(ledger=ledger, unused=UnusedGradients(**{**TEACHER, **unused}), **(changes or {}))


def saved_ms(m: Measurements) -> float:
    return float(values(finding(RULE, m))["fix saves per step"])


def test_backward_in_what_leads_to_them_only_is_saved_and_half_of_what_multiplies_twice():
    found, more = finding(RULE, makes()), saved_ms(makes(halves_ns=2 * MS, passes_on=True))

    assert (found.stage, found.names_cause, found.claims) == ("compute", True, (BACKWARD,))
    assert more / saved_ms(makes()) == pytest.approx(8 / 7, rel=0.01)
    assert found.gain.low is not None
    assert found.gain.low < found.gain.predicted == pytest.approx(19.5 / (19.5 - saved_ms(makes())), rel=0.01)
    assert not any(fix.changes_numerics for fix in found.fixes)


def test_they_lead_where_they_hold_most_of_backward():
    assert named(makes())[0] == RULE


def test_passes_that_make_them_may_be_several_or_only_some():
    assert saved_ms(makes(alone_ns=3.5 * MS, passes=2.0)) == pytest.approx(saved_ms(makes()))
    assert saved_ms(makes(passes=0.5)) == pytest.approx(saved_ms(makes()) / 2)


def test_no_more_is_saved_than_backward_takes():
    assert saved_ms(makes(alone_ns=70 * MS)) < 1.3 * 12


@pytest.mark.parametrize(
    "m",
    [
        makes(taken=Taker.NONE_MADE, alone_ns=None),
        makes(alone_ns=0.8 * MS),
        makes(ledger={BODY: 18.0, BACKWARD: 1.0}),
        makes(changes={"sharing": {"ranks": 2}}),
        makes(taken=Taker.BY_SOMEBODY, alone_ns=0.8 * MS),
        makes(taken=Taker.BY_SOMEBODY, alone_ns=None),
    ],
    ids=["none", "few", "short backward", "shared by ranks", "a little that is used", "used, and not timed"],
)
def test_nothing_is_blamed_that_is_none_or_little_or_may_be_anothers(m):
    assert answer_of(RULE, m) is None


@pytest.mark.parametrize(
    ("m", "code"),
    [
        (makes(taken=Taker.BY_SOMEBODY), "gradients-may-be-used"),
        (makes(comparisons=1), "few-looks-at-gradients"),
    ],
)
def test_what_may_be_of_use_is_not_judged_and_leaves_the_verdict_open(m, code):
    answer = unjudged(RULE, m)

    assert answer is not None
    assert (answer.reason.code, answer.advisory) == (code, False)


def test_where_nobody_looked_no_verdict_is_in_doubt():
    m = measurements(unused=None)
    answer = unjudged(RULE, m)

    assert code_of(RULE, m) == "no-graph-of-gradients"
    assert answer is not None
    assert answer.advisory


def test_where_no_clock_tells_how_long_they_take_it_is_advice():
    device = judged(RULE, makes(alone_ns=None))

    assert (device.finding.advisory, device.finding.claims, device.counterfactual) == (True, (), None)
    assert answer_of(RULE, makes(alone_ns=None, operations=0.05)) is None
    assert answer_of(RULE, makes(alone_ns=None, comparisons=1)) is None


def test_a_graph_is_left_out_only_where_nothing_is_passed_on_through_it():
    words = {"words": all_words()["torch"]}
    teacher, critic = (finding(RULE, makes(changes=words, passes_on=on, halves_ns=on * 4 * MS)).fixes[0].text for on in (False, True))

    assert ("no_grad" in teacher, "no_grad" in critic) == (True, False)
    assert all("requires_grad_(False)" in text and "teacher" in text for text in (teacher, critic))
