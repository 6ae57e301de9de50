from __future__ import annotations

import json
from pathlib import Path

import pytest

from few import few
from judged_recordings import report_of
from made_machine import GIB, MadeMachine, make_machine_recording
from made_recordings import Training, make_recording
from slowstep.document.validity import validate
from slowstep.errors import NothingRecorded
from slowstep.findings import EvidenceCode
from slowstep.report.terminal import render
from slowstep.workflow.diagnose_recordings import diagnose_recording


def _evidence_codes(report):
    return {row.get("code") for finding in report["findings"] for row in finding["evidence"]}


LONG = {"fixed_ms": 4_000.0, "epoch_steps": None, "stack_period_ms": 500.0}


@pytest.mark.parametrize("steps", few([1, 2, 3, 4, 5, 12, 29], every=3))
@pytest.mark.parametrize("loader", [True, False], ids=["loader", "loop"])
def test_few_updates_make_a_provisional_report_without_verdict_or_gain(tmp_path, steps, loader):
    report = diagnose_recording(make_recording(tmp_path, Training(steps=steps, epoch_steps=None, loader=loader, after_ms=40, input_ms=5)))

    validate(report)
    render(report, width=80, color=False)
    assert (report["run"]["provisional"], report["verdict"]["state"], report["next"]) == (True, "undetermined", None)
    assert report["throughput"]["steps_per_s"] > 0
    assert {row["gain"]["predicted"] for row in report["findings"]} <= {None}
    assert EvidenceCode.SAVED_BY_FIX not in _evidence_codes(report)
    assert "steps_per_s_interval" not in report["throughput"]


def test_a_report_of_enough_steps_is_not_provisional(tmp_path):
    report = diagnose_recording(make_recording(tmp_path, Training(steps=40, epoch_steps=None)))

    assert (report["run"]["provisional"], report["run"]["warmup_steps"], report["run"]["steps"]) == (False, 3, 36)
    interval = report["throughput"]["steps_per_s_interval"]
    assert interval["low"] < report["throughput"]["steps_per_s"] < interval["high"]


def test_what_a_fix_saves_is_evidence_of_enough_steps_only(tmp_path):
    enough, few = (Training(steps=steps, epoch_steps=None, after_ms=40, input_ms=5) for steps in (60, 20))

    found, provisional = (
        _evidence_codes(diagnose_recording(make_recording(tmp_path / name, each))) for name, each in (("a", enough), ("b", few))
    )

    assert EvidenceCode.SAVED_BY_FIX in found
    assert provisional
    assert EvidenceCode.SAVED_BY_FIX not in provisional


def test_of_few_long_steps_the_largest_stage_is_told_and_how_long_enough_of_them_take(tmp_path):
    report = diagnose_recording(make_recording(tmp_path, Training(steps=3, **LONG)))

    assert (report["run"]["steps"], report["run"]["warmup_steps"], report["verdict"]["stage"]) == (3, 0, "compute")
    assert "record 38 steps or more, about 2.5 min" in report["verdict"]["summary"]
    assert "38 steps" in report["run"]["before_next"]


def test_a_training_of_long_steps_that_was_killed_is_to_be_recorded_for_the_time_that_it_needs(tmp_path):
    folder = make_recording(tmp_path, Training(steps=2, **LONG))
    for name, end in (("100-1", '"kind": "end"'), ("launcher", '"kind": "exit"')):
        notes = folder / f"{name}.jsonl"
        notes.write_text("".join(line + "\n" for line in notes.read_text().splitlines() if end not in line))

    run = diagnose_recording(folder)["run"]

    assert run["next_command"] == "slowstep run --for 3m train.py"


def test_a_folder_with_only_the_launchers_files_says_that_no_training_was_seen(tmp_path):
    folder = make_recording(tmp_path, Training(steps=3, workers=0))
    for file in folder.glob("100-1.*"):
        file.unlink()

    with pytest.raises(NothingRecorded, match=r"no training step was recorded.*import slowstep\.auto"):
        diagnose_recording(folder)


