"""Threads of the script's own that make its batches: named where they cannot keep up, with what processes in their place would gain."""

from __future__ import annotations

import math
from typing import Any

import pytest

from judged_recordings import named, report_of
from slowstep.diagnosis.input_side import COMFORTABLE

NAME = "slow-prefetch-thread"
# Steps of 42 ms, of which the loop waits in queue.get() for 30; a thread beside it uses nineteen twentieths of a core.
WAITING: dict[str, Any] = {
    "loader": False, "workers": 0, "input_ms": 30.0, "input_blocked_ms": 30.0, "input_file": "queue.py", "beside": (0.95, 0.0),
    "beside_hands_over": True, "threads": 1, "cores": 8,
}  # fmt: skip


def not_judged(report: Any) -> str | None:
    return next((row["code"] for row in report["not_judged"] if row["rule"] == NAME), None)


def test_a_thread_that_always_computes_is_named_with_what_workers_gain(tmp_path):
    report = report_of(tmp_path, WAITING)

    assert (report["verdict"]["state"], report["verdict"]["rule"]) == ("bottleneck", NAME), report["verdict"]
    finding = report["findings"][0]
    assert finding["title"] == "a background thread makes the batches, in read_ahead (data.py:70), and cannot keep up"
    values = {row["name"]: row["value"] for row in finding["evidence"]}
    assert values["most of it in"] == "decode (data.py:90)"
    step = 1e3 / report["throughput"]["steps_per_s"]
    assert values["making batches"] == pytest.approx(step, rel=0.02)
    assert values["of it computing"] == pytest.approx(0.95 * step, rel=0.02)
    # The body, and the receipt of a batch, take longer than the workers that are proposed.
    assert finding["gain"]["predicted"] == pytest.approx(step / (step - 30 + 1), rel=0.05)
    assert f"num_workers={math.ceil(step / (COMFORTABLE * (step - 30)))})" in finding["fixes"][0]["text"]


def test_on_few_cores_workers_gain_what_the_cores_allow(tmp_path):
    report = report_of(tmp_path, {**WAITING, "cores": 2})

    step = 1e3 / report["throughput"]["steps_per_s"]
    allowed = (0.95 * step + step - 30 + 1) / 2
    assert report["findings"][0]["gain"]["predicted"] == pytest.approx(step / allowed, rel=0.05)


@pytest.mark.parametrize("pool", ["concurrent/futures/thread.py", "multiprocessing/pool.py"])
def test_what_a_pool_of_threads_has_called_hands_over_its_result(tmp_path, pool):
    report = report_of(tmp_path, {**WAITING, "beside_hands_over": False, "beside_called_by": pool})

    assert "in read_ahead (data.py:70)" in report["findings"][0]["title"]


def test_a_thread_that_waits_itself_is_not_blamed(tmp_path):
    report = report_of(tmp_path, {**WAITING, "beside_waits": 4})

    assert NAME not in named(report)
    assert not_judged(report) == "thread-waits"
    assert report["verdict"]["state"] == "undetermined"


@pytest.mark.parametrize("changes", [{"beside_hands_over": False}, {"beside": None}], ids=["hands nothing over", "no thread that computes"])
def test_a_thread_that_makes_something_else_is_not_blamed(tmp_path, changes):
    report = report_of(tmp_path, {**WAITING, **changes})

    assert NAME not in named(report)
    assert not_judged(report) == "no-computing-thread"
    assert report["verdict"]["state"] == "undetermined"


def test_a_thread_that_keeps_up_is_left_alone(tmp_path):
    report = report_of(tmp_path, {**WAITING, "input_ms": 0.3, "input_blocked_ms": 0.3})

    assert NAME not in named(report)
    assert not_judged(report) is None
