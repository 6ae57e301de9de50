"""What to do after the report of a recording: never what can only end the same way, in one number of steps, and as it can be pasted."""

from __future__ import annotations

import json
import re
import shlex
from pathlib import Path
from typing import Any

import pytest

from made_recordings import Training, make_recording
from slowstep.document.validity import validate
from slowstep.workflow.diagnose_recordings import diagnose_recording
from slowstep.workflow.next_command.command_lines import FILL_IN

# Undetermined without a lever that tells more: another batch size is to be tried by hand.
OPEN = {"nodes": 500, "loader": False}


def report_of(folder: Path, *, warmup: int | None = None, **training: Any) -> dict[str, Any]:
    report = diagnose_recording(make_recording(folder, Training(**training)), warmup=warmup)
    validate(report)
    return report


def with_command(folder: Path, command: list[str]) -> Path:
    return noted(folder, command=command)


def noted(folder: Path, **asked: Any) -> Path:
    """With what the launcher was asked for."""
    notes = folder / "launcher.jsonl"
    lines = [json.loads(line) for line in notes.read_text().splitlines()]
    notes.write_text("".join(json.dumps(line | asked if line["kind"] == "run" else line) + "\n" for line in lines))
    return folder


@pytest.mark.parametrize(("there", "prefix"), [("elsewhere", "cd {} && "), ("gone", ""), ("here", "")])
def test_what_runs_a_script_is_typed_from_the_folder_in_which_it_was_started(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, there: str, prefix: str
) -> None:
    folder = make_recording(tmp_path / "recording", Training(steps=300, **OPEN))
    started_in = tmp_path / there
    for name in ("elsewhere", "here"):
        (tmp_path / name).mkdir()
    monkeypatch.chdir(tmp_path / "here")
    notes = folder / "launcher.jsonl"
    lines = [json.loads(line) for line in notes.read_text().splitlines()]
    told = [line | {"cwd": str(started_in)} if line["kind"] == "process" else line for line in lines]
    notes.write_text("".join(json.dumps(line) + "\n" for line in told))

    assert diagnose_recording(folder)["run"]["next_command"] == f"{prefix.format(started_in)}slowstep run train.py"


def test_a_script_that_was_too_short_is_not_run_again_as_it_is_and_is_told_one_number_of_steps(tmp_path: Path) -> None:
    report = report_of(tmp_path, steps=12, workers=2)

    assert report["verdict"]["state"] == "undetermined"
    assert "next_command" not in report["run"]
    told = f"{report['verdict']['summary']} {report['run']['before_next']}"
    assert set(re.findall(r"(\d+) steps", told)) - {"8", "11", "12"} == {"200"}
    assert told.count("200 steps or more, and 10 s at least") == 2


def test_a_script_that_is_changed_first_is_run_again(tmp_path: Path) -> None:
    run = report_of(tmp_path, steps=300, **OPEN)["run"]

    assert run["next_command"] == "slowstep run train.py"
    told = "try another batch size, and change the script so that it trains for 10 s or more: it ended by itself"
    assert run["before_next"].startswith(told)


@pytest.mark.parametrize(
    ("asked", "words"),
    [
        ({"stop": True, "steps": 5000}, "--steps 5000 --stop "),
        ({"seconds": 60.0, "capture": [31, 35]}, "--for 60s --capture=31-35 "),
        # A verdict takes 10 s, and these 300 steps take 19 ms each.
        ({"stop": True, "steps": 400, "seconds": 5.0}, "--steps 600 --for 20s --stop "),
    ],
)
def test_a_script_that_is_changed_to_train_longer_keeps_its_limits_or_gets_larger_ones(
    tmp_path: Path, asked: dict[str, Any], words: str
) -> None:
    folder = noted(make_recording(tmp_path, Training(steps=300, **OPEN)), **asked)

    run = diagnose_recording(folder)["run"]

    assert "change the script so that it trains for" in run["before_next"]
    assert run["next_command"] == f"slowstep run {words}train.py"


