"""The pace of a training, as the plan of an experiment has it: what comes back is whole in a block, as long as that stays short."""

from __future__ import annotations

from typing import Any

import pytest

from slowstep.workflow.pace import find_pace


def report_of(*periodic: tuple[str, float | None, float], steps_per_s: float = 10.0) -> dict[str, Any]:
    rows = [{"name": name, "every_steps": every, "share": share} for name, every, share in periodic]
    return {"throughput": {"steps_per_s": steps_per_s}, "run": {"periodic": rows}}


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
    report = report_of(("blocked, cause unseen", 2.0, 0.4), ("epoch change", 19.0, 0.1))

    assert find_pace(report, epochs_first=epochs_first).period_steps == period
