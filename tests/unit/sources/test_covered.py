"""What a timeline states that it has, of what its source can see at most."""

from __future__ import annotations

import polars as pl
import pytest

from made_traces import device, host, made_trace
from slowstep.sources import kineto, recording
from slowstep.sources._covered import covered_by_recording, covered_by_trace
from slowstep.timeline.coverage import TRACED, UNSEEN, CoverageLevel, CoveredSteps
from slowstep.timeline.schema import TABLE


def of_recording(*, idle=(), steps_left_out=(), updates=0):
    stacks = pl.DataFrame({"device_idle": pl.Series(idle, dtype=pl.Boolean)})
    process = TABLE["totals"].schema["process"]
    totals = pl.DataFrame(
        {"process": pl.Series([0] * len(steps_left_out), dtype=process), "steps": pl.Series(steps_left_out, dtype=pl.Int64)}
    )
    made = pl.DataFrame({"process": pl.Series([0] * updates + [1] * 7, dtype=process)})
    return covered_by_recording(recording.COVERAGE, {"stacks": stacks, "totals": totals, "updates": made})


@pytest.mark.parametrize(
    ("idle", "known"),
    [([], CoverageLevel.NONE), ([None], CoverageLevel.NONE), ([None, False], CoverageLevel.SAMPLED), ([True], CoverageLevel.SAMPLED)],
)
def test_a_recording_knows_of_the_device_what_stacks_were_told(idle, known):
    assert of_recording(idle=idle)["device"].known is known


def test_a_recording_of_which_nothing_was_left_out_is_of_all_steps():
    stated = of_recording(updates=5)

    assert {stated[kind].steps for kind in ("steps", "host", "functions", "batches", "machine")} == {CoveredSteps.ALL}
    assert stated["host"].one_in is None


def test_a_recording_says_of_how_many_steps_each_one_is_known():
    stated = of_recording(updates=10, steps_left_out=[8, 12], idle=[True])

    assert {kind for kind, each in stated.items() if each.one_in is not None} == {"host", "functions", "batches", "device"}
    assert (stated["host"].steps, stated["host"].one_in) == (CoveredSteps.ONE_IN_SEVERAL, 3.0)
    assert stated["steps"].steps is CoveredSteps.ALL


def test_a_trace_has_seen_what_it_has_rows_of():
    trace = made_trace(
        hosts=[host("aten::mm", 0, 10), host("cudaLaunchKernel", 2, 3, "runtime", correlation=1)], devices=[device("k", 5, 6)]
    )

    stated = covered_by_trace(kineto.COVERAGE, trace.tables)

    assert {kind for kind, each in stated.items() if each == TRACED} == {"host", "device", "dispatches"}
    assert {kind for kind, each in stated.items() if each == UNSEEN} == stated.keys() - {"host", "device", "dispatches"}


def test_a_trace_with_stacks_says_no_more_what_had_to_be_asked_for():
    stated = covered_by_trace(kineto.COVERAGE, made_trace(hosts=[host("train.py(3): main", 0, 10, "python")]).tables)

    assert stated["functions"] == TRACED
    assert stated["host"] == UNSEEN