@pytest.mark.parametrize(
    ("asked", "words"),
    [
        ({"stop": True, "seconds": 60.0}, "--for 60s --stop "),
        ({"stop": True, "steps": 500, "capture": [31, 35]}, "--steps 500 --stop --capture=31-35 "),
        ({"stop": True}, ""),
        ({"stop": False, "seconds": 2.5}, "--for 2.5s "),
        ({"capture": []}, ""),
        ({"warmup": 20, "levers": ["threads=1", "pin-memory"]}, "--warmup 20 --with threads=1 --with pin-memory "),
    ],
)
def test_what_was_asked_for_is_asked_for_again(tmp_path: Path, asked: dict[str, Any], words: str) -> None:
    folder = noted(make_recording(tmp_path, Training(steps=1500, **OPEN)), **asked)

    run = diagnose_recording(folder)["run"]

    assert run["before_next"] == "try another batch size"
    assert run["next_command"] == f"slowstep run {words}train.py"


@pytest.mark.parametrize(("steps", "limit"), [(50, 200), (1500, 3000)])
def test_a_training_that_its_limit_stopped_is_given_a_larger_one(tmp_path: Path, steps: int, limit: int) -> None:
    folder = noted(make_recording(tmp_path, Training(steps=steps, **OPEN)), stop=True, steps=steps)
    for notes in folder.glob("*.jsonl"):
        notes.write_text(re.sub(r'"reason": ?"exit"', '"reason":"steps"', notes.read_text()))

    assert diagnose_recording(folder)["run"]["next_command"] == f"slowstep run --steps {limit} --stop train.py"


@pytest.mark.parametrize(("goes_on_s", "is_changed"), [(0.5, True), (600.0, False)])
def test_a_script_that_ended_with_the_steps_that_were_asked_for_is_to_be_changed(
    tmp_path: Path, goes_on_s: float, is_changed: bool
) -> None:
    folder = noted(make_recording(tmp_path, Training(steps=12, **OPEN)), steps=12)
    for notes in folder.glob("*.jsonl"):
        text = re.sub(r'"reason": ?"exit"', '"reason":"steps"', notes.read_text())
        notes.write_text(re.sub(r'"ended_ns": ?(\d+)', lambda found: f'"ended_ns":{int(found[1]) + int(goes_on_s * 1e9)}', text))

    run = diagnose_recording(folder)["run"]

    assert ("change the script" in (run.get("before_next") or "")) is is_changed
    assert not any("nothing was updated in the last" in note for note in run.get("notes", ()))


@pytest.mark.parametrize(("goes_on_s", "limit", "is_said"), [(100.0, "5m", True), (-1.0, "80s", False)])
def test_time_after_the_last_update_is_said_of_a_short_recording_and_given_to_the_next(
    tmp_path: Path, goes_on_s: float, limit: str, is_said: bool
) -> None:
    folder = make_recording(tmp_path, Training(steps=4, fixed_ms=2000.0))
    seconds = 4 * 2.1 + goes_on_s
    noted(folder, stop=True, seconds=seconds)
    for notes in folder.glob("*.jsonl"):
        text = re.sub(r'"reason": ?"exit"', '"reason":"seconds"', notes.read_text())
        notes.write_text(re.sub(r'"ended_ns": ?(\d+)', lambda found: f'"ended_ns":{int(found[1]) + int(1000e9)}', text))

    run = diagnose_recording(folder)["run"]

    assert run["next_command"] == f"slowstep run --for {limit} --stop train.py"
    assert any("nothing was updated in the last" in note for note in run.get("notes", ())) is is_said


