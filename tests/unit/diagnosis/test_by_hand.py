"""Trainings that update by hand: what follows their backward is the update, a callback, or not known to be either."""

from __future__ import annotations

from judged_recordings import named, report_of


def parts_of(report, stage):
    row = next(row for row in report["ledger"] if row["stage"] == stage)
    return {part["name"]: part["share"] for part in row["parts"]}


def test_a_function_that_names_gradients_is_no_callback(tmp_path):
    report = report_of(tmp_path, {"after_ms": 20, "by_hand": True, "after_gradients": True})

    assert parts_of(report, "compute")["update by hand"] > 0.3
    assert "slow-callback" not in named(report)


def test_beside_an_optimizer_it_is_one(tmp_path):
    report = report_of(tmp_path, {"after_ms": 20, "after_gradients": True})

    assert "slow-callback" in named(report)
    assert not any("by hand" in note for note in report["run"].get("notes", ()))


def test_another_function_is_a_callback_there_too(tmp_path):
    report = report_of(tmp_path, {"after_ms": 20, "by_hand": True})

    assert report["verdict"]["rule"] == "slow-callback"


def test_the_loop_s_own_lines_may_hold_more_than_the_update_and_are_not_blamed(tmp_path):
    report = report_of(tmp_path, {"after_ms": 20, "after": "", "by_hand": True})

    assert report["verdict"]["state"] == "undetermined"
    assert report["verdict"]["code"] == "lines-beside-backward"
    assert "line 34 (train.py)" in report["verdict"]["summary"]
    assert named(report) == []


def test_a_few_of_them_leave_it_healthy(tmp_path):
    report = report_of(tmp_path, {"after_ms": 1, "after": "", "by_hand": True})

    assert report["verdict"]["state"] == "healthy", report["verdict"]["summary"]
