"""`slowstep prove --patch FILE`: refused before anything starts where the file cannot be new, and written for a proved change alone."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import pytest
import typer

from slowstep.cli.prove import check_patch_target, prove, write_patch
from slowstep.errors import BadUsage, UnwritableOutput
from slowstep.prove.patch.change import NOT_SEEN, ScriptChange
from slowstep.workflow.prove_ended import NOT_TRUSTED, NOTHING_PROVED, Ended

CHANGE = ScriptChange(place="train.py:3", text="DataLoader(..., num_workers=2)", difference=b"the difference", folder="/elsewhere/b c")


@pytest.mark.parametrize("name", ["train.py", ".", "folder", "folder/", "-", "missing/fix.patch", "link", "locked/fix.patch"])
def test_a_file_that_is_there_or_cannot_be_is_refused_before_the_experiment(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("train.py").write_text("mine")
    Path("folder").mkdir()
    Path("link").symlink_to("nowhere")
    Path("locked").mkdir()
    # Whoever runs the tests may be allowed to write anywhere.
    monkeypatch.setattr(os, "access", lambda path, mode: Path(path).name != "locked")
    monkeypatch.setattr("slowstep.workflow.prove.prove", lambda *_: pytest.fail("it has started"))

    with pytest.raises(BadUsage, match="--patch"):
        prove(["train.py"], budget="60s", patch=name)
    assert Path("train.py").read_text() == "mine"


def test_a_file_that_is_new_may_be_written(tmp_path: Path) -> None:
    check_patch_target(str(tmp_path / "fix.patch"))
    check_patch_target(None)


def test_it_is_written_and_the_commands_that_apply_it_are_said(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)

    said = write_patch("fix.patch", CHANGE)

    assert Path("fix.patch").read_bytes() == b"the difference"
    assert "patch -p0 -d '/elsewhere/b c' < fix.patch " in said[1]
    assert f"git -C '/elsewhere/b c' apply -p0 {tmp_path}/fix.patch;" in said[1]


def test_a_file_that_is_there_by_then_is_not_written_over(tmp_path: Path) -> None:
    (tmp_path / "fix.patch").write_text("mine")

    with pytest.raises(UnwritableOutput, match=r"fix\.patch cannot be written"):
        write_patch(str(tmp_path / "fix.patch"), CHANGE)
    assert (tmp_path / "fix.patch").read_text() == "mine"


def report_of(outcome: Any, *, trustworthy: bool = True) -> Any:
    experiment = {"trustworthy": trustworthy, "outcome": outcome, "ended_by": "precision"}
    return {"run": {"experiment": experiment}, "experiments": [], "verdict": {"state": "healthy"}}


@pytest.mark.parametrize(
    ("report", "changes", "reason"),
    [
        (None, {}, NOTHING_PROVED),
        (report_of(None), {"workers=2": CHANGE}, NOTHING_PROVED),
        (report_of(None, trustworthy=False), {"workers=2": CHANGE}, NOT_TRUSTED),
        (report_of({"lever": "workers=2"}), {"workers=4": CHANGE}, NOT_SEEN),
        (report_of({"lever": "workers=2"}), {"workers=2": ScriptChange(reason="of something")}, "of something"),
    ],
)
def test_without_a_proved_change_nothing_is_written_and_it_is_said_why(tmp_path: Path, report: Any, changes: Any, reason: str) -> None:
    ended = Ended(report=report, ended_by="precision", exit_code=None, changes=changes)

    assert write_patch(str(tmp_path / "fix.patch"), ended.change) == [f"slowstep: no patch: {reason}"]
    assert os.listdir(tmp_path) == []


def test_the_command_writes_the_change_that_was_proved(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    ended = Ended(report=report_of({"lever": "workers=2"}), ended_by="precision", exit_code=None, changes={"workers=2": CHANGE})
    monkeypatch.setattr("slowstep.workflow.prove.prove", lambda *_: ended)
    monkeypatch.setattr("slowstep.report.terminal.show", lambda *_: None)

    with pytest.raises(typer.Exit) as left:
        prove(["train.py"], budget="60s", patch="fix.patch")

    assert left.value.exit_code == 0
    assert Path("fix.patch").read_bytes() == b"the difference"