def test_a_script_whose_records_were_lost_is_recorded_again_and_is_not_said_to_have_ended_early(tmp_path: Path) -> None:
    folder = noted(make_recording(tmp_path, Training(steps=150, **OPEN)), stop=True, steps=500, capture=[31, 35])
    records = folder / "100-1.rec"
    with records.open("r+b") as file:
        file.truncate(records.stat().st_size * 2 // 3)

    run = diagnose_recording(folder)["run"]

    assert run["before_next"] == "record again: records of this run are missing"
    assert run["next_command"] == "slowstep run --steps 500 --stop --capture=31-35 train.py"


@pytest.mark.parametrize("warmup", [190, 100_000])
def test_where_too_many_steps_were_asked_to_be_left_out_fewer_are_next_and_no_verdict_is_given(tmp_path: Path, warmup: int) -> None:
    report = report_of(tmp_path, warmup=warmup, steps=200, workers=2, after_ms=15)

    assert report["verdict"]["state"] == "undetermined"
    assert report["verdict"]["code"] == "warmup-too-long"
    *words, given = shlex.split(report["run"]["next_command"])
    assert (words[:2], words[-1], int(given)) == (["slowstep", "analyze"], "--warmup", 40)
    assert diagnose_recording(tmp_path, warmup=int(given))["verdict"]["state"] == "bottleneck"


def test_a_warm_up_that_leaves_enough_is_taken_as_asked(tmp_path: Path) -> None:
    report = report_of(tmp_path, warmup=100, steps=200, workers=2, after_ms=15)

    assert report["verdict"]["state"] == "bottleneck"
    assert report["run"]["warmup_steps"] == 100


@pytest.mark.parametrize(
    ("training", "command"),
    [({"steps": 300, **OPEN}, None), ({"steps": 300, "workers": 2, "after_ms": 15}, "slowstep explain slow-callback")],
    ids=["undetermined", "bottleneck"],
)
def test_without_the_command_that_was_run_none_is_made_of_it_and_a_bottleneck_is_explained(
    tmp_path: Path, training: dict[str, Any], command: str | None
) -> None:
    folder = with_command(make_recording(tmp_path, Training(**training)), [])

    assert diagnose_recording(folder)["run"].get("next_command") == command


def test_a_command_is_quoted_and_its_secrets_are_marked_to_be_filled_in(tmp_path: Path) -> None:
    words = ["train.py", "--api-key=***", "--name", "it's mine", "$HOME"]
    folder = with_command(make_recording(tmp_path, Training(steps=300, workers=2, after_ms=15)), words)

    run = diagnose_recording(folder)["run"]

    assert shlex.split(run["next_command"]) == ["slowstep", "prove", "train.py", f"--api-key={FILL_IN}", "--name", "it's mine", "$HOME"]
    assert FILL_IN in run["before_next"]


@pytest.mark.parametrize("steps", [60, 1500])
def test_an_experiment_is_next_however_soon_the_script_is_over(tmp_path: Path, steps: int) -> None:
    report = diagnose_recording(make_recording(tmp_path, Training(steps=steps, after_ms=8.0)))

    assert report["verdict"]["state"] == "bottleneck"
    assert report["run"]["next_command"] == "slowstep prove train.py"
    assert "before_next" not in report["run"]


def test_a_script_that_was_stopped_may_train_for_long_enough(tmp_path: Path) -> None:
    folder = noted(make_recording(tmp_path, Training(steps=200, after_ms=8.0)), stop=True, steps=200)
    for notes in folder.glob("*.jsonl"):
        notes.write_text(re.sub(r'"reason": ?"exit"', '"reason":"steps"', notes.read_text()))

    assert "before_next" not in diagnose_recording(folder)["run"]


@pytest.mark.parametrize(("foreign_cores", "is_said"), [(0.0, False), (3.0, True)], ids=["quiet", "busy"])
def test_more_steps_beside_others_are_not_all_that_is_asked_for(tmp_path: Path, foreign_cores: float, is_said: bool) -> None:
    make_recording(tmp_path, Training(steps=120, foreign_cores=foreign_cores, **OPEN))
    first = diagnose_recording(with_command(tmp_path, ["train.py"]))["run"]["before_next"]

    assert ("quieter machine" in first) == is_said
    assert "trains for" in first
