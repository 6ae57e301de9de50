from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from few import few
from made_ranks import make_job
from made_recordings import Training, make_recording
from slowstep.workflow.diagnose_recordings import diagnose_recording


def _run_after(folder: Path, signals: list[str], code: int, by: str, training: Training | None = None) -> dict[str, Any]:
    recording = make_recording(folder / "recording", training or Training())
    with (recording / "launcher.jsonl").open("a") as notes:
        notes.write(json.dumps({"kind": "exit", "code": code, "ended_ns": 1, "by": by, "signals": signals}) + "\n")
    run: dict[str, Any] = diagnose_recording(recording)["run"]
    return run


def _report_after(folder: Path, signals: list[str], code: int = 130, by: str = "slowstep --stop") -> list[str]:
    return list(_run_after(folder, signals, code, by).get("notes", ()))


@pytest.mark.parametrize(
    ("signals", "said"),
    few(
        [
            (["SIGINT"], "the script's own clean-up ran"),
            (["SIGINT", "SIGTERM"], "its own clean-up may not have run"),
            (["SIGINT", "SIGTERM", "SIGKILL"], "its own clean-up may not have run"),
        ],
        every=3,
    ),
    ids=["heeded", "had to be ended", "had to be killed"],
)
def test_the_report_says_how_a_stopped_training_ended(tmp_path, signals, said):
    (note,) = _report_after(tmp_path, signals)

    assert "--stop" in note
    assert said in note


def test_a_training_that_an_experiment_threw_away_was_not_stopped(tmp_path):
    assert not _report_after(tmp_path, ["SIGKILL"], 137)


@pytest.mark.parametrize(
    ("code", "said"),
    few(
        [(1, "exit code 1:"), (137, "exit code 137 (SIGKILL, as where memory runs out)"), (130, "130 (SIGINT)"), (250, "exit code 250:")],
        every=3,
    ),
    ids=["an exception", "killed", "Ctrl-C", "a code of its own"],
)
def test_the_report_says_that_a_training_ended_with_an_error_or_by_a_signal(tmp_path, code, said):
    (note,) = _report_after(tmp_path, [], code, "script")

    assert said in note


def test_a_training_that_ended_well_is_not_remarked_on(tmp_path):
    assert _report_after(tmp_path, [], 0, "script") == []


@pytest.mark.parametrize(
    ("code", "fails"),
    [(1, "1"), (139, "139 (SIGSEGV)"), (134, "134 (SIGABRT)"), (0, None), (130, None), (137, None)],
    ids=["an exception", "a fault", "an abort", "well", "Ctrl-C", "killed"],
)
def test_what_failed_is_to_be_mended_before_it_is_run_again(tmp_path, code, fails):
    run = _run_after(tmp_path, [], code, "script", Training(steps=24, nodes=500, loader=False))

    told = run.get("before_next", "")
    assert told.endswith(f"fix the script's own error: it ended with exit code {fails}") if fails else "error" not in told


def _add(folder: Path, name: str, *notes: dict[str, Any]) -> None:
    with (folder / name).open("a") as file:
        file.writelines(json.dumps(note) + "\n" for note in notes)


@pytest.mark.parametrize(
    ("raised", "received", "interrupted"),
    [({"by": "KeyboardInterrupt"}, [], True), (None, ["SIGINT"], True), (None, [], False)],
    ids=["the framework caught it", "Ctrl-C reached slowstep", "an error"],
)
def test_who_catches_an_interrupt_and_leaves_as_after_an_error_has_none_to_mend(tmp_path, raised, received, interrupted):
    recording = make_recording(tmp_path / "recording", Training(steps=24, nodes=500, loader=False))
    said = [{"kind": "interrupted", **raised}] if raised else []
    _add(recording, "100-1.jsonl", *said, {"kind": "end", "reason": "exit", "ended_ns": 5})
    _add(recording, "launcher.jsonl", {"kind": "exit", "code": 1, "ended_ns": 9, "by": "script", "signals": [], "received": received})

    run = diagnose_recording(recording)["run"]

    assert any("was interrupted" in note for note in run["notes"]) == interrupted
    assert ("fix the script's own error" in run.get("before_next", "")) != interrupted


def _exit(ns: int, raised: str | None) -> dict[str, Any]:
    return {"kind": "end", "reason": "exit", "ended_ns": ns, **({"raised": raised} if raised else {})}


@pytest.mark.parametrize(
    ("ends", "said"),
    few(
        [
            (
                [_exit(9, "RuntimeError"), _exit(5, "ValueError")],
                "fix the script's own error: ValueError in rank 1 ended the job, with exit code 1",
            ),
            ([_exit(9, "RuntimeError"), None], "find out what ended the job with exit code 1 (rank 0 raised RuntimeError; another one may"),
            ([None, None], "find out what ended the job with exit code 1"),
            (
                [_exit(9, "RuntimeError"), _exit(5, None)],
                "find out what ended the job with exit code 1 (rank 0 raised RuntimeError; another one",
            ),
            ([_exit(9, "RuntimeError"), _exit(5, "KeyboardInterrupt")], None),
        ],
        every=4,
    ),
    ids=["one failed", "one was killed", "all were killed", "one left", "one was interrupted"],
)
def test_a_job_of_ranks_that_failed_says_what_ended_it(tmp_path, ends, said):
    recording = make_job(tmp_path, [4.0, 12.0])
    for file, end in zip(sorted(recording.glob("1*.jsonl")), ends, strict=True):
        kept = [line for line in file.read_text().splitlines() if '"end"' not in line]
        file.write_text("\n".join([*kept, *([json.dumps(end)] if end else [])]) + "\n")
    _add(recording, "launcher.jsonl", {"kind": "exit", "code": 1, "ended_ns": 10, "by": "script", "signals": []})

    first = diagnose_recording(recording)["run"].get("before_next")

    assert first is None if said is None else first.startswith(said)
