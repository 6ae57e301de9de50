"""`slowstep run --with LEVER`: the training is changed because somebody asked for it, and the report says so."""

from __future__ import annotations

import json
from typing import Any

import pytest

from few import few
from launching import TRAINING, Ended, Workplace

pytest.importorskip("torch")

SCRIPT = TRAINING + "train(60)\nprint(torch.get_num_threads())\n"


def report_of(ended: Ended, work: Workplace) -> dict[str, Any]:
    assert ended.code == 0, ended.err
    report: dict[str, Any] = json.loads((work.recording() / "report.json").read_text())
    return report


@pytest.mark.slow
def test_a_lever_that_was_asked_for_is_on_and_the_report_says_that_results_are_others(work: Workplace) -> None:
    work.write("train.py", SCRIPT)

    ended = work.run("train.py", options=("--with", "threads=2"))

    notes = report_of(ended, work)["run"]["notes"]
    assert ended.out == "2\n"
    assert "threads=2 was on from step 2 on: times and results are not those of the script as it is" in notes
    assert "threads=2 was on from step 2" in ended.err


@pytest.mark.slow
def test_a_lever_that_does_not_apply_is_said_and_the_run_goes_on_without_it(work: Workplace) -> None:
    work.write("train.py", SCRIPT)

    plain, ended = work.both("train.py", options=("--with", "threads=1"))

    notes = report_of(ended, work)["run"]["notes"]
    assert (plain.code, plain.out, plain.files) == (ended.code, ended.out, ended.files)
    assert [note for note in notes if " on: " in note] == ["threads=1 was not on: not applicable, because operations use 1 thread already"]


@pytest.mark.nightly
@pytest.mark.slow
def test_without_it_nothing_is_said_of_levers(work: Workplace) -> None:
    work.write("train.py", SCRIPT)

    ended = work.run("train.py")

    assert not any("lever" in note or "was on" in note for note in report_of(ended, work)["run"].get("notes", []))
    assert ended.out == "1\n"


@pytest.mark.parametrize(
    ("lever", "message"),
    few(
        [
            ("threads:every=1", "every=K takes a whole number"),
            ("thread=2", "no lever is called 'thread'. Did you mean threads?"),
            ("threads=none", "give a number of threads, such as threads=4"),
            ("threads", "lever threads needs a value"),
        ],
        every=4,
    ),
)
def test_a_lever_that_cannot_be_meant_is_told_before_anything_is_started(work: Workplace, lever: str, message: str) -> None:
    work.write("train.py", SCRIPT)

    ended = work.run("train.py", options=("--with", lever))

    assert ended.code == 125
    assert message in " ".join(ended.err.split())
    assert ended.out == ""


@pytest.mark.parametrize("lever", ["checkpoint-off", "checkpoint-off:every=2"])
def test_a_lever_that_could_empty_the_users_files_is_refused_before_anything_is_started(work: Workplace, lever: str) -> None:
    work.write("train.py", SCRIPT + "torch.save(model.state_dict(), 'draft.pt')\nos.replace('draft.pt', 'latest.pt')\n")
    work.write("latest.pt", "weeks of training")

    ended = work.run("train.py", options=("--with", lever))

    assert ended.code == 125
    assert "could take the place of your own checkpoints" in " ".join(ended.err.split())
    assert f"slowstep prove --levers {lever} CMD" in " ".join(ended.err.split())
    assert (work.folder / "latest.pt").read_text() == "weeks of training"
    assert not work.runs.exists()