def test_the_warm_up_of_the_run_holds_and_can_be_overruled(tmp_path):
    folder = make_recording(tmp_path, Training(epoch_steps=None))
    launcher = folder / "launcher.jsonl"
    lines = [json.loads(line) for line in launcher.read_text().splitlines()]
    for line in lines:
        if line["kind"] == "run":
            line["warmup"] = 11
    launcher.write_text("".join(json.dumps(line) + "\n" for line in lines))

    asked, overruled = diagnose_recording(folder), diagnose_recording(folder, warmup=25)

    assert asked["run"]["warmup_steps"] == 11
    assert overruled["run"]["warmup_steps"] == 25


def test_throughput_is_samples_per_second_over_the_window(tmp_path):
    report = diagnose_recording(make_recording(tmp_path, Training(steps=200, epoch_steps=None, workers=2)))

    # 18 ms of forward and backward, 1 of the optimizer, 0.5 to receive a batch.
    assert report["throughput"]["samples_per_s"] == pytest.approx(16 / 0.0195, rel=1e-3)
    assert report["throughput"]["step_ms"]["median"] == pytest.approx(19.5, rel=1e-3)
    assert report["run"]["batch_size"] == 16
    assert report["run"]["batch_size_from"] == "the loader's index counts"


def test_throughput_counts_samples_of_all_micro_batches(tmp_path):
    report = diagnose_recording(make_recording(tmp_path, Training(micro_batches=4, workers=2, epoch_steps=None)))

    assert report["throughput"]["samples_per_s"] == pytest.approx(64 / 0.075, rel=1e-2)


def test_a_batch_size_that_grows_is_a_range_and_the_steps_at_which_it_does_are_noted(tmp_path):
    sizes = {"batch_size": 64, "epoch_steps": 50, "epoch_sizes": (8, 16, 32)}
    report = diagnose_recording(make_recording(tmp_path, Training(workers=2, steps=200, nodes=500, **sizes)))

    validate(report)
    run = report["run"]
    # The window is cut to whole epochs, and holds two.
    assert (run["batch_size"], run["batch_sizes"]) == (32, [16, 32])
    per_step = (report["throughput"]["samples_per_s"] or 0) / report["throughput"]["steps_per_s"]
    assert run["batch_sizes"][0] < per_step < run["batch_sizes"][1]
    (note,) = [row for row in report["health"] if row["name"] == "batch-size-changed"]
    assert note["count"] == 3
    assert "from 8 to 16 at step 51, from 16 to 32 at step 101, from 32 to 64 at step 151: values per step are means" in note["remedy"]
    (unjudged,) = [row for row in report["not_judged"] if row["rule"] == "small-batch"]
    assert "steps held 16 to 32 samples" in unjudged["reason"]
    assert "lever" not in unjudged


def test_a_change_of_the_batch_size_before_the_window_leaves_one_size(tmp_path):
    sizes = {"batch_size": 64, "epoch_steps": 50, "epoch_sizes": (8,)}
    report = diagnose_recording(make_recording(tmp_path, Training(workers=2, steps=250, **sizes)))

    assert report["run"]["batch_size"] == 64
    assert "batch_sizes" not in report["run"]
    (note,) = [row for row in report["health"] if row["name"] == "batch-size-changed"]
    assert note["remedy"] == "the batch size changed from 8 to 64 at step 51: the steps looked at are of one size"


