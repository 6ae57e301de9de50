"""Batches that are only counted: what steps hold on average, and the usual size is told where most windows show one."""

from __future__ import annotations

from dataclasses import replace
from types import SimpleNamespace
from typing import Any

import numpy as np
import polars as pl
import pytest

from slowstep.analyses.steps.batches import Batches
from slowstep.analyses.steps.counted_batches import with_counted
from slowstep.timeline.schema import TABLE

MS = 1_000_000


def found(windows: list[tuple[int, int | None]], *, waits: int = 0, thread: int = 7, last_ms: int = 20, **seen: Any) -> Batches:
    """Of windows of 20 ms with so many batches and samples; there are four steps. `seen` is what waits tell of single
    batches; the last window may be of another length."""
    rows = [
        {"process": 0, "thread": thread, "start_ns": 20 * k * MS, "end_ns": 20 * (k + 1) * MS}
        | {"kind": "wait", "count": count, "total_ns": 5, "samples": samples, "iterator": 1}
        for k, (count, samples) in enumerate(windows)
    ]
    if rows:
        rows[-1]["end_ns"] = rows[-1]["start_ns"] + last_ms * MS
    nothing = Batches(
        samples=np.full(4, np.nan),
        sizes=None,
        stretch=np.zeros(0, dtype=np.int64),
        size_from="",
        is_size_assumed=False,
        per_step=None,
        requests_per_step=None,
        changes=(),
    )
    trainer: Any = SimpleNamespace(process=0, thread=7, waits=[None] * waits)
    return with_counted(replace(nothing, **seen), trainer, pl.DataFrame(rows, schema=TABLE["aggregates"].schema))


def test_each_step_holds_what_all_hold_on_average_however_long_it_takes():
    batches = found([(2, 64), (6, 96)])

    assert batches.samples.tolist() == [20.0] * 4
    assert batches.is_size_assumed


@pytest.mark.parametrize(
    ("windows", "size"),
    [
        ([(2, 64), (3, 96)], 32),
        ([(20, 640), (10, 305), (20, 640)], 32),
        # Every window has an epoch's last batch in it.
        ([(10, 305), (10, 305)], None),
        # As many of one size as of another.
        ([(10, 320), (10, 160)], None),
    ],
)
def test_the_usual_size_is_that_of_windows_whose_batches_all_have_it(windows, size):
    assert found(windows).usual(0, 4) == size


def test_a_few_batches_that_are_seen_beside_those_that_are_counted_are_of_something_else():
    seen = {
        "sizes": np.ones(1, dtype=np.int64),
        "stretch": np.zeros(1, dtype=np.int64),
        "samples": np.array([1.0, 0, 0, 0]),
        "per_step": 0.0,
    }

    batches = found([(2, 64)], waits=1, **seen)

    assert (batches.usual(0, 4), batches.samples.tolist(), batches.per_step) == (32, [32.0] * 4, None)


@pytest.mark.parametrize("samples", [960, None], ids=["with samples", "without"])
@pytest.mark.parametrize("window_ms", [0, -20], ids=["none", "negative"])
def test_a_damaged_window_of_no_length_counts_nothing(window_ms, samples):
    batches = found([(2, 64), (3, samples)], last_ms=window_ms)

    assert (batches.usual(0, 4), batches.samples.tolist()) == (32, [32.0] * 4)


@pytest.mark.parametrize(
    "unknown",
    [
        {"windows": []},
        {"windows": [(2, 64), (2, None)]},
        {"windows": [(2, 64)], "waits": 2},
        {"windows": [(2, 64)], "thread": 8},
    ],
    ids=["none", "some uncounted", "as many seen one by one", "another thread"],
)
def test_nothing_is_known_where_not_all_were_counted(unknown):
    batches = found(**unknown)

    assert np.isnan(batches.samples).all()
    assert batches.usual(0, 4) is None
