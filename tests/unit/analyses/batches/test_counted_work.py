"""What a framework counts in windows comes to steps: exactly in all of them together, in proportion to the time in each."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import numpy as np
import polars as pl
import pytest

from slowstep.analyses.batches.counted_work import find_counted
from slowstep.timeline.schema import TABLE

MS = 1_000_000


def counted(
    windows: list[tuple[int, int, int]], edges_ms: list[int], *, asynchronous: bool = False, iterators: int = 1, waits_inside: bool = False
) -> Any:
    """Windows from, to and waiting in ms; of each the rest was computed, and a batch a millisecond of waiting came."""
    row = {"process": 0, "thread": 7, "iterator": 1}
    of = {"wait": lambda start, end, waited: waited, "update": lambda start, end, waited: end - start - waited}
    rows = [
        {**row, "start_ns": w[0] * MS, "end_ns": w[1] * MS, "kind": kind, "count": w[2], "total_ns": ns(*w) * MS}
        for w in windows
        for kind, ns in of.items()
    ]
    made = [{"process": 0, "iterator": 1, "num_workers": 2, "dataset": "Pictures", "loader": 1, "workers": []}] * iterators
    schema = {name: kind for name, kind in TABLE["iterators"].schema.items() if made and name in made[0]}
    tables = {
        "aggregates": pl.DataFrame(rows, schema=TABLE["aggregates"].schema),
        "iterators": pl.DataFrame(made, schema=schema) if made else TABLE["iterators"].empty(),
    }
    facts = SimpleNamespace(notes={"facts": {"waits_inside": waits_inside}})
    trainer: Any = SimpleNamespace(process=0, thread=7, is_asynchronous=asynchronous, facts=facts)
    edges = np.array(edges_ms) * MS
    steps: Any = SimpleNamespace(edges_ns=edges, stretches=len(edges) - 1, excluded=np.zeros(len(edges) - 1, dtype=bool))
    timeline: Any = SimpleNamespace(table=tables.__getitem__)
    return find_counted(timeline, trainer, steps)


def test_without_counters_nothing_was_counted():
    assert counted([], [0, 10, 20]) is None


def test_a_window_is_divided_among_its_steps_by_their_length():
    found = counted([(0, 40, 20)], [0, 10, 40])

    assert (found.waited_ns / MS).tolist() == [5.0, 15.0]
    assert (found.busy_ns / MS).tolist() == [5.0, 15.0]
    assert found.batches == 10.0


def test_a_step_over_two_windows_has_of_both():
    found = counted([(0, 10, 10), (10, 30, 0)], [0, 20, 30])

    assert (found.waited_ns / MS).tolist() == [10.0, 0.0]
    assert (found.busy_ns / MS).tolist() == [10.0, 10.0]


def test_what_no_window_holds_was_as_in_all_of_them():
    found = counted([(0, 10, 2), (10, 20, 4)], [0, 20, 40])

    assert (found.waited_ns / MS).tolist() == pytest.approx([6.0, 6.0])


def test_a_gap_between_two_windows_is_none_of_the_first():
    found = counted([(0, 10, 10), (20, 30, 0)], [0, 10, 20, 30])

    assert (found.waited_ns / MS).tolist() == pytest.approx([10.0, 5.0, 0.0])


def test_who_makes_the_batches_and_whether_calls_return_at_once_is_said():
    found, other = counted([(0, 10, 1)], [0, 10], asynchronous=True), counted([(0, 10, 1)], [0, 10], iterators=0)

    assert (found.num_workers, found.data_set, found.is_asynchronous) == (2, "data set Pictures", True)
    assert (other.num_workers, other.data_set, other.is_asynchronous) == (None, None, False)


def test_of_an_asynchronous_framework_that_counts_nothing_nothing_is_known():
    found = counted([], [0, 10, 20], asynchronous=True)

    assert (found.busy_ns, found.num_workers, found.waited_ns.tolist()) == (None, None, [0, 0])


@pytest.mark.parametrize("windows", [[], [(0, 10, 5)]], ids=["none count", "some count"])
def test_of_calls_that_hide_their_waits_it_is_said_even_where_others_count(windows):
    assert counted(windows, [0, 10, 20], waits_inside=True).hides_waits
    # What they are called for goes on meanwhile: its own time is in no call.
    assert not counted(windows, [0, 10, 20], waits_inside=True, asynchronous=True).hides_waits


def test_calls_that_count_hide_nothing():
    assert not counted([(0, 10, 5)], [0, 10, 20]).hides_waits
