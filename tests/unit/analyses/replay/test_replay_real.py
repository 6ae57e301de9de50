"""Real traces: the unchanged replay is within 2 % of each step, or the step is not judged and the reason said."""

from __future__ import annotations

import itertools
from pathlib import Path

import polars as pl
import pytest

from few import few
from slowstep.analyses.replay import clock, scenarios
from slowstep.analyses.replay import lengths as replay_lengths
from slowstep.analyses.replay.recording_cost import AS_RECORDED
from slowstep.analyses.replay.replay import MISSES_AT_MOST, RESIDUAL_AT_MOST, find_replay

kineto = pytest.importorskip("slowstep.sources.kineto")
find_trace_steps = pytest.importorskip("slowstep.analyses.steps.trace_steps").find_trace_steps

# Its one step was cut out of the middle, and waits for what the one before it had launched.
CUT_OUT = "v100_resnet50_workers"
TRACES = sorted((Path(__file__).parents[3] / "data" / "kineto").glob("*/*.json.gz"))


@pytest.mark.parametrize("path", few(TRACES, every=5), ids=lambda path: f"{path.parent.name}-{path.name}")
def test_unchanged_steps_take_as_long_as_they_did(path: Path) -> None:
    timeline = kineto.SOURCE.read(path)
    steps, _ = find_trace_steps(timeline)
    every = find_replay(timeline, steps, {})
    rows = every.filter(pl.col("recording") == AS_RECORDED)
    unchanged = rows.filter(pl.col("scenario") == scenarios.UNCHANGED)
    assert unchanged.height == min(steps.height, 5)
    judged = unchanged.filter(pl.col("not_judged").is_null())
    missed = (judged["unchanged_ns"] / judged["observed_ns"] - 1).abs()
    assert (missed <= MISSES_AT_MOST).all()
    assert (judged["residual_ns"] <= RESIDUAL_AT_MOST * judged["observed_ns"]).all()
    # Each of these traces can be replayed; in the one that was cut off the last step may not.
    assert 2 * judged.height >= unchanged.height or path.parent.name == CUT_OUT
    for scenario, step in itertools.product(scenarios.SCENARIOS, unchanged["step"]):
        row = rows.filter((pl.col("scenario") == scenario) & (pl.col("step") == step)).row(0, named=True)
        known = row["not_judged"] is None
        assert known == (row["expected_ns"] is not None)
        assert not known or 0 < row["best_ns"] <= row["expected_ns"] <= row["worst_ns"]
    without = every.filter((pl.col("recording") != AS_RECORDED) & (pl.col("scenario") == scenarios.UNCHANGED))
    assert (without["unchanged_ns"] <= 1.001 * without["observed_ns"]).all()
    assert (without["taken_ns"] > 0).all()


def test_a_device_that_idles_for_its_host_gains_by_free_launches() -> None:
    """Its device idles for three quarters of the time, nearly all of it before launches."""
    timeline = kineto.SOURCE.read(next(path for path in TRACES if path.parent.name == "a100_collectives"))
    steps, _ = find_trace_steps(timeline)
    rows = find_replay(timeline, steps, {}).filter(pl.col("not_judged").is_null() & (pl.col("scenario") == scenarios.LAUNCHES_FREE))
    assert (rows["unchanged_ns"] / rows["expected_ns"]).min() > 1.5


@pytest.mark.slow
@pytest.mark.parametrize(("values", "nodes"), [(1, 1), (30_000, 1000)])
def test_a_step_too_large_to_be_replayed_at_once_has_the_same_answers(values: int, nodes: int, monkeypatch: pytest.MonkeyPatch) -> None:
    timeline = kineto.SOURCE.read(next(path for path in TRACES if path.parent.name == "a100_collectives"))
    steps = find_trace_steps(timeline)[0].head(1)
    at_once = find_replay(timeline, steps, {})
    passes: list[int] = []
    lengths = replay_lengths.step_lengths
    monkeypatch.setattr(replay_lengths, "step_lengths", lambda graph, some: passes.append(len(some)) or lengths(graph, some))
    monkeypatch.setattr(replay_lengths, "VALUES_AT_ONCE", values)
    monkeypatch.setattr(clock, "NODES_AT_ONCE", nodes)

    rows = find_replay(timeline, steps, {})

    assert rows.equals(at_once)
    assert len(passes) > 2
    assert at_once["not_judged"].null_count() > 3
