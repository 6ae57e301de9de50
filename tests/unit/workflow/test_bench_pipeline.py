"""What is made of a tf.data pipeline that was read alone: the document, the page, and what to type next."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from slowstep.document.validity import faults
from slowstep.prove.bench.core_waits import of_pipeline
from slowstep.prove.bench.loader_speed import make_point
from slowstep.prove.stats.plan import Arm, Plan
from slowstep.prove.stats.readings import ExperimentSteps, no_steps
from slowstep.record.experiment.arms import NOT_IN_TIME
from slowstep.record.launching.command import Command
from slowstep.report.terminal import render
from slowstep.workflow.bench_act import BenchMeasurements
from slowstep.workflow.bench_report import make_report
from slowstep.workflow.bench_request import BenchRequest

MS = 1_000_000
PARSE, SLOW = ["parse", "/home/me/train.py", 12], ["Reader.slow", "/home/me/train.py", 30]
STAGES = [
    {"kind": "TFRecord", "then": [], "makes_batches": False, "reads_several": False},
    {"kind": "Shuffle", "then": ["Repeat"], "makes_batches": False, "reads_several": False},
    {"kind": "Map", "then": [], "makes_batches": False, "calls": 1, "function": PARSE, "python": [SLOW], "reads_several": False},
    {"kind": "Batch", "then": ["Prefetch"], "makes_batches": True, "reads_several": False},
]
LOADER = {
    "part": "loader",
    "reason": None,
    "stages": STAGES,
    "dataset": "tf.data",
    "dataset_length": None,
    "batch_size": 8,
}
LOADER |= {"prefetch_factor": None, "stream": True, "cores": 2.0, "read_together": 1}
REFUSED = {"name": "mock-loader", "state": "not applicable", "reason": "nothing feeds it"}


def a_reading(part: str, element_ms: float, *, samples: int = 1, start_ms: float = 5.0, **changes: Any) -> dict[str, Any]:
    """Forty elements of so many samples, of which each takes half of its time on a core."""
    rows = [[int(element_ms * MS), 1, samples, 100 * samples] for _ in range(40)]
    counted = {"batches": 10, "wall_ns": 1, "process_ns": int(5 * element_ms * MS), "period_ns": int(10 * element_ms * MS)}
    a_slice = counted | {"trainer_cpu_ns": 0, "read_bytes": 10**6, "storage_bytes": 0, "received_bytes": 0, "connections": 0}
    usual = {"part": part, "turn": 1, "workers": 0, "rows": rows, "edges": [], "epoch_batches": None, "skipped": 0, "seen": 40 * samples}
    usual |= {"ready": 0, "ready_ns": 0, "starts_ns": [int(start_ms * MS)], "slices": [a_slice] * 4, "reason": None, "runs_ahead": True}
    return {**usual, "inputs_per_element": None, **changes}


def readings(**changes: Any) -> list[dict[str, Any]]:
    """A map that takes four of the six ms of a sample."""
    prefixes = [a_reading("prefix", ms, stage=stage, **changes) for stage, ms in enumerate((1.0, 1.5, 5.5))]
    return [a_reading("drain", 50, samples=8, turn=0), *prefixes, a_reading("drain", 48, samples=8)]


def report_of(notes: list[dict[str, Any]], what: Any = "data", **changes: Any) -> dict[str, Any]:
    measured = BenchMeasurements(
        Command(words=("train.py",), path="python", argv=("python",), stem="train"),
        notes=[LOADER, *notes],
        updates=20,
        duration_s=60.0,
        place={"kind": "overlay", "claims": "no file changed", "warnings": []},
        **{"steps": no_steps(), **changes},
    )
    report: Any = make_report(measured, BenchRequest(what=what, words=("train.py",)))
    assert faults(report) == []
    return report


def test_each_stage_has_what_it_adds_and_the_dearest_is_named():
    bench = report_of(readings())["bench"]

    rows = bench["pipeline"]["stages"]
    assert [row["added_ms_per_sample"]["value"] for row in rows] == pytest.approx([1, 0.5, 4, 0.5])
    assert [row["added_cpu_ms_per_sample"] for row in rows] == pytest.approx([0.5, 0.25, 2, 0.25])
    assert (bench["pipeline"]["dearest"], rows[2]["function"], rows[2]["place"]) == (2, "Reader.slow", "train.py:30")
    assert [row["in_python"] for row in rows] == [False, False, True, False]
    assert [row["then"] for row in rows] == [[], ["Repeat"], [], ["Prefetch"]]


def test_the_map_that_was_tried_has_a_curve():
    tried = [a_reading("calls", ms, stage=2, calls=calls) for calls, ms in ((1, 5.5), (2, 3), (-1, 2.5))]
    left_out = a_reading("calls", 3, stage=2, calls=2) | {"rows": [], "slices": [], "turn": 2, "reason": "left out"}

    calls = report_of([*readings(), *tried, left_out])["bench"]["pipeline"]["calls"]

    assert (calls["stage"], calls["own"]) == (2, 1)
    assert [point["calls"] for point in calls["points"]] == [1, 2, None]
    assert [point["samples_per_s"]["value"] for point in calls["points"]] == pytest.approx([1000 / 5.5, 1000 / 3, 400])
    assert [point["reason"] for point in calls["points"]] == [None] * 3


def test_where_no_map_was_tried_there_is_no_curve():
    assert report_of(readings())["bench"]["pipeline"]["calls"] is None


def test_a_pipeline_has_a_speed_and_nothing_that_only_a_loader_has():
    bench = report_of(readings())["bench"]

    assert bench["loader"]["samples_per_s"]["value"] == pytest.approx(8 * 80 / (40 * 0.05 + 40 * 0.048))
    assert (bench["loader"]["workers"], bench["loader"]["page_cache"]) == (None, "warm")
    assert (bench["sweep"], bench["bound"], bench["stages"], bench["stages_reason"]) == (None, None, [], None)


def test_the_other_half_has_no_table():
    assert "pipeline" not in report_of([a_reading("drain", 50, samples=8, turn=0)], "compute")["bench"]


def test_a_pipeline_that_was_not_cut_has_no_table():
    assert "pipeline" not in report_of([a_reading("drain", 50, samples=8, turn=0)])["bench"]


def test_a_training_that_cannot_be_given_cached_batches_is_not_sent_from_one_half_to_the_other():
    assert report_of(readings())["run"]["next_command"] == "slowstep bench compute train.py"
    assert report_of(readings(), lever_notes=[REFUSED])["run"]["next_command"] == "slowstep run train.py"


@pytest.mark.parametrize(("ready_s", "command"), [(6.0, "bench data --budget 180s"), (20.0, "run")], ids=["short", "the most"])
def test_a_training_that_was_too_slow_for_cached_batches_is_given_more_time_as_far_as_there_is(ready_s: float, command: str):
    slow, plan = REFUSED | {"reason": NOT_IN_TIME}, Plan(seed=1, steps=10, arms=(), blocks=(), ready_s=ready_s)

    report = report_of(readings(), lever_notes=[slow], plan=plan)

    assert report["run"]["next_command"] == f"slowstep {command} train.py"


def blocks_of_steps(as_is_ms: float, cached_ms: float) -> dict[str, Any]:
    """Six blocks of ten steps as it is, and as many on cached batches; eight samples a step."""
    order = np.repeat([0, 1, 2] * 6, 10)
    ones = np.ones(len(order), dtype=np.int64)
    ns = np.where(order == 2, cached_ms * MS, as_is_ms * MS).astype(np.int64)
    block = np.arange(len(order)) // 10
    steps = ExperimentSteps(arm=order, block=block, ns=ns, samples=8 * ones, delay_ns=0 * ones, settling=ones < 0, input_ns=ones)
    arms = (Arm(name="as-is"), Arm(name="control"), Arm(name="mock-loader"))
    return {"steps": steps, "plan": Plan(seed=1, steps=10, arms=arms, blocks=tuple([0, 1, 2] * 6))}


@pytest.mark.parametrize(
    ("ahead", "how", "per_s"),
    [(True, "max", 8 / 0.049), (False, "sum", 8 / (0.049 + 0.03)), (None, None, None)],
    ids=["ahead", "when asked", "unknown"],
)
def test_what_the_halves_make_together_is_said_where_it_is_known_whether_the_pipeline_runs_ahead(ahead, how, per_s):
    notes = [note | ({"runs_ahead": ahead} if note["part"] == "drain" else {}) for note in readings()]

    report = report_of(notes, **blocks_of_steps(70, 30))

    whole = report["bench"]["whole"]
    assert report["bench"]["pipeline"]["runs_ahead"] is ahead
    assert (None if whole is None else whole["how"]) == how
    if whole is not None:
        assert whole["predicted"]["value"] == pytest.approx(per_s)
    # The other half would not tell either.
    assert report["run"]["next_command"].startswith("slowstep prove --levers mock-loader") == (ahead is None)


@pytest.mark.parametrize("width", [40, 80, 120])
def test_the_page_fits(width):
    tried = a_reading("calls", 3, stage=2, calls=2)
    lines = render(report_of([*readings(), tried]), width=width, color=False).splitlines()

    assert max(len(line) for line in lines[:-1]) <= width


def test_the_page_names_the_place_of_the_stage_that_costs_most():
    assert render(report_of(readings()), width=120, color=False).count("train.py:30") == 1


def test_a_shuffle_that_fills_its_buffer_for_long_is_said():
    at_once, for_long = (render(report_of(readings(start_ms=ms)), width=120, color=False) for ms in (5, 2500))

    assert len(for_long.splitlines()) == len(at_once.splitlines()) + 1


@pytest.mark.parametrize(
    ("foreign_cores", "times"),
    [(None, 1), (0.5, 4 / 3.5), (3.0, 3), (3.9, 3)],
    ids=["unknown", "few", "most", "no more than there are"],
)
def test_a_pipeline_is_no_faster_than_with_the_cores_that_others_used(foreign_cores: float | None, times: float):
    # It uses one and a third of four cores.
    a_slice = {"batches": 10, "wall_ns": 1, "process_ns": 40 * MS, "period_ns": 30 * MS}
    point = make_point(0, [a_reading("drain", 3) | {"slices": [a_slice] * 4}])

    assert of_pipeline(point, 4.0, foreign_cores) == pytest.approx(times)
