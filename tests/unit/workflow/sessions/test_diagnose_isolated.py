from __future__ import annotations

import json
import sys

import pytest

from made_events import Events
from made_recordings import Training, make_recording
from slowstep.errors import NothingRecorded, SlowstepError, UnreadableInput
from slowstep.workflow.diagnose_recordings import diagnose_recording
from slowstep.workflow.sessions.diagnose_isolated import diagnose_in_subprocess


@pytest.mark.slow
def test_the_report_is_the_same_and_is_kept(tmp_path):
    folder = make_recording(tmp_path, Training(after_ms=5))

    report = diagnose_in_subprocess(folder, warmup=7)

    assert report == json.loads(json.dumps(diagnose_recording(folder, warmup=7)))
    assert json.loads((folder / "report.json").read_text()) == report


@pytest.mark.slow
def test_what_cannot_be_diagnosed_is_the_same_error(tmp_path):
    events = Events(tmp_path)
    events.update(9, 10)
    folder = events.close()

    with pytest.raises(NothingRecorded, match="only 1 update"):
        diagnose_in_subprocess(folder)
    with pytest.raises(SlowstepError, match="does not exist"):
        diagnose_in_subprocess(folder / "gone")


def test_a_python_that_cannot_be_started_is_said(tmp_path, monkeypatch):
    monkeypatch.setattr(sys, "executable", str(tmp_path / "gone"))

    with pytest.raises(UnreadableInput, match="gone"):
        diagnose_in_subprocess(tmp_path)


@pytest.mark.slow
def test_a_file_of_the_users_takes_no_librarys_place(tmp_path, monkeypatch):
    (tmp_path / "polars.py").write_text("raise SystemError('not mine')")
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(str(tmp_path))
    monkeypatch.setenv("PYTHONPATH", str(tmp_path))

    report = diagnose_in_subprocess(make_recording(tmp_path / "run", Training()))

    assert report["schema"] == "slowstep/report/1"
