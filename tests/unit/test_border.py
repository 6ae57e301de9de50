"""Whatever ends a command, the user reads one line and gets an exit code; what others named is shown as text and no more."""

from __future__ import annotations

import os
import re
import shlex
import stat
import subprocess
import sys
from pathlib import Path

import pytest

from kineto_files import event, kernel, launch, written
from slowstep.cli.border import ended_by
from slowstep.cli.run_report import RunReport
from slowstep.errors import CommandNotStarted, UnreadableInput
from slowstep.faults import FaultOf, of_recording
from slowstep.workflow.sessions.place import SessionPlace
from slowstep.workflow.sessions.session_report import SessionReport

COMMAND = (sys.executable, "-m", "slowstep")
FAILING = """
import slowstep.workflow.{module} as module
from slowstep.cli.main import main
def fails(*_, **__):
    raise ZeroDivisionError("made to fail")
assert hasattr(module, "{function}")
module.{function} = fails
main()
"""


@pytest.fixture
def environment(tmp_path, monkeypatch):
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    monkeypatch.delenv("SLOWSTEP_DEBUG", raising=False)
    return dict(os.environ)


@pytest.fixture
def trace(tmp_path):
    events = [event("ProfilerStep#1", 0, 1000, cat="user_annotation"), event("aten::mm", 10, 100), launch(20, 1), kernel(40, 400, 1)]
    return written(tmp_path, events)


def ended(words, environment, **more):
    return subprocess.run(
        words, env=environment, capture_output=True, text=True, errors="surrogateescape", timeout=120, check=False, **more
    )


@pytest.mark.parametrize(
    ("module", "function", "words"),
    [
        ("analyze", "examine", ["analyze", "made.json"]),
        pytest.param("prove", "prove", ["prove", "true"], marks=pytest.mark.slow),
        pytest.param("bench", "bench", ["bench", "data", "true"], marks=pytest.mark.slow),
    ],
)
def test_a_fault_in_a_command_is_one_line_and_a_private_log(trace, environment, tmp_path, module, function, words):
    done = ended([sys.executable, "-c", FAILING.format(module=module, function=function), *words], environment, cwd=tmp_path)

    assert done.returncode == 2
    (line,) = done.stderr.splitlines()
    assert line.startswith(f"slowstep: slowstep {words[0]} failed by a fault of slowstep's own (ZeroDivisionError: made to fail).")
    (log,) = (tmp_path / "cache" / "slowstep" / "errors").iterdir()
    assert str(log) in line
    assert stat.S_IMODE(log.stat().st_mode) == 0o600
    assert "Traceback" in log.read_text(encoding="utf-8")


@pytest.mark.slow
def test_a_traceback_is_shown_to_whoever_asks_for_it(trace, environment, tmp_path):
    words = [sys.executable, "-c", FAILING.format(module="analyze", function="examine"), "analyze", str(trace)]
    assert "Traceback" in ended(words, environment | {"SLOWSTEP_DEBUG": "1"}, cwd=tmp_path).stderr


def test_a_fault_before_the_command_starts_has_the_code_of_slowsteps_own_failure(capsys, environment):
    assert ended_by(ZeroDivisionError("made to fail"), ["run", "true"]) == CommandNotStarted.OWN_FAILURE
    assert capsys.readouterr().err.count("\n") == 1


def test_a_fault_in_what_was_recorded_names_the_recording_and_keeps_its_log_there(capsys, environment, tmp_path):
    with pytest.raises(FaultOf) as raised, of_recording(str(tmp_path)):
        raise ZeroDivisionError("made to fail")

    assert ended_by(raised.value, ["prove", "true"]) == 2

    said = capsys.readouterr().err
    assert "ZeroDivisionError: made to fail" in said
    assert "The recording is kept" in said
    assert "made to fail" in (tmp_path / "internal-error.log").read_text(encoding="utf-8")


def test_a_diagnosis_that_fails_after_a_run_is_one_line_and_its_log_lies_in_the_recording(capsys, tmp_path, monkeypatch):
    def fails(*_, **__):
        raise ZeroDivisionError("made to fail")

    monkeypatch.setattr("slowstep.workflow.diagnose_recordings.diagnose_all", fails)

    # A process that may have trained has written something.
    (tmp_path / "1-1.rec").touch()

    RunReport(warmup=None, json_target=None).show(tmp_path)

    (line,) = capsys.readouterr().err.splitlines()
    assert "ZeroDivisionError: made to fail" in line
    assert f"slowstep analyze {tmp_path}" in line
    assert (tmp_path / "internal-error.log").exists()