def test_one_period_is_said_and_two_are_not(tmp_path):
    one, many = (
        diagnose_recording(make_recording(tmp_path / str(steps), Training(steps=steps, epoch_steps=steps // n)))
        for steps, n in ((150, 2), (160, 5))
    )

    assert "one-period" in [row["name"] for row in one["health"]]
    assert "one-period" not in [row["name"] for row in many["health"]]
    assert many["run"]["whole_periods"] is True


def test_a_report_can_be_written_as_json(tmp_path):
    report = diagnose_recording(make_recording(tmp_path, Training(workers=0, after_ms=5, saves=(7, 20))))

    assert json.loads(json.dumps(report, allow_nan=False)) == report


def test_a_recording_that_is_still_being_written_is_diagnosed(tmp_path):
    folder = make_recording(tmp_path, Training())
    records = Path(folder) / "100-1.rec"
    records.write_bytes(records.read_bytes()[: 48 * 500])

    report = diagnose_recording(folder)

    validate(report)
    assert report["run"]["recorded_steps"] < 200


@pytest.mark.parametrize(
    ("training", "command"),
    [
        ({"after_ms": 15, "workers": 2}, "slowstep prove train.py"),
        # A function that does nothing bounds what faster code gains.
        ({"collate_ms": 26, "collate": "data.pad_slowly"}, "slowstep prove train.py"),
        # Nobody knows how to take a bottleneck away from outside, or there is none.
        ({"stall": (10, 120), "workers": 2}, "slowstep explain periodic-stall"),
        ({"workers": 2}, None),
    ],
)
def test_a_bottleneck_that_a_lever_tries_is_to_be_proved_next_and_another_one_is_explained(tmp_path, training, command):
    report = diagnose_recording(make_recording(tmp_path, Training(steps=300, **training)))

    assert report["run"].get("next_command") == command


@pytest.mark.parametrize(
    ("name", "command", "expected"),
    [("bash", ["/bin/bash", "run.sh"], "train"), ("job", ["python", "job.py"], "job"), ("typed", [], "typed")],
    ids=["a shell", "a script", "a session"],
)
def test_a_command_that_names_no_script_is_called_as_the_one_that_trained(tmp_path, name, command, expected):
    folder = make_recording(tmp_path, Training())
    launcher = folder / "launcher.jsonl"
    lines = [json.loads(line) for line in launcher.read_text().splitlines()]
    lines = [line | {"name": name, "command": command} if line["kind"] == "run" else line for line in lines]
    launcher.write_text("".join(f"{json.dumps(line)}\n" for line in lines))

    assert diagnose_recording(folder)["run"]["name"] == expected


def test_what_others_take_and_memory_that_is_soon_used_up_are_noted(tmp_path):
    soon = MadeMachine(resident=lambda share: GIB + share * GIB, available=lambda share: 4 * GIB)

    report = diagnose_recording(make_machine_recording(tmp_path, Training(foreign_cores=2.0, delay_ms=2, after_ms=15), soon))

    assert {row["rule"] for row in report["findings"] if row.get("outside")} == {"foreign-load"}
    titles = {row["rule"]: row["title"] for row in report["findings"]}
    notes = report["run"]["notes"]
    assert [titles["memory-growth"] in notes[0], titles["foreign-load"] in notes[1]] == [True, True]
    page = render(report, width=200, color=False)
    assert " ".join(page.split()).count(titles["foreign-load"]) == 1
    # What is noted has no number of its own among the findings.
    assert "foreign-load" not in page


def test_the_page_calls_unattributed_time_no_stage(tmp_path):
    unnamed = {"after_ms": 1, "after_growth_ms": 20, "after_unseen": True, "after": "", "getitem_ms": 2, "stack_period_ms": 1e9}

    page = render(report_of(tmp_path, unnamed), width=120, color=False, unicode=False)

    assert "BOTTLENECK in unattributed time: growing-step-time" in page
    assert "growing-step-time in unattributed time" in page


def test_the_start_ups_parts_and_what_recurs_stand_in_the_report(tmp_path):
    run = report_of(tmp_path, {"saves": (10, 60)})["run"]

    assert [part["name"] for part in run["startup"]][:3] == [
        "before the import of torch", "import of torch", "other imports, data and model"
    ]  # fmt: skip
    assert sum(part["s"] for part in run["startup"]) == pytest.approx(run["startup_s"])
    assert run["startup"][0]["s"] == pytest.approx(0.2)
    assert (run["periodic"][0]["name"], run["periodic"][0]["every_steps"]) == ("checkpoint", 10)
    assert run["periodic"][0]["ms"] == pytest.approx(60, rel=0.01)


def test_what_the_machine_does_not_show_is_told_with_its_reason(tmp_path):
    folder = make_recording(tmp_path / "run", Training(steps=60))
    notes = folder / "launcher.jsonl"
    lines = ('{"kind": "absent", "monitor": "gpu", "reason": "no driver"}', '{"kind": "absent", "reason": "of nothing"}')
    notes.write_text(notes.read_text() + "".join(line + "\n" for line in lines))

    assert diagnose_recording(folder)["run"]["not_read"] == [{"monitor": "gpu", "reason": "no driver"}]


def test_where_everything_was_read_nothing_is_told(tmp_path):
    assert "not_read" not in diagnose_recording(make_recording(tmp_path / "run", Training(steps=60)))["run"]
