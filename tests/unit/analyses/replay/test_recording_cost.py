"""What a profiler takes of the host's time, and what a step would be without it."""

from __future__ import annotations

from collections.abc import Collection
from itertools import pairwise
from typing import Any

import numpy as np
import polars as pl
import pytest

from made_traces import host, made_trace
from simulated_device import LAUNCH, Simulated
from slowstep.analyses.replay import graph, recording_cost, scenarios
from slowstep.analyses.replay.recording_cost import AS_RECORDED, LESS_MOST_COST, LESS_USUAL_COST, HostClock, find_profiler_records
from slowstep.analyses.replay.replay import find_replay
from slowstep.timeline.timeline import Timeline

# After how long one kernel follows another where no step shows it.
FOLLOWS_US = graph.FOLLOWS_NS / 1000
OPERATOR_US = sum(cost[0] for cost in (recording_cost.OPERATOR_NS, recording_cost.SHAPES_NS)) / 1000


def test_time_is_without_what_was_written_before_it():
    clock = HostClock.of(np.array([100, 500]), np.array([50.0, 50.0]))
    assert clock.own(np.array([0, 50, 100, 500, 900])).tolist() == [0, 50, 50, 400, 800]


def test_events_that_leave_no_time_between_them_take_all_of_it_and_no_more():
    clock = HostClock.of(np.array([100, 110, 120, 500, 500]), np.full(5, 50.0))
    assert clock.own(np.array([100, 120, 500])).tolist() == [50, 50, 330]
    assert np.all(np.diff(clock.own(np.arange(1000))) >= 0)


@pytest.mark.parametrize(("recorded", "usual_us"), [(["shapes"], OPERATOR_US), ([], recording_cost.OPERATOR_NS[0] / 1000)])
def test_operators_cost_more_with_their_shapes(recorded: list[str], usual_us: float):
    hosts = [host("aten::add", 10, 20), host("cudaLaunchKernel", 12, 14, "runtime"), host("aten::add", 30, 40, thread=5)]
    found = find_profiler_records(made_trace(hosts=hosts, recorded=recorded, costs_its_threads=True), [0])
    assert found is not None
    clocks = found.clocks(0, 100_000)
    assert clocks[LESS_USUAL_COST].taken_ns == pytest.approx(usual_us * 1000, abs=2)
    assert clocks[LESS_MOST_COST].taken_ns == pytest.approx(2 * usual_us * 1000, abs=2)
    assert clocks[LESS_USUAL_COST].own(np.array([9_000, 20_000])).tolist() == [9_000, 20_000 - clocks[LESS_USUAL_COST].taken_ns]


def test_a_cost_that_does_not_matter_is_left_out():
    found = find_profiler_records(made_trace(hosts=[host("aten::add", 10, 20)], costs_its_threads=True), [0])
    assert found is not None
    assert found.clocks(0, 100_000)
    assert not found.clocks(0, 1_000_000)
    assert not found.clocks(50_000, 100_000)


def test_of_other_profilers_nothing_is_assumed():
    assert find_profiler_records(made_trace(hosts=[host("aten::add", 10, 20)], costs_its_threads=False), [0]) is None


def profiled(kernel_us: float, operators: int, cost_us: float) -> Simulated:
    """Kernels whose launches take the host 15 us each, and what recording some operators around each costs."""
    simulated = Simulated()
    for _ in range(4):
        for _ in range(100):
            begun = simulated.now
            simulated.work(15.0 - LAUNCH + operators * cost_us)
            cuts = np.linspace(begun, simulated.now, operators + 1).tolist()
            simulated.hosts.extend(host("aten::add", begin, end) for begin, end in pairwise(cuts))
            simulated.launch(kernel_us)
        simulated.step()
    return simulated


def lengths(simulated: Simulated, scenario: str) -> dict[str, dict[str, Any]]:
    """The scenario's rows of the last step, by what is left out."""
    rows = find_replay(simulated.trace(costs_its_threads=True), simulated.steps(), {})
    rows = rows.filter(pl.col("scenario") == scenario)
    assert rows["not_judged"].is_null().all()
    found = rows.group_by("recording", maintain_order=True).last()
    return {row["recording"]: row for row in found.iter_rows(named=True)}


