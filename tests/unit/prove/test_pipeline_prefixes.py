"""What each stage of a pipeline costs, by readings of the pipeline cut after each of them."""

from __future__ import annotations

from typing import Any

import pytest

from slowstep.prove.bench.pipeline_prefixes import UNCOUNTED, dearest, stage_costs

MS = 1_000_000


def a_reading(part: str, element_ms: float, *, samples: int = 1, cpu_ms: float = 0.0, **changes: Any) -> dict[str, Any]:
    """Forty elements of so many samples that take equally long, read in a turn with others."""
    rows = [[int(element_ms * MS), 1, samples, -1] for _ in range(40)]
    a_slice = {"batches": 40, "wall_ns": 1, "process_ns": int(40 * cpu_ms * MS), "period_ns": int(40 * element_ms * MS)}
    usual = {"part": part, "turn": 1, "workers": 0, "rows": rows, "edges": [], "epoch_batches": None, "skipped": 0, "seen": 40 * samples}
    usual |= {"ready": 0, "ready_ns": 0, "starts_ns": [5 * MS], "slices": [a_slice], "reason": None, "inputs_per_element": None}
    return {**usual, **changes}


def a_prefix(stage: int, element_ms: float, **changes: Any) -> dict[str, Any]:
    return a_reading("prefix", element_ms, stage=stage, **changes)


def stages(*kinds: str) -> list[dict[str, Any]]:
    return [{"kind": kind, "makes_batches": kind.endswith("Batch")} for kind in kinds]


def added(costs: Any) -> list[float | None]:
    return [None if cost.added_ms is None else pytest.approx(cost.added_ms.value) for cost in costs]


def test_a_stage_costs_what_the_stages_up_to_it_take_longer():
    notes = [a_prefix(0, 1, cpu_ms=0.5), a_prefix(1, 4, cpu_ms=6), a_reading("drain", 40, samples=8, cpu_ms=64)]

    costs = stage_costs(stages("TFRecord", "ParallelMap", "Batch"), notes)

    assert [cost.samples_per_s.value for cost in costs] == pytest.approx([1000, 250, 200])
    assert added(costs) == [1, 3, 1]
    assert [cost.cpu_ms for cost in costs] == pytest.approx([0.5, 6, 8])
    assert [cost.added_cpu_ms for cost in costs] == pytest.approx([0.5, 5.5, 2])
    assert dearest(costs) == 1


def test_a_stage_that_lets_others_hide_adds_less_than_nothing():
    notes = [a_prefix(0, 4), a_prefix(1, 4), a_reading("drain", 3)]

    costs = stage_costs(stages("Generator", "Map", "ParallelMap"), notes)

    assert added(costs) == [4, 0, -1]
    assert dearest(costs) == 0


@pytest.mark.parametrize(("falls_ms", "expected"), [(0.5, 1), (5, None)])
def test_no_stage_is_dear_by_less_than_what_others_seem_to_take_away(falls_ms: float, expected: int | None):
    notes = [a_prefix(0, 2), a_prefix(1, 6), a_reading("drain", 6 - falls_ms)]

    assert dearest(stage_costs(stages("TFRecord", "Map", "Map"), notes)) == expected


def test_elements_that_are_discarded_count_for_the_samples_that_are_kept():
    # Of four that are read one is kept: for a sample four are read.
    notes = [a_prefix(0, 1), a_prefix(1, 5, inputs_per_element=4.0), a_reading("drain", 40, samples=8)]

    costs = stage_costs(stages("TFRecord", "Filter", "Batch"), notes)

    assert added(costs) == [4, 1, 0]


def test_what_makes_a_sample_of_unknown_elements_is_not_compared():
    notes = [a_prefix(0, 1), a_prefix(1, 5), a_reading("drain", 40, samples=8)]

    costs = stage_costs(stages("TFRecord", "Filter", "Batch"), notes)

    assert [cost.reason for cost in costs] == [UNCOUNTED, None, None]
    assert added(costs) == [None, None, 0]


def test_batches_of_texts_tell_no_samples():
    notes = [a_prefix(0, 1), a_reading("drain", 40, samples=-1)]

    costs = stage_costs(stages("TFRecord", "Batch"), notes)

    assert [cost.reason for cost in costs] == [UNCOUNTED, UNCOUNTED]
    assert dearest(costs) is None


def test_a_stage_that_was_not_read_has_a_reason_and_so_has_no_other_a_cost_by_it():
    left_out = {"rows": [], "slices": [], "starts_ns": [], "reason": "left out: the time is over"}
    notes = [a_prefix(0, 1), a_prefix(1, 5, **left_out), a_reading("drain", 40, samples=8)]

    costs = stage_costs(stages("TFRecord", "Map", "Batch"), notes)

    assert [cost.reason for cost in costs] == [None, "left out: the time is over", None]
    assert added(costs) == [1, None, None]


def test_the_first_reading_of_the_whole_is_of_another_time():
    notes = [a_reading("drain", 80, turn=0), a_prefix(0, 1), a_reading("drain", 2)]

    assert added(stage_costs(stages("TFRecord", "Map"), notes)) == [1, 1]


def test_a_pipeline_that_was_not_cut_has_no_costs():
    assert stage_costs(stages("TFRecord", "Map"), [a_reading("drain", 2, turn=0)]) == ()


def test_an_epoch_that_ends_is_in_no_cost():
    edge = {"start_ns": 900 * MS, "fill_ns": 0, "end_ns": 0, "filled": 1, "samples": 1, "seen": 1, "size_bytes": 4, "batches": 5}
    notes = [a_prefix(0, 1, edges=[edge] * 4), a_reading("drain", 2, edges=[edge] * 4)]

    assert added(stage_costs(stages("TFRecord", "Map"), notes)) == [1, 1]


def test_a_list_of_one_file_is_read_in_epochs_that_are_nothing_but_edges():
    edge = {"start_ns": 8 * MS, "fill_ns": 0, "end_ns": 0, "filled": 1, "samples": 1, "seen": 1, "size_bytes": 4, "batches": 1}
    notes = [a_prefix(0, 1, rows=[], edges=[edge] * 4), a_prefix(1, 1, inputs_per_element=0.01), a_reading("drain", 2)]

    assert added(stage_costs(stages("TensorSlice", "Interleave", "Map"), notes)) == [0.08, 0.92, 1]
