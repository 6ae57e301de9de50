"""The verdicts of whole simulated trainings: healthy, undetermined with what to do, and what comes next."""

from __future__ import annotations

import re

import pytest

from few import few
from judged_recordings import report_of
from made_recordings import Training, make_recording
from slowstep.report.terminal import render
from slowstep.workflow.diagnose_recordings import diagnose_recording


@pytest.mark.parametrize(
    "changes",
    few([{}, {"workers": 2}, {"workers": 0, "getitem_ms": 0.3, "collate_ms": 0.1}, {"loader": False}, {"nested": True},
         {"micro_batches": 4}, {"persistent": True}, {"jitter": 0.4}, {"validation": (25, 60)}, {"nested": True, "forward_share": 0.8},
         {"delay_ms": 2}], every=3),
    ids=str,
)  # fmt: skip
def test_a_healthy_training_is_called_healthy(tmp_path, changes):
    report = report_of(tmp_path, changes)

    assert report["verdict"]["state"] == "healthy"
    assert report["findings"] == []


@pytest.mark.parametrize(
    ("changes", "beside", "lever"),
    [({}, "its own workers", "mock-loader"), ({"loader": False}, "its own other threads and processes", "threads=1")],
    ids=["workers", "no loader"],
)
def test_a_training_that_waits_for_a_core_beside_nobody_elses_work_is_not_called_healthy(tmp_path, changes, beside, lever):
    report = report_of(tmp_path, {**changes, "delay_ms": 10, "steps": 700})

    assert (report["verdict"]["state"], report["verdict"]["code"]) == ("undetermined", "waits-for-core")
    assert beside in report["verdict"]["summary"]
    assert f"--levers {lever} " in report["run"]["next_command"]


def test_a_training_of_one_thread_that_waits_for_a_core_is_not_told_to_use_fewer(tmp_path):
    report = report_of(tmp_path, {"loader": False, "threads": 1, "delay_ms": 10})

    assert report["verdict"]["code"] == "waits-for-core"
    assert "threads=1" not in (report["run"].get("next_command") or "")


@pytest.mark.parametrize(("input_ms", "state"), [(12, "undetermined"), (0.9, "healthy")])
def test_what_a_loop_calls_of_torch_before_its_forward_may_stand_for_python_code_that_ran_before_it(tmp_path, input_ms, state):
    report = report_of(tmp_path, {"loader": False, "input_ms": input_ms, "input_file": "optim/optimizer.py"})

    verdict = report["verdict"]
    assert verdict["state"] == state, verdict["summary"]
    assert (verdict["code"] == "lines-by-stacks") == (state == "undetermined")


@pytest.mark.parametrize(
    ("changes", "codes"),
    [
        ({"nodes": None}, ["rule-not-judged", "cost-unknown"]),
        ({"nodes": 500}, ["rule-not-judged", "cost-of-few-sizes"]),
        ({"steps": 30}, ["few-steps"]),
        ({"after_ms": 15, "drop_training_frame": True}, ["unattributed-time"]),
        ({"workers": 2, "getitem_ms": 50, "missing_workers": (0,)}, ["rule-not-judged", "batches-not-matched"]),
        ({"workers": 4, "getitem_ms": 110, "cores": 8, "missing_workers": (0, 1, 2, 3)}, ["rule-not-judged", "workers-not-recorded"]),
        ({"steps": 100, "saves": (60, 500)}, ["share-too-wide"]),
        ({"getitem_ms": 15, "epoch_steps": 5}, ["rule-not-judged", "first-batches"]),
        ({"saves": (5, 10), "after_ms": 1.5}, ["all-together"]),
    ],
    ids=str,
)
def test_what_cannot_be_judged_is_undetermined_and_says_why(tmp_path, changes, codes):
    report = report_of(tmp_path, {"steps": 200, **changes})

    verdict = report["verdict"]
    assert (verdict["state"], verdict["healthy"], verdict["rule"]) == ("undetermined", None, None)
    unjudged = dict.fromkeys(row["code"] for row in report["not_judged"] if row.get("in_verdict"))
    assert [verdict["code"], *unjudged] == codes


def test_what_an_experiment_would_tell_is_the_next_command(tmp_path):
    report = report_of(tmp_path / "one size", {"steps": 700, "nodes": 500})
    short = report_of(tmp_path / "short", {"steps": 80, "nodes": 500})
    without = report_of(tmp_path / "no loader", {"steps": 200, "nodes": 500, "loader": False})

    (row,) = [row for row in report["not_judged"] if row["rule"] == "small-batch"]
    lever = row["lever"]
    assert lever == f"batch-size={2 * round(report['run']['batch_size'] or 0)}"
    assert report["run"]["next_command"].startswith(f"slowstep prove --levers {lever} ")
    # An experiment starts a script again that is over sooner.
    assert "before_next" not in short["run"]
    assert short["run"]["next_command"].startswith(f"slowstep prove --levers {lever} ")
    assert not [row for row in without["not_judged"] if "lever" in row]


@pytest.mark.parametrize(
    ("changes", "words"),
    [({}, "all batches had the same size"), ({"epoch_steps": 60, "last_batch": 4}, "smaller steps were seen")],
)
def test_what_is_missing_for_the_fixed_cost_is_said(tmp_path, changes, words):
    report = report_of(tmp_path, {"steps": 200, "nodes": 500, **changes})

    (row,) = [row for row in report["not_judged"] if row["rule"] == "small-batch"]
    assert row["code"] == "cost-of-few-sizes"
    assert words in row["reason"]
    assert ("record longer" in row["reason"]) == bool(changes)