def test_a_step_that_only_its_profiler_makes_launch_bound_gains_nothing():
    # The host takes 15 us a kernel of 20; recorded, 15 and twenty operators' cost.
    found = lengths(profiled(20.0, 20, OPERATOR_US), scenarios.LAUNCHES_FREE)
    assert list(found) == [AS_RECORDED, LESS_USUAL_COST, LESS_MOST_COST]
    gains = {level: row["unchanged_ns"] / row["expected_ns"] for level, row in found.items()}
    assert gains[AS_RECORDED] == pytest.approx((15.0 + 20 * OPERATOR_US) / (20.0 + FOLLOWS_US), rel=0.02)
    assert gains[LESS_USUAL_COST] == pytest.approx(1.0, abs=0.02)
    assert found[LESS_USUAL_COST]["taken_ns"] == pytest.approx(2000 * OPERATOR_US * 1000, rel=0.01)


def test_what_happens_in_a_step_is_read_once_for_all_of_its_forms(monkeypatch: pytest.MonkeyPatch):
    read: list[tuple[str, ...]] = []
    rows_of = Timeline.rows

    def counted(timeline: Timeline, name: str, *columns: str, kinds: Collection[str] = ()) -> pl.DataFrame:
        read.append(columns)
        return rows_of(timeline, name, *columns, kinds=kinds)

    monkeypatch.setattr(Timeline, "rows", counted)
    simulated = profiled(20.0, 20, OPERATOR_US)
    rows = find_replay(simulated.trace(costs_its_threads=True), simulated.steps(), {})

    assert rows["recording"].n_unique() == 3
    assert read.count(("thread", "kind", "name", "start_ns", "end_ns")) == rows["step"].n_unique()


def test_a_step_whose_launches_take_longer_by_themselves_keeps_its_gain():
    alone = profiled(6.0, 0, 0.0)
    found = lengths(profiled(6.0, 10, OPERATOR_US), scenarios.LAUNCHES_FREE)
    assert found[LESS_USUAL_COST]["unchanged_ns"] / 1000 == pytest.approx(alone.length_us, rel=0.02)
    assert found[AS_RECORDED]["unchanged_ns"] / 1000 > 1.3 * alone.length_us


def test_a_wait_full_of_operators_is_shorter_without_their_cost():
    simulated = Simulated()
    for _ in range(4):
        begun = simulated.now
        for _ in range(1000):
            simulated.work(1.0, "aten::sort", kind="operator")
        simulated.hosts.append(host("enumerate(DataLoader)#_SingleProcessDataLoaderIter.__next__", begun, simulated.now, "annotation"))
        simulated.work(1000.0)
        simulated.step()
    rows = find_replay(simulated.trace(costs_its_threads=True, vendor=None), simulated.steps(), {"loader": waits(simulated)})
    found = {row["recording"]: row for row in rows.filter(pl.col("scenario") == scenarios.NO_INPUT_WAIT).iter_rows(named=True)}
    # 1 ms of waiting and 1 of work; of what 1000 operators seem to take a part is what recording them took.
    assert found[AS_RECORDED]["unchanged_ns"] == pytest.approx(2_000_000, rel=0.01)
    assert found[LESS_USUAL_COST]["unchanged_ns"] == pytest.approx(2_000_000 - 1000 * OPERATOR_US * 1000, rel=0.01)
    for level in (AS_RECORDED, LESS_USUAL_COST):
        assert found[level]["best_ns"] == pytest.approx(1_000_000, rel=0.01)


def waits(simulated: Simulated) -> pl.DataFrame:
    rows = [row for row in simulated.hosts if row["kind"] == "annotation"]
    return pl.DataFrame({"start_ns": [round(row["start"] * 1000) for row in rows], "end_ns": [round(row["end"] * 1000) for row in rows]})
