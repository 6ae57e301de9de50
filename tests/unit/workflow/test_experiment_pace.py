"""The pace of a training, as the plan of an experiment has it: what comes back is whole in a block, as long as that stays short."""

from __future__ import annotations

from typing import Any

import pytest

from slowstep.prove.step_pace import find_pace, receipt_ns


def report_of(*periodic: tuple[str, float | None, float], steps_per_s: float = 10.0, gain: float | None = None) -> dict[str, Any]:
    rows = [{"name": name, "every_steps": every, "share": share} for name, every, share in periodic]
    return {"throughput": {"steps_per_s": steps_per_s}, "run": {"periodic": rows}, "findings": [{"gain": {"predicted": gain}}]}


def test_without_anything_periodic_every_step_is_whole() -> None:
    pace = find_pace(report_of())

    assert (pace.step_ms, pace.period_steps) == (100.0, 1)


@pytest.mark.parametrize(
    ("every", "share", "period"),
    [(5.0, 0.5, 5), (5.0, 0.04, 1), (None, 0.5, 1), (5.4, 0.5, 1), (30.0, 0.5, 30)],
    ids=["regular", "small", "once", "irregular", "alone it may be long"],
)
def test_what_comes_back_regularly_and_takes_its_time_is_a_period(every: float | None, share: float, period: int) -> None:
    assert find_pace(report_of(("checkpoint", every, share))).period_steps == period


@pytest.mark.parametrize(("epochs_first", "period"), [(False, 2), (True, 19)])
def test_a_change_of_epoch_comes_before_what_takes_more_where_levers_change_it(epochs_first: bool, period: int) -> None:
    """Both together are 38 steps of 100 ms: a block would be longer than a second."""
    report = report_of(("blocked for an unknown reason", 2.0, 0.4), ("epoch change", 19.0, 0.1))

    assert find_pace(report, epochs_first=epochs_first).period_steps == period


@pytest.mark.parametrize(("gain", "period"), [(None, 1), (1.2, 1), (4.0, 20)])
def test_a_change_of_epoch_is_judged_by_what_it_takes_of_the_fastest_arm(gain: float | None, period: int) -> None:
    report = report_of(("epoch change", 20.0, 0.03), ("checkpoint", 7.0, 0.03), gain=gain)

    assert find_pace(report, epochs_first=True).period_steps == period
    assert find_pace(report).period_steps == 1


@pytest.mark.parametrize(("steps_per_batch", "turn", "period"), [(4.02, 4, 4), (2.6, 3, 1), (4.0, 4, 4)])
def test_loaders_in_turns_are_seen_whole(steps_per_batch: float, turn: int, period: int) -> None:
    report = report_of()
    report["run"]["steps_per_batch"] = steps_per_batch

    pace = find_pace(report)

    assert (pace.turn_steps, pace.period_steps) == (turn, period)


def test_what_a_batch_takes_besides_its_making_is_its_receipt() -> None:
    """As the fixed cost of a step counts it."""
    kinds = {"transport": 1.5, "loader_overhead": 0.5, "making_batches": 7.0}
    ledger = [{"stage": "preprocess", "parts": [{"kind": kind, "ms_per_step": ms} for kind, ms in kinds.items()]}]

    assert receipt_ns({"ledger": ledger}) == 2e6
