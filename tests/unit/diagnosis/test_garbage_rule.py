"""Garbage collections: charged as themselves wherever they occur, and named as the cause where they take much of the time."""

from __future__ import annotations

from typing import Any

import pytest

from judged_recordings import named, report_of
from made_recordings import Training, make_recording
from slowstep.workflow.diagnose import diagnose_recording

Report = dict[str, Any]
NAME = "garbage-collection"

# A serial loader whose batches take next to no time, but for the garbage that is collected while one of them is made.
IN_COLLATE: dict[str, Any] = {"workers": 0, "getitem_ms": 0.2, "collate_ms": 0.1, "per_sample_ms": 0.5, "batch_bytes": 1000}
AFTER_UPDATE: dict[str, Any] = {"workers": 2, "getitem_ms": 4, "per_sample_ms": 0.5, "persistent": True}


@pytest.mark.parametrize("training", [IN_COLLATE, AFTER_UPDATE], ids=["in collate", "after the update"])
@pytest.mark.parametrize("collects", [(1, 4.0), (10, 60.0), (23, 200.0)], ids=["in every step", "in every tenth", "seldom and long"])
def test_collections_are_the_verdict_and_nothing_else_is_blamed(tmp_path, training, collects):
    report = report_of(tmp_path, {**training, "collects": collects})

    verdict = report["verdict"]
    assert (verdict["state"], verdict["rule"], verdict["stage"]) == ("bottleneck", NAME, "output"), verdict["summary"]
    assert named(report) == [NAME]


@pytest.mark.parametrize("training", [IN_COLLATE, AFTER_UPDATE], ids=["in collate", "after the update"])
def test_the_predicted_gain_holds_the_true_one(tmp_path, training):
    before = report_of(tmp_path / "before", {**training, "collects": (1, 6.0)})
    after = report_of(tmp_path / "after", {**training, "collects": (500, 6.0)})

    truth = after["throughput"]["samples_per_s"] / before["throughput"]["samples_per_s"]
    gain = before["findings"][0]["gain"]
    assert gain["predicted"] == pytest.approx(truth, rel=0.03)
    assert gain["low"] <= truth <= gain["high"]


@pytest.mark.parametrize("collects", [None, (10, 1.0), (50, 10.0)], ids=["none", "short ones", "seldom"])
@pytest.mark.parametrize("training", [IN_COLLATE, AFTER_UPDATE], ids=["in collate", "after the update"])
def test_few_and_short_collections_are_no_finding(tmp_path, training, collects):
    report = report_of(tmp_path, {**training, "collects": collects})

    assert named(report) == []
    assert report["verdict"]["state"] == "healthy", report["verdict"]["summary"]


def test_a_slow_collate_is_still_named_where_garbage_is_collected_in_it(tmp_path):
    slow = {**IN_COLLATE, "collate_ms": 12.0, "collate": "pad"}
    clean, report = (report_of(tmp_path / name, {**slow, "collects": c}) for name, c in (("clean", None), ("report", (10, 60.0))))

    collating = [
        row["value"]
        for made in (clean, report)
        for finding in made["findings"]
        for row in finding["evidence"]
        if (finding["rule"], row["name"]) == ("slow-collate", "collate time per step")
    ]
    assert collating[1] == pytest.approx(collating[0], rel=0.01)
    assert {NAME, "slow-collate"} <= set(named(report))


def test_a_script_that_asks_for_collections_is_told_the_line(tmp_path):
    finding = report_of(tmp_path, {**AFTER_UPDATE, "collects": (1, 6.0), "collects_asked": True})["findings"][0]

    assert finding["rule"] == NAME
    assert "train.py:33" in finding["title"]
    assert "gc.collect() once" in finding["fixes"][0]["text"]


def test_the_evidence_says_how_often_how_long_and_of_which_generation(tmp_path):
    finding = report_of(tmp_path, {**AFTER_UPDATE, "collects": (10, 60.0)})["findings"][0]

    evidence = {row["name"]: row["value"] for row in finding["evidence"]}
    assert evidence["generation 2"] == pytest.approx(10, abs=0.5)
    assert evidence["one of generation 2"] == pytest.approx(60)
    assert "gc.disable()" in finding["fixes"][0]["text"]


def test_where_collections_were_not_recorded_it_is_not_said_that_there_were_none(tmp_path):
    folder = make_recording(tmp_path, Training(**{"steps": 300, **AFTER_UPDATE}))
    notes = folder / "100-1.jsonl"
    notes.write_text("".join(line for line in notes.read_text().splitlines(keepends=True) if "garbage_collections" not in line))

    report = diagnose_recording(folder)

    assert NAME in [row["rule"] for row in report["not_judged"]]
    assert report["verdict"]["state"] == "healthy"
