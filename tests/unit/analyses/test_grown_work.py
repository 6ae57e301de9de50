"""What is measured of trainings whose steps take ever longer, or now and then, from what was recorded of them."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from made_recordings import Training, make_recording
from slowstep.analyses.measure_recording import measure_recording
from slowstep.analyses.measurements import Measurements
from slowstep.parts import NOT_ATTRIBUTED
from slowstep.sources.recording import SOURCE

GROWS: dict[str, Any] = {"work_growth_ms": 20, "getitem_ms": 2, "forward_share": 0.05, "steps": 400}
WRAPPER = ("/usr/lib/python3.11/site-packages/torch/optim/optimizer.py", "Optimizer.profile_hook_step.<locals>.wrapper")


def measured(folder: Path, **training: Any) -> Measurements:
    return measure_recording(SOURCE.read(make_recording(folder, Training(**training))))


@pytest.mark.parametrize("stairs", [4, 40])
def test_growth_that_comes_with_parameters_that_join_is_none_beside_them(tmp_path, stairs):
    graph = measured(tmp_path, **GROWS, work_in_stairs=stairs, more_parameters=(2000, stairs), more_nodes=60).over_time.graph

    assert graph is not None
    assert graph.parameters is not None
    assert graph.parameters[1] > graph.parameters[0]
    assert graph.nodes[1] > graph.nodes[0]
    assert (graph.same_parameters_low_ns or 0.0) < 2e6


def test_growth_while_the_same_parameters_learn_is_seen_beside_those_that_join(tmp_path):
    graph = measured(tmp_path, **GROWS, more_parameters=(2000, 4)).over_time.graph

    assert graph is not None
    assert graph.same_parameters_low_ns is not None
    assert graph.same_parameters_low_ns > 2e6


@pytest.mark.parametrize(("more", "kept"), [({"more_kept": 2000}, True), ({}, False)])
def test_nodes_of_earlier_steps_are_seen_in_the_graph(tmp_path, more, kept):
    graph = measured(tmp_path, **GROWS, **more).over_time.graph

    assert graph is not None
    assert graph.kept is not None
    assert (graph.kept[1] > 1000) is kept


def test_without_looks_at_graphs_nothing_is_known_of_them(tmp_path):
    m = measured(tmp_path, **GROWS, looks_at_graphs=False)

    assert m.over_time.growth is not None
    assert m.over_time.graph is None


@pytest.mark.parametrize("loop", [{}, {"loader": False, "input_ms": 2}], ids=["loader", "no loader"])
@pytest.mark.parametrize(("more", "growth"), [({"input_growth": 3.0}, 4.0), ({"tells_bytes": False}, None)], ids=["known", "unknown"])
def test_how_inputs_grow_is_known_of_both_kinds_of_loops(tmp_path, loop, more, growth):
    sizes = measured(tmp_path, **GROWS, **loop, **more).input.facts.sizes

    assert (None if sizes is None else sizes.growth) == (None if growth is None else pytest.approx(growth, rel=0.1))


def test_growth_right_after_the_update_is_in_no_function_of_the_librarys(tmp_path):
    """The GIL changes hands there: stacks stand in the last of the update, which took no time."""
    m = measured(tmp_path, after_ms=1, after_growth_ms=20, after="", after_library=WRAPPER, getitem_ms=2, steps=300)

    assert m.over_time.growth is not None
    assert m.over_time.growth.part == NOT_ATTRIBUTED


@pytest.mark.parametrize(
    ("values", "known", "maybe_larger"),
    [(3000, True, False), (1000, False, False), (None, False, True)],
    ids=["more", "the same", "unseen"],
)
def test_of_steps_that_take_longer_as_a_whole_it_is_known_whether_they_compute_more(tmp_path, values, known, maybe_larger):
    m = measured(tmp_path, stall=(10, 60), stall_of_both=True, stall_values=values, steps=300)

    (event,) = [event for event in m.over_time.events if event.every_steps == pytest.approx(10)]
    assert (event.known, event.maybe_larger) == (known, maybe_larger)


@pytest.mark.parametrize("workers", [{"workers": 0, "getitem_ms": 1}, {"workers": 1, "persistent": True}])
def test_slow_samples_are_counted_with_their_indices(tmp_path, workers):
    found = measured(tmp_path, stragglers=(12, 150), **workers).over_time.stragglers

    assert found is not None
    assert {index for index, _ in found.named} == {17, 99}
    assert found.each_ns == pytest.approx(150e6)


def test_the_first_of_long_steps_is_no_part_of_the_start_but_for_its_excess(tmp_path):
    startup = measured(tmp_path, startup_ms=2_000, fixed_ms=40_000, steps=4, epoch_steps=None, stack_period_ms=5_000.0).over_time.startup

    assert startup is not None
    assert startup.ns > 40e9
    assert sum(part.ns for part in startup.beyond_a_step) < 10e9


def test_checkpoints_that_grow_are_seen_by_their_sizes(tmp_path):
    grows, stays = (
        measured(tmp_path / name, saves=(5, 10), save_growth_bytes=each).over_time.growing_saves
        for name, each in (("grows", 200_000), ("stays", 0))
    )

    assert grows is not None
    assert grows.last_bytes > 2 * grows.first_bytes
    assert stays is None
