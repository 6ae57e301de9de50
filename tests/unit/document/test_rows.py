"""What findings and the cost of recording become in a report."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from made_findings import claiming
from made_measurements import measurements
from slowstep.analyses.machine.own_cost import OwnCost
from slowstep.cost_parts import CostPart
from slowstep.document.rows import finding_row
from slowstep.document.training import overhead_section
from slowstep.findings import Evidence, EvidenceCode, Finding, Fix, Folded, Gain


@pytest.mark.parametrize(
    ("low", "steady", "kept"),
    [(0.9, 1.57, True), (1.2, 1.3, False), (0.9, 1.02, False), (0.9, None, False)],
    ids=["it decides", "the interval tells it", "it is not sure either", "not known"],
)
def test_the_low_end_at_this_runs_pace_is_told_where_the_verdict_rests_on_it(low: float, steady: float | None, kept: bool) -> None:
    gain = Gain(predicted=2.1, low=low, high=5.9, steady_low=steady, assumes="it took no time")
    parts: dict[str, Any] = {
        "share": 0.5,
        "share_low": 0.4,
        "share_high": 0.6,
        "claims": (),
        "evidence": (Evidence(name="calls", value=1, unit="per step"),),
        "fixes": (Fix(text="do less"),),
    }
    row = finding_row(Finding(rule="slow-callback", stage="output", title="it takes time", gain=gain, **parts))

    assert ("steady_low" in row["gain"]) == kept


def test_evidence_that_is_looked_for_has_its_code_and_other_has_none() -> None:
    calls = Evidence(name="calls", value=1, unit="per step")
    timed = Evidence(name="timed in", value=3, unit="steps", code=EvidenceCode.TIMED_IN)
    gain = Gain(predicted=None, low=None, high=None, assumes="it took no time")
    ranges: dict[str, Any] = {"share": 0.5, "share_low": 0.4, "share_high": 0.6, "claims": (), "fixes": (Fix(text="do less"),)}
    found = Finding(rule="slow-callback", stage="output", title="it takes time", evidence=(calls, timed), gain=gain, **ranges)

    assert [row.get("code", "none") for row in finding_row(found)["evidence"]] == ["none", "timed-in"]


@pytest.mark.parametrize(
    ("predicted", "told"), [(2.0, {"predicted": 2.0, "low": 1.5, "high": None}), (None, None)], ids=["known", "unknown"]
)
def test_what_a_folded_findings_fix_would_gain_is_told_where_it_is_known(predicted: float | None, told: dict[str, Any] | None) -> None:
    low = None if predicted is None else 1.5
    gain = Gain(predicted=predicted, low=low, high=None, steady_low=low, assumes="it took no time")
    folded = Folded(rule="serial-loader", title="it is there", fixes=(Fix(text="use workers"),), gain=gain)

    row = finding_row(replace(claiming(), also=("serial-loader",), folded=(folded,)))

    assert row["folded"][0].get("gain") == told


@pytest.mark.parametrize(
    ("hooks", "timing", "held", "may_exceed"), [(0.002, 0.001, True, False), (0.002, 0.007, True, True), (0.02, 0.0, False, True)]
)
def test_recording_may_exceed_its_limit_by_what_timing_calls_took_too(hooks: float, timing: float, held: bool, may_exceed: bool) -> None:
    cost = OwnCost(ns_per_step=25e3, share=hooks, once_ns=0.0, parts={CostPart.HOOKS: hooks}, timing_share=timing)
    m = measurements(own_cost=cost)

    row = overhead_section(m)

    assert (row["held"], row["may_exceed"]) == (held, may_exceed)
