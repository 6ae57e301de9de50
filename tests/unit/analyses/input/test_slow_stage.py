"""Which stage of a pipeline holds up the training: at which times in its threads, and which buffers, the answer changes."""

from __future__ import annotations

import pytest

from made_pipelines import node, pipeline, slow_map
from slowstep.analyses.input.pipeline_stage import PipelineStage, PipelineThread
from slowstep.analyses.input.slow_stage import find_slowest

MS = 1_000_000
REQUEST, AHEAD = PipelineThread(does="asks", of=0), PipelineThread(does="feeds", of=1)
CALLS = PipelineThread(does="calls", of=2, servers=4)


def stage(busy_ms: float, thread: PipelineThread, *, shared_ms: float | None = None) -> PipelineStage:
    """One that takes so long for a batch; where not all of it is known to be its own, as long as `shared_ms` at most."""
    known = dict.fromkeys(("busy_ns", "low_ns"), busy_ms * MS) | {
        "high_ns": (shared_ms or busy_ms) * MS,
        "is_shared": shared_ms is not None,
    }
    of_none = {"parallelism": None, "is_tuned": False, "buffer_size": None, "full": None, "written": ()}
    return PipelineStage(name="Map", depth=1, into=0, elements=1.0, bytes=0.0, thread=thread, **known, **of_none)


def slowest_of(*stages: PipelineStage) -> int | None:
    """Of those that one reads which does nothing, where batches come 20 ms apart."""
    root = PipelineStage(**{name: getattr(stage(0.0, REQUEST), name) for name in PipelineStage.__slots__} | {"into": None})
    number, _ = find_slowest((root, *stages), 20.0 * MS)
    return number


@pytest.mark.parametrize(("ms", "is_named"), [(11.6, False), (12.4, True), (24.6, True), (25.4, False)])
def test_a_thread_is_at_work_for_most_of_the_time_and_for_no_more_than_there_is(ms, is_named):
    found = pipeline([node(1, "Root", 2), node(2, "Prefetch", 3, buffer_size=2), node(3, "Map", ms=ms)])

    assert (found.slowest is not None) == is_named


@pytest.mark.parametrize(("ready", "is_named"), [(9, True), (10, False), (50, False)])
def test_a_buffer_that_is_half_full_keeps_nobody_waiting(ready, is_named):
    found = pipeline([node(1, "Root", 2), node(2, "Prefetch", 3, buffer_size=20, buffered=ready), node(3, "Map", ms=18.0)])

    assert found.stages[1].full == min(ready / 20, 1.0)
    assert (found.slowest is not None) == is_named


@pytest.mark.parametrize(("looks", "full"), [(3, None), (4, 1.0)], ids=["after two stretches", "after three"])
def test_how_full_a_buffer_is_takes_three_looks(looks, full):
    found = slow_map(18.0, ready=2, looks=looks)

    assert (found.stages[1].full, found.slowest is None) == (full, full is not None)


def test_who_only_hands_on_is_never_the_one():
    assert [each.works for each in slow_map().stages] == [False, False, True, True, True]
    assert pipeline([node(1, "Root", 2, ms=9.0), node(2, "Map", ms=4.0)]).slowest == 1


@pytest.mark.parametrize(("shared_ms", "slowest"), [(17.0, 1), (19.0, None)])
def test_none_is_named_where_another_one_of_its_thread_may_take_longer(shared_ms, slowest):
    assert slowest_of(stage(18.0, AHEAD), stage(1.0, AHEAD, shared_ms=shared_ms)) == slowest


@pytest.mark.parametrize(("shared_ms", "slowest"), [(71.0, 1), (73.0, None)])
def test_none_is_named_where_another_thread_may_allow_less_by_all_of_its_calls(shared_ms, slowest):
    assert slowest_of(stage(18.0, AHEAD), stage(1.0, CALLS, shared_ms=shared_ms)) == slowest
