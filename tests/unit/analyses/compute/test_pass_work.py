"""Of backward passes whose operations are known, what does not grow with the samples is fixed."""

from __future__ import annotations

import operator
from pathlib import Path
from typing import Any

import pytest

from made_recordings import LIBRARY, MS, SCRIPT, Training, make_recording
from slowstep.analyses.compute.fixed_cost import FORWARD_LOW, FixedCost, Passes, find_fixed_cost
from slowstep.analyses.compute.pass_work import MOST_NS, PassWork
from slowstep.analyses.measure_recording import measure_recording
from slowstep.analyses.measurements import Measurements
from slowstep.parts import PartKind
from slowstep.sources.recording import SOURCE

CHECKPOINT = (f"{LIBRARY}/utils/checkpoint.py", "unpack_hook", 1100, 1110)


def _work(**of: Any) -> PassWork:
    return PassWork(**{"usual_ns": 0.0, "most_ns": 0.0, "whole": 1, "parts": (), "weights": (), **of})


QUICK = _work()


def _measured(folder: Path, **changes: Any) -> Measurements:
    # Batches of 8; the optimizer takes 1 ms, and the engine calls no Python.
    usual = {"workers": 2, "fixed_ms": 10, "batch_size": 8, "engine_calls": (), "nodes": 600, "threads": 1}
    return measure_recording(SOURCE.read(make_recording(folder, Training(**{**usual, **changes}))))


def _cost(folder: Path, **changes: Any) -> FixedCost:
    return _measured(folder, **changes).compute.fixed_cost


def test_what_no_element_of_backward_explains_is_fixed_and_so_is_its_forward(tmp_path):
    m = _measured(tmp_path, work={"elements": 1_000_000, "dear": 100_000, "scattered": 1000, "products": 2_000_000})

    cost, backward = m.compute.fixed_cost, float(m.ledger.of("compute", PartKind.BACKWARD).mean())
    left = backward - sum(map(operator.mul, (900_000, 100_000, 1000, 2_000_000), MOST_NS))
    assert cost.low_ns == pytest.approx(1 * MS + left * (1 + FORWARD_LOW), rel=0.01)
    assert cost.value_ns is None
    assert cost.low_ns <= (cost.likely_ns or 0.0) <= (cost.high_ns or 0.0)


def test_where_so_few_operations_cannot_cost_what_is_left_it_is_not_known_which_bound_is_wrong(tmp_path):
    plain, bounded = (_cost(tmp_path / name, nodes=20, work=work) for name, work in (("plain", None), ("bounded", {})))

    assert plain.high_ns is not None
    assert bounded.high_ns is not None
    # By operations it is little, by what they compute it is nearly all: both are kept.
    assert bounded.low_ns == plain.low_ns
    assert bounded.high_ns > 2 * plain.high_ns


def test_what_threads_wait_for_a_core_is_not_taken_for_fixed(tmp_path):
    alone = _measured(tmp_path, work={})
    told = [
        find_fixed_cost(alone.trainer, alone.steps, alone.ledger, Passes(work=QUICK, queueing=queueing), busy=False).low_ns
        for queueing in (0.0, 0.5, 1.0, None)
    ]

    assert told[0] > told[1] > told[2] == pytest.approx(1 * MS)
    assert told[3] == told[2]


def test_an_update_of_sparse_gradients_is_not_known_to_be_fixed(tmp_path):
    m = _measured(tmp_path)

    assert find_fixed_cost(m.trainer, m.steps, m.ledger, Passes(are_sparse=True), busy=False).low_ns == 0.0


def test_a_pass_that_computes_as_much_as_its_time_has_no_fixed_part(tmp_path):
    assert _cost(tmp_path, work={"elements": 100_000_000}).low_ns == pytest.approx(1 * MS)


@pytest.mark.parametrize(
    "changes",
    [
        {"work": None},
        {"work": {"unknown": ["Mine"]}},
        {"work": {"parts": [[8]]}},
        {"work": {"weights": [[8, 1]]}},
        {"work": {}, "batch_size": 1},
        {"work": {}, "engine_calls": (CHECKPOINT, (SCRIPT, "Block.forward", 40, 41))},
        {"work": {}, "engine_calls": ((SCRIPT, "History.log_stats", 60, 62),)},
        {"work": {}, "engine_calls": None},
        {"work": {}, "noted_looks": (0, 1)},
        {"work": {}, "noted_looks": (1, 5), "more_nodes": 10},
        {"work": {}, "noted_looks": (1, 5), "more_parameters": (500, 1)},
        {"work": {}, "noted_looks": (1, 5), "stall": (40, 0.0), "stall_values": 2000},
    ],
    ids=[
        "not looked at", "unknown operations", "samples one by one", "weights for each sample", "one sample",
        "a forward that is computed again", "a hook", "not known what the engine calls", "looked at before the training",
        "more operations later", "more weights that learn later", "longer samples later",
    ],
)  # fmt: skip
def test_what_may_grow_with_the_samples_and_is_in_no_graph_bounds_nothing(tmp_path, changes):
    assert _cost(tmp_path, **changes).low_ns == pytest.approx(1 * MS)


def test_of_graphs_that_grow_the_largest_that_was_noted_tells(tmp_path):
    assert _cost(tmp_path, work={}, more_nodes=10, more_parameters=(500, 1)).low_ns > 2 * MS


def test_the_same_graph_tells_as_long_as_it_stays_the_same(tmp_path):
    assert _cost(tmp_path, work={}, noted_looks=(1, 2)).low_ns > 2 * MS


@pytest.mark.parametrize(
    ("of", "samples"),
    [
        ({}, 1),
        ({"whole": 16}, 16),
        ({"parts": ((16,),)}, 16),
        ({"parts": ((5, 16),)}, 16),
        ({"parts": ((32,),)}, 16),
        ({"parts": ((0,),)}, 16),
        ({"weights": ((16, 16),)}, 16),
        ({"weights": ((4, 4),)}, 16),
        ({"weights": ((2, 0),)}, 16),
    ],
)
def test_turns_that_may_be_samples(of, samples):
    assert _work(**of).may_loop_over(samples)


@pytest.mark.parametrize(
    "of",
    [{}, {"whole": 3}, {"parts": ((3,),)}, {"parts": ((16, 64),)}, {"weights": ((12, 16),)}],
    ids=["none", "queries, keys and values", "of one value", "gates of the whole batch", "places of the whole batch"],
)
def test_turns_that_are_not_samples(of):
    assert not _work(**of).may_loop_over(16)
