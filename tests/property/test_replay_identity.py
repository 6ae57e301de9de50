"""Replaying an unchanged step gives back what was observed: of any timeline, each node's time exactly."""

from __future__ import annotations

import itertools

import numpy as np
import polars as pl
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from how_many import how_many
from made_traces import device, host, made_trace, step
from simulated_device import Simulated, steps_of
from slowstep.analyses.replay.clock import node_times, unchanged
from slowstep.analyses.replay.graph import build_graph
from slowstep.analyses.replay.graph_waits import LaunchOrder
from slowstep.analyses.replay.replay import find_replay, host_bounds
from slowstep.analyses.replay.replayed_work import Material, find_material
from slowstep.timeline.timeline import Timeline

CALLS = ["cudaLaunchKernel", "cudaMemcpyAsync", "cudaStreamSynchronize", "cudaDeviceSynchronize", "cudaEventSynchronize", "cudaFree"]
CALLS += ["cudaStreamWaitEvent", "cudaMalloc"]
times = st.integers(0, 2000)

any_call = st.tuples(st.sampled_from(CALLS), times, st.integers(0, 300), st.integers(0, 2), st.none() | st.integers(0, 30))
any_work = st.tuples(
    st.sampled_from(["kernel", "h2d", "d2h", "d2d"]), times, st.integers(0, 300), st.integers(0, 3), st.none() | st.integers(0, 30)
)


@settings(max_examples=how_many(40))
@given(
    calls=st.lists(any_call, max_size=40), work=st.lists(any_work, max_size=40), cuts=st.lists(times, min_size=2, max_size=5, unique=True)
)
def test_any_timeline_replays_as_it_was(calls: list, work: list, cuts: list) -> None:
    hosts = [host(name, at, at + us, "runtime", thread=thread, correlation=c) for name, at, us, thread, c in calls]
    devices = [device("k", at, at + us, kind, stream=stream, correlation=c) for kind, at, us, stream, c in work]
    cuts = sorted(cuts)
    timeline = made_trace(hosts=hosts, devices=devices, steps=[step(n, a, b) for n, (a, b) in enumerate(itertools.pairwise(cuts))])
    assert_identity(timeline)


actions = st.one_of(
    st.tuples(st.just("work"), st.integers(1, 200)),
    st.tuples(st.just("launch"), st.integers(1, 300), st.sampled_from([7, 7, 7, 20])),
    st.tuples(st.just("wait"), st.sampled_from([None, 7, 20])),
    st.tuples(st.just("after"), st.sampled_from([(7, 20), (20, 7)])),
    st.tuples(st.just("copy"), st.integers(1, 100)),
)


@pytest.mark.slow
@settings(max_examples=how_many(40))
@given(program=st.lists(actions, min_size=1, max_size=40), steps=st.integers(1, 4))
def test_a_repeating_program_replays_as_it_was_and_keeps_its_length(program: list, steps: int) -> None:
    simulated = Simulated()
    for _ in range(steps):
        for action in program:
            run(simulated, action)
        simulated.wait()
        simulated.step()
    timeline = simulated.trace()
    assert_identity(timeline)
    replayed = find_replay(timeline, steps_of(timeline), {}).filter(pl.col("scenario") == "unchanged")
    # Every step ends with an empty device, so that none depends on those before it.
    assert replayed["unchanged_ns"].to_list() == pytest.approx(replayed["observed_ns"].to_list(), abs=2)


def run(simulated: Simulated, action: tuple) -> None:
    kind = action[0]
    if kind == "work":
        simulated.work(action[1])
    elif kind == "launch":
        simulated.launch(action[1], stream=action[2])
    elif kind == "wait":
        simulated.wait(action[1])
    elif kind == "after":
        simulated.after(*action[1])
    else:
        simulated.copy_and_wait(action[1], "d2h")


def assert_identity(timeline: Timeline) -> None:
    steps = steps_of(timeline)
    material = find_material(timeline, steps)
    assert isinstance(material, Material)
    launched = LaunchOrder(material)
    for number in range(steps.height):
        graph = build_graph(material, launched, *host_bounds(steps, number))
        replayed = node_times(graph, [unchanged(graph)])[:, 0]
        np.testing.assert_allclose(replayed, graph.observed, atol=0.01)
        assert (graph.residual >= -1e-6).all()
        assert (graph.source < graph.target).all()
