"""Garbage collections: named as the cause where they take much of the time. How they are measured:
tests/unit/analyses/python/test_garbage.py.
"""

from __future__ import annotations

from typing import Any

import pytest

from judged import answer_of, finding, judged, values
from made_measurements import MS, every, measurements, merged
from slowstep.analyses.python.garbage import Collected
from slowstep.diagnosis.engine import diagnose
from slowstep.findings import NotJudged
from slowstep.parts import COLLECTION

NAME = "garbage-collection"


def collects(k: int, ms: float, *, generation: int = 2, asked: bool = False, **more: Any) -> dict[str, Any]:
    """A collection of so many ms in every k-th step."""
    count = 200 // k
    kind = Collected(generation=generation, asked=asked, count=count, total_ns=count * ms * MS, longest_ns=ms * MS)
    at = "train.py:33" if asked else None
    made = {"ledger": {COLLECTION: every(k, ms)}, "garbage": {"kinds": (kind,), "let_go": 7 * count, "asked_at": at}}
    return merged(made, more)


@pytest.mark.parametrize(("k", "ms"), [(1, 4.0), (10, 60.0), (20, 200.0)], ids=["in every step", "in every tenth", "seldom and long"])
def test_collections_are_the_verdict_and_nothing_else_is_blamed(k, ms):
    diagnosis = diagnose(measurements(**collects(k, ms)))

    verdict = diagnosis.verdict
    assert (verdict.state, verdict.rule, verdict.stage) == ("bottleneck", NAME, "output"), verdict.reason
    assert [(found.rule, found.claims) for found in diagnosis.findings] == [(NAME, (COLLECTION,))]


@pytest.mark.parametrize("measured", [{}, collects(10, 1.0), collects(50, 10.0)], ids=["none", "short ones", "seldom"])
def test_few_and_short_collections_are_no_finding(measured):
    m = measurements(**measured)

    assert answer_of(NAME, m) is None
    assert diagnose(m).verdict.state == "healthy"


def test_the_gain_leaves_a_full_collection_now_and_then():
    answer = judged(NAME, measurements(**collects(1, 6.0)))

    step_ms = 19.5 + 6.0
    removed_ms = {name: getattr(answer.counterfactual, name).removed_ns.mean() / MS for name in ("expected", "pessimistic", "optimistic")}
    # One of 6 ms in 500 steps, at worst in 250.
    assert removed_ms == pytest.approx({"expected": 6 - 6 / 500, "pessimistic": 6 - 6 / 250, "optimistic": 6.0}, rel=1e-4)
    assert answer.finding.gain.predicted == pytest.approx(step_ms / (step_ms - removed_ms["expected"]), rel=0.01)


def test_the_evidence_says_how_often_how_long_and_of_which_generation():
    shown = values(finding(NAME, measurements(**collects(10, 60.0))))

    assert (shown["collections of generation 2"], shown["each of generation 2"], shown["objects freed"]) == pytest.approx((10, 60, 7))


def test_a_script_that_asks_for_collections_is_told_the_line_and_other_advice():
    asked, own = (finding(NAME, measurements(**collects(1, 6.0, asked=asked))) for asked in (True, False))

    assert {row.where for row in asked.evidence if row.name == "collections asked for"} == {"train.py:33"}
    assert asked.fixes[0] != own.fixes[0]


@pytest.mark.parametrize(("asked_ms", "by_script"), [(3.4, True), (2.4, False)], ids=["most of it", "less than half"])
def test_who_asks_for_most_of_the_time_is_the_cause(asked_ms, by_script):
    """Of 6 ms in each step: what the script asks for, and what Python collects by itself."""
    kinds = tuple(
        Collected(generation=2, asked=asked, count=200, total_ns=200 * ms * MS, longest_ns=ms * MS)
        for asked, ms in ((True, asked_ms), (False, 6 - asked_ms))
    )
    answer = judged(NAME, measurements(**merged(collects(1, 6.0), {"garbage": {"kinds": kinds, "asked_at": "train.py:33"}})))

    assert answer.counterfactual is not None
    # What it asks for is all that its fix can take away.
    assert answer.counterfactual.optimistic.removed_ns.mean() / MS == pytest.approx(asked_ms if by_script else 6.0)
    assert (len(answer.finding.fixes) == 2) is by_script


def test_only_collections_that_walk_all_are_frozen_out():
    old, young = (finding(NAME, measurements(**collects(1, 6.0, generation=generation))).fixes for generation in (2, 0))

    assert (len(old), len(young)) == (3, 2)


def test_where_collections_were_not_recorded_it_is_not_said_that_there_were_none():
    m = measurements(garbage={"recorded": False})

    assert isinstance(answer_of(NAME, m), NotJudged)
    assert diagnose(m).verdict.state == "healthy"
