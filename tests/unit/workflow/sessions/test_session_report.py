"""How the report of a session shows itself, and what is printed of it afterwards."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from slowstep.workflow.sessions.place import SessionPlace
from slowstep.workflow.sessions.session_report import SessionReport

REPORTS = Path(__file__).parents[3] / "data" / "reports"


def session_report(folder: Path, **verdict: object) -> SessionReport:
    document = json.loads((REPORTS / "healthy.json").read_text())
    document["verdict"] |= verdict
    return SessionReport(place=SessionPlace(), document=document, folder=folder)


def test_printed_after_it_was_shown_it_is_one_line_that_says_where_the_report_is(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    report = session_report(tmp_path / "slowstep_runs" / "1")

    report.show()
    print(report)

    out, err = capsys.readouterr()
    assert "where a step's time goes" in err
    assert out.startswith("slowstep: healthy: Nothing outside the model")
    assert out.endswith("(the whole report: .show(), or slowstep analyze slowstep_runs/1; as a dict: .document)\n")
    assert out.count("\n") == 1


def test_as_a_value_it_is_the_whole_report_before_and_after(tmp_path, capsys):
    report = session_report(tmp_path)

    assert str(report) == repr(report)
    report.show()

    assert capsys.readouterr().err.splitlines() == repr(report).splitlines()


@pytest.mark.parametrize(
    ("verdict", "line"),
    [
        ({"state": "bottleneck", "rule": "slow-item", "summary": "one item takes long"}, "bottleneck: slow-item: one item takes long"),
        ({"state": "undetermined", "rule": None, "summary": "undetermined, because few"}, "undetermined, because few"),
    ],
)
def test_the_line_says_the_verdict(tmp_path, verdict, line):
    report = session_report(tmp_path, **verdict)

    report.show()

    assert str(report).startswith(f"slowstep: {line} (")


def test_without_a_report_the_reason_is_not_said_twice(capsys):
    report = SessionReport(place=SessionPlace(), message="slowstep: no training was seen.")
    assert str(report) == report.message

    report.show()

    assert capsys.readouterr().err == f"{report.message}\n"
    assert str(report) == "slowstep: there is no report (.message says why)"
    assert repr(report) == report.message


def test_all_of_it_is_shown_where_it_is_asked_for_later(tmp_path, capsys):
    report = session_report(tmp_path)

    report.show()
    short = capsys.readouterr().err
    report.show(verbose=True)

    assert ("Overhead" in short, "Overhead" in capsys.readouterr().err) == (False, True)


def test_commands_of_a_shell_have_its_prompt_in_ipython(tmp_path):
    place = SessionPlace()
    place.shell = object()
    document = json.loads((REPORTS / "bottleneck.json").read_text())

    shown = SessionReport(place=place, document=document, folder=tmp_path)._repr_mimebundle_()

    assert "Next        !slowstep explain serial-loader" in shown["text/plain"]
