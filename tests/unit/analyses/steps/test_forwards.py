from __future__ import annotations

import numpy as np
import polars as pl
import pytest

from slowstep.analyses.steps.forwards import find_forwards
from slowstep.timeline.schema import TABLE

POLICY, TARGET, CRITIC = 1, 2, 3


def _spans(*forwards: tuple[int, int, bool | None]) -> pl.DataFrame:
    """Forwards of 1 ns, as (begin, module, gradients)."""
    rows = [
        {"process": 0, "thread": 1, "start_ns": begin, "end_ns": begin + 1, "kind": "forward", "module": module, "gradients": gradients}
        for begin, module, gradients in forwards
    ]
    return pl.DataFrame(rows, schema=TABLE["spans"].schema, strict=False)


def _found(*forwards: tuple[int, int, bool | None], updates: tuple[int, ...] = (100,)) -> tuple[list[int], list[tuple[int, int]]]:
    found = find_forwards(_spans(*forwards), np.array(updates))
    return found.bodies_ns.tolist(), list(zip(found.apart_start_ns.tolist(), found.apart_end_ns.tolist(), strict=True))


def test_a_teachers_forward_belongs_to_the_step_that_it_teaches():
    assert _found((10, TARGET, False), (20, POLICY, True), (30, CRITIC, True)) == ([10, 30], [])


def test_the_models_own_forwards_without_gradients_are_a_roll_out():
    forwards = [(10 * k, POLICY, False) for k in range(1, 6)]

    assert _found(*forwards, (60, POLICY, True)) == ([60], [(10, 51)])


def test_acting_once_and_asking_a_target_network_is_told_apart():
    assert _found((10, POLICY, False), (20, TARGET, False), (30, POLICY, True)) == ([20], [])


def test_a_validation_after_an_update_is_no_part_of_the_next_body():
    found = _found((10, POLICY, True), (110, POLICY, False), (120, POLICY, False), (130, POLICY, True), updates=(100, 200))

    assert found == ([10, 130], [(110, 121)])


def test_a_forward_of_the_step_before_is_not_reached_back_to():
    assert _found((90, TARGET, False), (110, POLICY, True), updates=(100, 200)) == ([110], [])


@pytest.mark.parametrize("gradients", [True, None, False])
def test_where_all_are_alike_each_may_begin_a_body(gradients):
    assert _found((10, POLICY, gradients), (20, POLICY, gradients)) == ([10, 20], [])


@pytest.mark.parametrize(("modes", "expected"), [((True, True), [True]), ((True, False), [False]), ((None, None), [False])])
def test_a_stretch_is_a_validation_where_all_of_it_is_in_evaluation_mode(modes, expected):
    spans = _spans((10, POLICY, False), (20, POLICY, False), (30, POLICY, True))
    spans = spans.with_columns(pl.Series("evaluating", [*modes, None], dtype=pl.Boolean))

    assert find_forwards(spans, np.array([100])).apart_evaluating.tolist() == expected
