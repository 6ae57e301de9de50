"""Which levers are compared by whole runs, in how many, and what is said before they begin."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import pytest

from slowstep.errors import NoSandbox
from slowstep.prove.rerun_levers import FOLDER, MOST_ROUNDS, RerunLevers, designed, places_of, steps_of
from slowstep.prove.sandbox.sandbox import Sandbox
from slowstep.prove.stats.design import FEWEST_PAIRS
from slowstep.reason_words import sentence
from slowstep.reasons import SAID
from slowstep.record.launching.command import Command

COMMAND = Command(words=("train.py",), path="/usr/bin/python", argv=("python", "train.py"), stem="train")
REFUSED = {"kind": "lever", "arm": 2, "name": "workers=2", "state": "not applicable", "reason": "read once only", "rerun": 77}


class Opened(Exception):
    """A sandbox was asked for: a run would begin."""


def report(*rows: dict[str, Any], startup_s: float | None = 2.0, steps_per_s: float = 20.0, every: int | None = None) -> dict[str, Any]:
    periodic = [{"name": "checkpoint", "every_steps": every, "share": 0.5}] if every else []
    return {
        "run": {"startup_s": startup_s, "periodic": periodic},
        "throughput": {"steps_per_s": steps_per_s},
        "findings": [],
        "experiments": list(rows or (row(),)),
    }


def row(lever: str = "workers=2", **more: Any) -> dict[str, Any]:
    return {"lever": lever, "state": "not applicable", "gain": None} | more


def compared(folder: Path, *, budget_s: float, opens: type[BaseException] = AssertionError) -> tuple[Any, list[str]]:
    said: list[str] = []

    def opened(place: Path) -> Sandbox:
        assert place.parent == folder / FOLDER
        raise opens("no room")

    return RerunLevers(COMMAND, os.environ, folder, opened, budget_s=budget_s, say=said.append)(report(), [REFUSED], 1), said


@pytest.mark.parametrize(
    ("of", "note"),
    [
        (row(), {**REFUSED, "rerun": None}),
        (row(state="measured"), REFUSED),
        (row(state="failed"), REFUSED),
        (row("threads=2"), REFUSED),
    ],
    ids=["no reason that a run overcomes", "measured", "failed", "another lever"],
)
def test_levers_that_need_no_runs_get_none(of: dict[str, Any], note: dict[str, Any]) -> None:
    assert places_of(report(of), [note]) == {}
    assert places_of(report(), [REFUSED]) == {"workers=2": 77}


def test_a_lever_that_refused_late_is_not_known_by_what_it_gained_until_then() -> None:
    assert places_of(report(row(gain={"value": 2.0})), [REFUSED]) == {"workers=2": 77}


def test_a_run_counts_some_seconds_of_steps_after_a_fifth_to_settle() -> None:
    # 4 s of 50 ms are 80 steps.
    assert steps_of(report()) == 100
    assert steps_of(report(steps_per_s=1.0)) == 40
    assert steps_of(report(steps_per_s=10_000.0)) == 500


def test_what_recurs_is_whole_in_a_run_unless_it_is_rarer_than_any_run_has_steps() -> None:
    assert steps_of(report(every=60)) == 150
    assert steps_of(report(every=1000)) == 100


# A run takes 2 + 100 / 20 = 7 s.
@pytest.mark.parametrize(
    ("allowed_s", "levers", "rounds", "control"),
    [
        (55.0, 0, 0, False),
        (56.0, 1, FEWEST_PAIRS, False),
        (70.0, 1, 5, False),
        (84.0, 2, FEWEST_PAIRS, False),
        (223.0, 2, MOST_ROUNDS, False),
        (224.0, 2, MOST_ROUNDS, True),
        (9000.0, 2, MOST_ROUNDS, True),
    ],
)
def test_as_much_is_compared_as_the_time_allows(allowed_s: float, levers: int, rounds: int, control: bool) -> None:
    design = designed(("workers=2", "prefetch=4"), report(), allowed_s)

    assert (len(design.levers), design.control) == (levers, control)
    assert not levers or design.rounds == rounds
    assert design.needed_s <= allowed_s or not levers


def test_the_time_that_runs_take_is_said_before_they_begin(tmp_path: Path) -> None:
    said: list[str] = []

    def opened(place: Path) -> Sandbox:
        assert len(said) >= 1
        raise Opened

    with pytest.raises(Opened):
        RerunLevers(COMMAND, os.environ, tmp_path, opened, budget_s=30.0, say=said.append)(report(), [REFUSED], 1)

    assert said[0] == (
        "Compares whole runs for workers=2, which cannot be switched in a running training. 4 rounds of 2 runs, 100 steps each: 56.0 s"
    )
    assert not (tmp_path / FOLDER).exists()


def test_runs_that_take_too_long_are_not_begun_and_say_how_long_they_would(tmp_path: Path) -> None:
    found, said = compared(tmp_path, budget_s=27.0)

    assert said == []
    assert found.levers["workers=2"].state == "unmeasured"
    assert sentence(found.levers["workers=2"].reason) == "8 runs take 56.0 s: give --budget 28s or more, and no other lever"


@pytest.mark.parametrize("error", [NoSandbox, OSError])
def test_a_run_that_cannot_be_made_spoils_nothing_else(tmp_path: Path, error: type[Exception]) -> None:
    found, _ = compared(tmp_path, budget_s=60.0, opens=error)

    lever = found.levers["workers=2"]
    assert (lever.state, lever.reason, found.interrupted) == ("unmeasured", SAID(said="no room"), False)


def test_ctrl_c_in_the_first_run_leaves_a_lever_without_result(tmp_path: Path) -> None:
    found, _ = compared(tmp_path, budget_s=60.0, opens=KeyboardInterrupt)

    assert found.interrupted
    assert (found.levers["workers=2"].state, found.levers["workers=2"].rounds) == ("unmeasured", 0)
    assert not (tmp_path / FOLDER).exists()
