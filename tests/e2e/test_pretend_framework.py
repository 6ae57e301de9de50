"""A framework that nothing of slowstep knows but its own folder: asynchronous, no optimizer, several updates a call, input as counters."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from slowstep.diagnosis.evidence.unnamed import PROFILE_IT

PRETEND = Path(__file__).parents[1] / "pretend"
UPDATES = 4
# What the script's device computes for each call.
BUSY_MS = 5.0 * UPDATES


def report(
    folder: Path, *more: str, input_ms: float, callback_ms: float, options: tuple[str, ...] = (), script: str = "script.py"
) -> dict[str, Any]:
    """What `slowstep run` says of the script."""
    words = [str(PRETEND / script), str(input_ms / 1e3), str(callback_ms / 1e3), *more]
    environment = os.environ | {
        "SLOWSTEP_FRAMEWORKS": str(PRETEND / "frameworks"),
        "PYTHONPATH": str(PRETEND / "site-packages"),
    }
    command = [sys.executable, "-m", "slowstep", "run", "--json", "report.json", *options, sys.executable, *words]
    done = subprocess.run(command, cwd=folder, env=environment, capture_output=True, text=True, timeout=200, check=False)
    assert done.returncode == 0, done.stderr
    found: dict[str, Any] = json.loads((folder / "report.json").read_text())
    return found


def rules(said: dict[str, Any]) -> set[str]:
    return {finding["rule"] for finding in said["findings"]}


def shares(said: dict[str, Any]) -> dict[str, float]:
    return {row["stage"]: row["share"] or 0.0 for row in said["ledger"]}


@pytest.mark.slow
def test_host_time_under_the_busy_device_is_blamed_on_no_callback(tmp_path: Path) -> None:
    said = report(tmp_path, input_ms=0.0, callback_ms=0.4 * BUSY_MS)

    assert rules(said).isdisjoint({"slow-callback", "serial-loader"})
    assert said["run"]["framework"] == "pretend"
    assert said["run"]["updates_per_step"] == UPDATES
    assert said["run"]["step_boundary"] == "end of the call that updates"
    assert said["run"]["steps"] > 60
    # The callback takes two fifths of each step, and the device computes meanwhile.
    assert shares(said)["output"] < 0.2
    assert shares(said)["compute"] > 0.7


@pytest.mark.slow
def test_input_that_is_made_between_updates_is_a_serial_loader(tmp_path: Path) -> None:
    said = report(tmp_path, input_ms=4 * BUSY_MS / UPDATES, callback_ms=0.4 * BUSY_MS)

    (finding,) = [finding for finding in said["findings"] if finding["rule"] == "serial-loader"]
    assert "background(workers=" in finding["fixes"][0]["text"]
    assert shares(said)["preprocess"] > 0.5
    assert "slow-callback" not in rules(said)


@pytest.mark.slow
def test_a_callback_for_which_the_device_waits_is_a_slow_one(tmp_path: Path) -> None:
    said = report(tmp_path, input_ms=0.0, callback_ms=5 * BUSY_MS)

    (finding,) = [finding for finding in said["findings"] if finding["rule"] == "slow-callback"]
    assert "draw" in finding["title"]
    # The device computes beside it for a fifth of its time.
    assert 0.5 < shares(said)["output"] < 0.9
    assert "serial-loader" not in rules(said)


@pytest.mark.slow
def test_of_calls_that_wait_for_the_device_the_host_is_charged_and_the_input_that_is_counted_in_them(tmp_path: Path) -> None:
    said = report(tmp_path, "waits", input_ms=BUSY_MS / UPDATES, callback_ms=2 * BUSY_MS)

    # Of each step a half is the callback, and a quarter input; on a busy machine what sleeps often takes longer.
    assert {"slow-callback", "serial-loader"} <= rules(said)
    assert 0.2 < shares(said)["output"] < 0.6
    assert 0.1 < shares(said)["preprocess"] < 0.6


@pytest.mark.slow
def test_where_the_framework_counts_nothing_the_host_is_blamed_for_nothing(tmp_path: Path) -> None:
    said = report(tmp_path, "uncounted", input_ms=4 * BUSY_MS / UPDATES, callback_ms=2 * BUSY_MS)

    assert rules(said).isdisjoint({"slow-callback", "serial-loader"})
    assert said["verdict"]["state"] == "undetermined"
    assert PROFILE_IT in said["verdict"]["summary"]
    assert shares(said)["unattributed"] > 0.9


def levers(folder: Path) -> list[dict[str, Any]]:
    """What was said of levers, in the order in which it was."""
    files = sorted(folder.glob("slowstep_runs/*/*.jsonl"))
    notes = [json.loads(line) for file in files for line in file.read_text().splitlines()]
    return [note for note in notes if note.get("kind") == "lever"]


@pytest.mark.slow
def test_its_own_levers_are_known_by_name_and_how_it_makes_one_of_all(tmp_path: Path) -> None:
    options = ("--with", "callbacks-off", "--with", "in-turn", "--with", "workers=2")

    said = report(tmp_path, input_ms=0.0, callback_ms=5 * BUSY_MS, options=options)

    effects = {note["name"]: note["effect"] for note in levers(tmp_path) if note["state"] == "effect"}
    assert min(effects["callbacks-off"], effects["in-turn"]) > 60
    assert [note["reason"] for note in levers(tmp_path) if note["name"] == "workers=2"] == [
        "slowstep cannot make this change in a training with pretend"
    ]
    assert shares(said)["output"] < 0.2


def fixes(said: dict[str, Any], rule: str) -> str:
    (finding,) = [finding for finding in said["findings"] if finding["rule"] == rule]
    return "\n".join(fix["text"] for fix in finding["fixes"])


@pytest.mark.slow
@pytest.mark.parametrize("more", [(), pytest.param(("both",), marks=pytest.mark.nightly)], ids=["torch loads", "torch updates once"])
def test_a_loader_of_another_framework_feeds_it_and_is_changed_in_that_ones_words(tmp_path: Path, more: tuple[str, ...]) -> None:
    said = report(tmp_path, *more, input_ms=15.0, callback_ms=0.0, script="fed_by_torch.py")

    assert said["run"]["framework"] == "pretend"
    assert said["run"]["steps"] > 150
    assert shares(said)["preprocess"] + shares(said)["read"] > 0.5
    assert "DataLoader(..., num_workers=" in fixes(said, "serial-loader")
    assert "background(" not in fixes(said, "serial-loader")


@pytest.mark.slow
def test_one_that_hardly_updates_leaves_the_training_to_torch(tmp_path: Path) -> None:
    said = report(tmp_path, input_ms=2.0, callback_ms=15.0, script="torch_alone.py")

    assert said["run"]["framework"].startswith("torch")
    assert said["run"]["step_boundary"] == "request for input"
    assert said["run"]["steps"] > 150
    assert shares(said)["output"] > 0.5


@pytest.mark.slow
def test_a_lever_of_the_loader_acts_where_another_framework_trains(tmp_path: Path) -> None:
    said = report(tmp_path, input_ms=15.0, callback_ms=0.0, script="fed_by_torch.py", options=("--with", "mock-loader"))

    assert max(note["effect"] for note in levers(tmp_path) if note["state"] == "effect") > 60
    assert shares(said)["preprocess"] + shares(said)["read"] < 0.4


@pytest.mark.slow
def test_a_lever_of_a_function_reaches_the_workers_that_feed_another_framework(tmp_path: Path) -> None:
    report(
        tmp_path, "workers", input_ms=15.0, callback_ms=0.0, script="fed_by_torch.py", options=("--with", "stub=__main__:Slow.__getitem__")
    )

    assert max(note["facts"]["calls_in_workers"] for note in levers(tmp_path) if note["state"] == "effect") > 0