def test_a_session_whose_report_cannot_be_shown_goes_on(capsys, environment, monkeypatch):
    monkeypatch.setattr("slowstep.report.terminal.text_for", lambda *_, **__: 1 / 0)

    SessionReport(place=SessionPlace(), document={}).show()

    (line,) = capsys.readouterr().err.splitlines()
    assert "ZeroDivisionError" in line


def test_what_is_raised_on_purpose_passes_a_recording_unchanged(tmp_path):
    for error in (UnreadableInput("on purpose"), KeyboardInterrupt()):
        with pytest.raises(type(error)), of_recording(str(tmp_path)):
            raise error


@pytest.mark.slow
def test_an_export_that_fails_costs_nobody_the_report(trace, environment, tmp_path):
    words = [sys.executable, "-c", FAILING.format(module="export", function="export"), "analyze", str(trace), "--export", "parquet"]

    done = ended(words, environment, cwd=tmp_path)

    assert done.returncode == 2
    assert "made.json" in done.stdout
    assert "UNDETERMINED" in done.stdout
    assert len(done.stderr.splitlines()) == 1


@pytest.mark.slow
def test_what_is_said_where_standard_error_came_closed_is_not_said_on_standard_output(environment, tmp_path):
    words = f"{shlex.join(COMMAND)} analyze nothere 2>&-"

    done = subprocess.run(["sh", "-c", words], env=environment, cwd=tmp_path, stdout=subprocess.PIPE, text=True, check=False)

    assert (done.returncode, done.stdout) == (2, "")


@pytest.mark.skipif(not os.path.exists("/dev/full"), reason="needs /dev/full")
@pytest.mark.parametrize("more", [[], pytest.param(["--json", "-"], marks=pytest.mark.slow)])
def test_an_output_without_room_is_one_line(trace, environment, more):
    with open("/dev/full", "w") as full:
        done = subprocess.run(
            [*COMMAND, "analyze", str(trace), *more], env=environment, stdout=full, stderr=subprocess.PIPE, text=True, check=False
        )
    assert done.returncode == 2
    assert len(done.stderr.splitlines()) == 1
    assert "No space left" in done.stderr


@pytest.mark.slow
def test_a_reader_that_goes_away_leaves_nothing_to_read(trace, environment):
    reading, writing = os.pipe()
    os.close(reading)
    done = subprocess.run(
        [*COMMAND, "analyze", str(trace)], env=environment, stdout=writing, stderr=subprocess.PIPE, text=True, check=False
    )
    os.close(writing)
    assert done.stderr == ""


def test_ctrl_c_in_a_command_is_told_by_the_exit_code_alone(capsys, environment):
    assert ended_by(KeyboardInterrupt(), ["analyze", "trace.json"]) == 130
    assert capsys.readouterr().err == ""


@pytest.mark.slow
def test_so_it_is_of_a_whole_command(environment, tmp_path):
    text = FAILING.format(module="analyze", function="examine").replace('ZeroDivisionError("made to fail")', "KeyboardInterrupt")

    done = ended([sys.executable, "-c", text, "analyze", str(tmp_path)], environment, cwd=tmp_path)

    assert (done.returncode, done.stderr) == (130, "")


def test_a_name_that_a_terminal_would_obey_is_shown_as_text(capsys, environment):
    name = "\x1b[31m\u202e\u2066\x07\x9b\nbreak\u200e.json"

    assert ended_by(UnreadableInput(f"{name} does not exist."), ["analyze", name]) == 2

    said = capsys.readouterr().err
    assert re.search("[\x00-\x09\x0b-\x1f\x7f-\x9f\u200e\u202e\u2066]", said) is None
    assert "\\x1b[31m\\u202e\\u2066\\x07\\x9b" in said


@pytest.mark.slow
def test_an_argument_that_a_terminal_would_obey_is_shown_as_text(environment, tmp_path):
    done = ended([*COMMAND, "run", sys.executable, "-S", "-c", "pass", "\x1b]0;x\x07\u202e"], environment, cwd=tmp_path)
    assert done.returncode == 0
    assert "\x1b" not in done.stderr
    assert "\u202e" not in done.stderr


@pytest.mark.slow
def test_a_name_that_is_not_utf8_is_shown_by_its_bytes(environment, tmp_path):
    done = ended([*COMMAND, "analyze", b"\xfcber.json"], environment, cwd=tmp_path)
    assert done.returncode == 2
    assert "\\xfcber.json" in done.stderr
    assert not list(Path(tmp_path).glob("cache/slowstep/errors/*"))
