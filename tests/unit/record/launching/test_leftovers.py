"""What a killed launcher leaves in its recording is taken away later, and never from under anybody who lives."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from pathlib import Path

import pytest

from slowstep.record.injection.inject import write_injection
from slowstep.record.launching.folder import create_folder
from slowstep.record.launching.leftovers import QUIET_S, remove_leftovers
from slowstep.record.system.facts import process_line
from slowstep.record.writing import format as contract

HERE = process_line({"role": "launcher"}, level=1, started_ns=0)


@pytest.fixture(scope="module")
def dead() -> int:
    """The number of a process that has ended."""
    process = subprocess.Popen([sys.executable, "-c", ""])
    process.wait()
    return process.pid


def left_behind(folder: Path, pid: int, **launcher: object) -> Path:
    folder.mkdir(parents=True)
    write_injection(str(folder))
    (folder / contract.CONTROL_FILE).write_bytes(bytes(contract.CONTROL_BYTES))
    (folder / "launcher.jsonl").write_text(json.dumps({**HERE, "pid": pid, **launcher}) + "\n")
    return folder


def grow_old(folder: Path) -> None:
    long_ago = time.time() - 2 * QUIET_S
    for file in folder.iterdir():
        os.utime(file, (long_ago, long_ago))


def leftovers(folder: Path) -> set[str]:
    return {"inject", "control"} & {file.name for file in folder.iterdir()}


def test_of_a_dead_launcher_they_are_removed_and_the_recording_stays(tmp_path: Path, dead: int) -> None:
    folder = left_behind(tmp_path / "run", dead)

    assert remove_leftovers(str(folder))

    assert [file.name for file in folder.iterdir()] == ["launcher.jsonl"]
    assert not remove_leftovers(str(folder))


def test_a_launcher_that_lives_keeps_them(tmp_path: Path) -> None:
    folder = left_behind(tmp_path / "run", os.getpid())

    assert not remove_leftovers(str(folder))

    assert leftovers(folder) == {"inject", "control"}


def test_a_recorded_process_that_lives_keeps_them(tmp_path: Path, dead: int) -> None:
    folder = left_behind(tmp_path / "run", dead)
    (folder / f"{os.getpid()}-1f.jsonl").touch()

    assert not remove_leftovers(str(folder))


def test_a_process_that_was_started_with_the_recording_keeps_them(tmp_path: Path, dead: int) -> None:
    folder = left_behind(tmp_path / "run", dead)
    sleeper = subprocess.Popen(["sleep", "60"], env={contract.ENV_RECORDING: str(folder), "PATH": os.environ["PATH"]})

    try:
        assert not remove_leftovers(str(folder))
    finally:
        sleeper.kill()
        sleeper.wait()
    assert remove_leftovers(str(folder))


@pytest.mark.parametrize("name", ["2nd.jsonl", "12a-1f.jsonl", "\u00b2-1f.jsonl", f"{'9' * 5000}-1f.jsonl"[-240:]])
def test_a_file_of_somebody_else_in_a_recording_stops_no_later_run(tmp_path: Path, dead: int, name: str) -> None:
    folder = left_behind(tmp_path / "run", dead)
    (folder / name).touch()

    create_folder(parent=str(tmp_path), stem="train")

    assert leftovers(folder) == set()


@pytest.mark.parametrize("elsewhere", [{"boot_id": "another machine"}, {"process_ids": "pid:[another container]"}, {"process_ids": None}])
def test_whose_processes_cannot_be_seen_keeps_them_until_it_was_quiet_for_long(
    tmp_path: Path, dead: int, elsewhere: dict[str, str | None]
) -> None:
    folder = left_behind(tmp_path / "run", dead, **elsewhere)

    assert not remove_leftovers(str(folder))
    grow_old(folder)
    assert remove_leftovers(str(folder))


def test_a_folder_of_the_users_is_left_alone(tmp_path: Path) -> None:
    (tmp_path / "inject").mkdir()
    (tmp_path / "control").touch()

    assert not remove_leftovers(str(tmp_path))

    assert leftovers(tmp_path) == {"inject", "control"}


def test_the_next_recording_beside_it_removes_them(tmp_path: Path, dead: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    killed = left_behind(tmp_path / "slowstep_runs" / "killed", dead)
    living = left_behind(tmp_path / "slowstep_runs" / "living", os.getpid())

    create_folder(parent=None, stem="train")

    assert leftovers(killed) == set()
    assert leftovers(living) == {"inject", "control"}


def test_they_are_removed_from_later_starts_of_a_script_as_well(tmp_path: Path, dead: int) -> None:
    later = left_behind(tmp_path / "run" / contract.LATER_STARTS_FOLDER / "2", dead)

    create_folder(parent=str(tmp_path), stem="next")

    assert leftovers(later) == set()
