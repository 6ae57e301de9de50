"""The options of `slowstep prove`, and of the commands that write a report as it does."""

from __future__ import annotations

import os
import sys
from types import SimpleNamespace

import pytest
import typer

from slowstep.cli import commands, main
from slowstep.cli.bench import compute as bench_compute
from slowstep.cli.bench import data as bench_data
from slowstep.cli.prove import parse_precision, prove
from slowstep.cli.run import run
from slowstep.errors import BadUsage, CommandNotStarted, UnwritableOutput
from slowstep.workflow.prove_ended import Ended


@pytest.mark.parametrize(("text", "share"), [("5%", 0.05), ("5 %", 0.05), ("5", 0.05), ("2.5", 0.025), ("0.05%", 0.0005), (".5%", 0.005)])
def test_precision_is_in_percent_with_the_sign_or_without(text, share):
    assert parse_precision(text) == pytest.approx(share)


@pytest.mark.parametrize("text", ["0.05", ".05"])
def test_a_share_is_not_guessed_at(text):
    with pytest.raises(BadUsage, match=r"this may be 5% or 0.05%; say which, with the % sign"):
        parse_precision(text)


@pytest.mark.parametrize("text", ["0", "0%", "100%", "100", "-5%", "five", "", "%"])
def test_a_precision_that_cannot_be_meant_is_refused(text):
    with pytest.raises(BadUsage, match="give percent between 0 and 100, such as 5%"):
        parse_precision(text)


@pytest.fixture
def results(tmp_path, monkeypatch):
    """A file of the user's in the place of the report."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / "results.json").write_text("mine")
    return tmp_path / "results.json"


@pytest.mark.parametrize("command", [prove, bench_data, bench_compute])
def test_a_file_of_the_users_in_the_place_of_the_report_is_refused_before_anything_starts(results, command):
    with pytest.raises(UnwritableOutput, match=r"results\.json exists and is no report") as refused:
        command(["train.py"], budget="60s", json=str(results))

    assert refused.value.exit_code == 2
    assert (results.read_text(), os.listdir(results.parent)) == ("mine", ["results.json"])


def test_before_a_run_it_is_no_failure_of_the_command(results):
    with pytest.raises(CommandNotStarted, match=r"results\.json exists and is no report") as refused:
        run(["train.py"], json=str(results))

    assert refused.value.exit_code == CommandNotStarted.OWN_FAILURE


def _interrupted(*_: object, **__: object) -> None:
    raise KeyboardInterrupt


def test_ctrl_c_while_the_report_is_drawn_says_what_shows_it(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    ended = Ended(report={"run": {"recording": str(tmp_path / "runs" / "1")}}, ended_by="precision", exit_code=None)
    monkeypatch.setattr("slowstep.workflow.prove.prove", lambda *_: ended)
    monkeypatch.setattr("slowstep.report.terminal.show", _interrupted)

    with pytest.raises(typer.Exit) as left:
        prove(["train.py"], budget="60s")

    assert left.value.exit_code == 130
    assert capsys.readouterr().err.endswith("slowstep: the report was interrupted. The recording is kept: slowstep analyze runs/1\n")


def test_ctrl_c_while_the_report_of_a_bench_is_made_says_that_it_is_lost(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    measured = SimpleNamespace(ending=None, notes=["a note"], reason=None, code=0)
    monkeypatch.setattr("slowstep.workflow.bench.bench", lambda *_, **__: measured)
    monkeypatch.setattr("slowstep.workflow.bench_report.make_report", _interrupted)

    with pytest.raises(typer.Exit) as left:
        bench_data(["train.py"], budget="60s")

    assert left.value.exit_code == 130
    assert "the report was interrupted, and what was measured is lost" in capsys.readouterr().err


def test_ctrl_c_while_a_command_is_imported_shows_no_traceback(monkeypatch):
    monkeypatch.setattr(commands, "obey", _interrupted)
    monkeypatch.setattr(sys, "argv", ["slowstep", "prove", "train.py"])

    with pytest.raises(SystemExit) as left:
        main.main()

    assert left.value.code == 130
