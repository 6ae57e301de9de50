"""Delays that nothing explains: once something is changed, they may bind where they did not before."""

from __future__ import annotations

import numpy as np
import polars as pl
import pytest

from made_traces import device, host, made_trace, step
from simulated_device import Simulated, steps_of
from slowstep.analyses.replay.graph import build_graph, residual_ns, unexplained_residual
from slowstep.analyses.replay.graph_waits import LaunchOrder
from slowstep.analyses.replay.replay import find_replay
from slowstep.analyses.replay.replayed_work import Material, find_material
from slowstep.analyses.replay.scenarios import LAUNCHES_FREE, UNCHANGED
from slowstep.analyses.replay.unjudged import DELAYS_THEN
from slowstep.timeline.timeline import Timeline


def launching(late_us: float = 0.0) -> Timeline:
    """A host that launches every 105 us, and kernels that come so much later than a launch takes."""
    simulated = Simulated()
    for _ in range(3):
        for _ in range(100):
            simulated.work(100.0)
            simulated.launch(4.0)
        simulated.step()
    simulated.devices = [row | {"start": row["start"] + late_us, "end": row["end"] + late_us} for row in simulated.devices]
    return simulated.trace()


def last(timeline: Timeline, scenario: str) -> dict[str, object]:
    return find_replay(timeline, steps_of(timeline), {}).filter(pl.col("scenario") == scenario).row(-1, named=True)


def test_residuals_beside_the_observed_critical_path_that_bind_the_changed_step_leave_it_unjudged() -> None:
    timeline = launching(late_us=60.0)

    unchanged, free = last(timeline, UNCHANGED), last(timeline, LAUNCHES_FREE)

    assert unchanged["not_judged"] is None
    assert unchanged["residual_ns"] < 100_000
    assert free["not_judged"] == DELAYS_THEN.code
    assert free["expected_ns"] is None


def test_a_clock_that_errs_by_microseconds_breaks_no_launch() -> None:
    sound, early = (last(launching(late_us=us), LAUNCHES_FREE) for us in (0.0, -8.0))

    assert early["not_judged"] is None
    assert early["expected_ns"] == pytest.approx(sound["expected_ns"], rel=0.05)


def test_work_before_its_launch_has_no_known_cause_however_soon_it_follows_other_work() -> None:
    hosts = [host("cudaLaunchKernel", 0, 5, "runtime", correlation=1), host("cudaLaunchKernel", 500, 505, "runtime", correlation=2)]
    devices = [device("a", 6, 100, correlation=1), device("b", 108, 900, correlation=2)]
    timeline = made_trace(hosts=hosts, devices=devices, steps=[step(0, 0, 600)])
    steps = steps_of(timeline)
    material = find_material(timeline, steps)
    assert isinstance(material, Material)

    graph = build_graph(material, LaunchOrder(material), 0, 600_000)

    assert len(graph.early) == 1
    assert unexplained_residual(graph)[graph.early[0]] == pytest.approx(6_500)
    assert residual_ns(graph) == pytest.approx(6_500)
    assert np.count_nonzero(unexplained_residual(graph)) == 1
