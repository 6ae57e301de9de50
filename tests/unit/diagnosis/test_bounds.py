"""Findings about parts that are known within bounds only."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from judged import answer_of, finding
from made_measurements import measurements
from made_parts import function_part
from made_topics import with_topics
from slowstep.analyses.measurements import Measurements
from slowstep.diagnosis.bounds import judged_within_bounds
from slowstep.diagnosis.engine import diagnose
from slowstep.diagnosis.law import BOTTLENECK_PREDICTED, is_bottleneck
from slowstep.diagnosis.rule import Judged
from slowstep.document.ledger import ledger_section
from slowstep.document.ledger_rows import unbalanced
from slowstep.document.validity import json_schema
from slowstep.findings import Finding
from slowstep.parts import UNKNOWN

CALLBACK = function_part("output", "save_mask_images", "train.py", 80)
BESIDE_MS = 19.5


def callback_of(surely_ms: float, unknown_ms: float) -> Measurements:
    """A callback that takes so much for sure, and perhaps all of what is not known."""
    m = measurements(ledger={CALLBACK: surely_ms, UNKNOWN: unknown_ms}, stacks={CALLBACK: 100})
    low, high = m.ledger.ns.copy(), m.ledger.ns.copy()
    low[m.ledger.parts.index(UNKNOWN)] = 0.0
    high[m.ledger.parts.index(CALLBACK)] += m.ledger.ns[m.ledger.parts.index(UNKNOWN)]
    return with_topics(m, ledger=replace(m.ledger, low=low, high=high))


def within_bounds(m: Measurements) -> Finding:
    answer = judged_within_bounds(lambda m: answer_of("slow-callback", m), m)
    assert isinstance(answer, Judged)
    return answer.finding


def test_both_ends_of_the_share_and_of_the_gain_are_those_of_the_part() -> None:
    m = callback_of(5.0, 2.0)
    exact = finding("slow-callback", m)

    found = within_bounds(m)

    whole = BESIDE_MS + 7.0
    assert found.share == exact.share == pytest.approx(5.0 / whole)
    assert found.share_low == exact.share_low
    assert found.share_high == pytest.approx(exact.share_high + 2.0 / whole)
    assert (found.gain.predicted, found.gain.low) == (exact.gain.predicted, exact.gain.low)
    assert 1 / found.gain.high == pytest.approx(1 / exact.gain.high - 2.0 / whole)


def test_what_is_known_has_the_bounds_that_the_rule_gives() -> None:
    m = measurements(ledger={CALLBACK: 5.0}, stacks={CALLBACK: 100})

    assert within_bounds(m) == finding("slow-callback", m)


def test_a_gain_that_is_large_only_at_its_high_end_is_no_bottleneck() -> None:
    m = callback_of(1.0, 1.9)
    found = within_bounds(m)

    assert found.gain.high > BOTTLENECK_PREDICTED
    assert not is_bottleneck(found)
    assert diagnose(m).verdict.state != "bottleneck"


def test_a_bottleneck_by_its_low_end_is_one() -> None:
    assert diagnose(callback_of(8.0, 2.0)).verdict.rule == "slow-callback"


def test_what_is_not_known_leaves_a_verdict_open_where_it_is_more() -> None:
    verdict = diagnose(callback_of(5.0, 10.0)).verdict

    assert verdict.state == "undetermined"
    assert verdict.reason is not None
    assert verdict.reason.code == "unknown-is-larger"


def test_the_report_says_between_which_shares_a_part_lies() -> None:
    jsonschema = pytest.importorskip("jsonschema")
    section = ledger_section(callback_of(5.0, 10.0))
    rows = {row["stage"]: row for row in section}
    whole = BESIDE_MS + 15.0

    assert (rows["output"]["share_low"], rows["output"]["share_high"]) == pytest.approx((5.0 / whole, 15.0 / whole))
    part = rows["unattributed"]["parts"][0]
    assert (part["kind"], part["share"], part["share_low"]) == ("unknown", pytest.approx(10.0 / whole), 0.0)
    assert "share_low" not in rows["compute"]
    assert unbalanced(section) == []
    jsonschema.validate(section, {"$defs": json_schema()["$defs"], **json_schema()["properties"]["ledger"]})


def test_what_is_not_known_can_be_that_of_several_parts_once_only() -> None:
    ledger = callback_of(5.0, 10.0).ledger
    other = function_part("output", "log_images", "train.py", 90)
    row = ledger.parts.index(CALLBACK)
    both = replace(
        ledger,
        parts=(*ledger.parts, other),
        ns=np.vstack((ledger.ns, ledger.ns[row])),
        low=np.vstack((ledger.low, ledger.low[row])),
        high=np.vstack((ledger.high, ledger.high[row])),
    )

    assert both.bounds(CALLBACK) == pytest.approx((5e6 * 200, 15e6 * 200))
    assert both.bounds(CALLBACK, other) == pytest.approx((10e6 * 200, 20e6 * 200))