def test_an_optimizer_that_could_be_fused_does_not_lead_where_a_larger_batch_may_gain_more(tmp_path):
    # All steps have one size, and operations may cost all of the rest: how much of a step is fixed is not known.
    adam = {"type": "Adam", "device": "cpu", "fused": False}
    training = {"workers": 2, "getitem_ms": 0.6, "batch_size": 8, "fixed_ms": 8.0, "per_sample_ms": 0.5, "optimizer_ms": 12.0}

    report, large = (report_of(tmp_path / str(nodes), {**training, "steps": 200, "optimizer": adam, "nodes": nodes}) for nodes in (500, 20))

    assert (report["verdict"]["state"], report["verdict"]["code"]) == ("undetermined", "rule-not-judged")
    assert "cost-of-few-sizes" in {row["code"] for row in report["not_judged"]}
    assert report["findings"][0]["rule"] == "unfused-optimizer"
    # Where operations are few, most of what is fixed is the optimizer's.
    assert (large["verdict"]["state"], large["verdict"]["rule"]) == ("bottleneck", "unfused-optimizer")


def test_a_script_that_ended_by_itself_too_soon_is_to_train_longer(tmp_path):
    # Steps of 20 ms: too few of them, too short a time, and neither.
    told = {}
    for steps in (12, 300):
        report = report_of(tmp_path / str(steps), {"steps": steps, "saves": (5, 10), "after_ms": 1.5})
        assert report["verdict"]["state"] == "undetermined"
        # The same command would only end the same way.
        assert not report["run"].get("next_command", "").startswith("slowstep run")
        told[steps] = report["run"].get("before_next", "")

    assert "trains for 200 steps or more, and 10 s at least: it ended by itself after 12 steps" in told[12]
    # What would tell is an experiment, which starts the script again.
    assert not told[300]


TOO_SHORT = ", and change the script so that it trains for 10 s or more"


@pytest.mark.parametrize(("steps", "also"), [(700, ""), (300, TOO_SHORT)])
def test_where_the_same_run_would_tell_no_more_what_to_change_comes_first(tmp_path, steps, also):
    # Without a loader no lever changes the size of its batches.
    report = report_of(tmp_path, {"steps": steps, "nodes": 500, "loader": False})

    assert report["verdict"]["code"] == "rule-not-judged"
    assert report["run"]["next_command"].startswith("slowstep run ")
    assert report["run"]["before_next"].startswith(f"try another batch size{also}")
    assert ("ended by itself" in report["run"]["before_next"]) is bool(also)


@pytest.mark.parametrize(("steps", "limit"), [(24, " --steps 200 "), (400, " ")])
def test_what_was_recorded_for_long_is_not_recorded_again_for_less(tmp_path, steps, limit):
    folder = make_recording(tmp_path, Training(steps=steps, nodes=500, loader=False))
    notes = folder / "100-1.jsonl"
    # As where the recording ended before the training.
    notes.write_text(re.sub(r'"reason": ?"exit"', '"reason":"steps"', notes.read_text()))
    launcher = folder / "launcher.jsonl"
    launcher.write_text(re.sub(r'"ended_ns": ?(\d+)', lambda found: f'"ended_ns":{int(found[1]) + int(60e9)}', launcher.read_text()))

    report = diagnose_recording(folder)
    assert report["verdict"]["state"] == "undetermined"
    assert f"Next        slowstep run{limit}train.py\n" in render(report, width=140, color=False)


def test_load_of_others_widens_the_interval_and_is_said(tmp_path):
    changes = {"blocked_ms": 40, "delay_ms": 10}
    quiet, busy = (report_of(tmp_path / str(cores), {**changes, "foreign_cores": cores}) for cores in (0.5, 3.0))

    widths = [report["findings"][0]["gain"]["high"] - report["findings"][0]["gain"]["low"] for report in (quiet, busy)]

    assert widths[1] > widths[0] * 1.2
    assert "notes" not in quiet["run"]
    assert "busy machine: other processes use 3.0 of 4" in busy["run"]["notes"][0]


def test_beside_load_of_others_another_run_may_be_as_fast_as_without_waiting_for_a_core(tmp_path):
    quiet, busy = (report_of(tmp_path / str(cores), {"delay_ms": 10, "foreign_cores": cores})["throughput"] for cores in (0.5, 3.0))

    assert quiet["steps_per_s"] == busy["steps_per_s"]
    assert quiet["steps_per_s_interval"]["low"] == busy["steps_per_s_interval"]["low"]
    # The waits for a core are 10 ms per step.
    assert busy["steps_per_s_interval"]["high"] > 1.2 * quiet["steps_per_s_interval"]["high"]


def test_the_gain_of_removing_a_callback_ends_where_the_workers_bind(tmp_path):
    report = report_of(tmp_path, {"after_ms": 20, "getitem_ms": 30})

    # 30.5 ms for each batch, and per epoch of 25 steps once more, after a start of 10 ms.
    said = "making batches, 32.1 ms per step"
    assert report["next"] == {"stage": "preprocess", "code": "making-batches", "predicted": said, "demand": said}


def test_next_is_never_more_than_the_step_that_is_left(tmp_path):
    report = report_of(
        tmp_path, {"blocked_ms": 30, "getitem_ms": 1, "fixed_ms": 0.1, "per_sample_ms": 0.2, "optimizer_ms": 0.1, "cores": 16}
    )

    # One number where the stage is all that is left of the step.
    amount, *whole = (float(word) for word in report["next"]["predicted"].split(", ")[1].removesuffix(" ms per step").split(" of "))
    assert not whole or amount <= whole[0]
