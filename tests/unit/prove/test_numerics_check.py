from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from slowstep.frameworks._known import all_words
from slowstep.prove import claims_check
from slowstep.prove.numerics_check import RUNS, RUNS_FOLDER, STEPS, Checked, NumericsCheck
from slowstep.prove.sandbox.sandbox import Sandbox
from slowstep.prove.seen_losses import NEVER, why_never
from slowstep.prove.stats.losses import UpdateLosses
from slowstep.prove.whole_run import Ran, RunRequest, WholeRunState
from slowstep.record.launching.command import Command

COMMAND = Command(words=("train.py",), path="/usr/bin/python", argv=("python", "train.py"), stem="train")


class Opened(Exception):
    """A sandbox was asked for: a run would begin."""


def report(*rows: dict[str, Any], startup_s: float | None = 2.0, steps_per_s: float = 10.0) -> dict[str, Any]:
    return {"run": {"startup_s": startup_s}, "throughput": {"steps_per_s": steps_per_s}, "findings": [], "experiments": list(rows)}


def row(lever: str = "autocast=bf16", changes: tuple[str, ...] = ("numerics",), **more: Any) -> dict[str, Any]:
    return {"lever": lever, "state": "measured", "verdict": "proved", "changes": list(changes)} | more


def checked(folder: Path, of: dict[str, Any], *, budget_s: float, opens: BaseException | None = None) -> tuple[Checked, list[str]]:
    said: list[str] = []

    def opened(place: Path) -> Sandbox:
        raise opens or AssertionError("no run is to be made")

    check = NumericsCheck(COMMAND, os.environ, folder, opened, budget_s=budget_s, say=said.append)
    return check(of), said


@pytest.mark.parametrize(
    "of",
    [
        row(changes=()),
        row(changes=("numerics", "order")),
        row(state="not applicable"),
        row(state="failed"),
        row(verdict="refuted"),
    ],
)
def test_levers_that_need_no_comparison_get_none(tmp_path, of):
    assert checked(tmp_path, report(of), budget_s=1000) == (Checked(by_lever={}), [])


def test_a_comparison_that_takes_too_long_says_how_long_it_would(tmp_path):
    found, said = checked(tmp_path, report(row()), budget_s=30)

    needed_s = RUNS * (2.0 + STEPS / 10.0)
    assert found.by_lever == {
        "autocast=bf16": {
            "says": f"losses not compared: it takes 6 runs of {STEPS} steps, 1.3 min; give --budget {needed_s / 2:.0f}s or more",
            "needed_budget_s": round(needed_s / 2),
        }
    }
    assert said == []


def test_the_time_that_runs_take_is_said_before_they_begin(tmp_path):
    said: list[str] = []

    def opened(place: Path) -> Sandbox:
        assert place.parent == tmp_path / RUNS_FOLDER
        raise Opened

    check = NumericsCheck(COMMAND, os.environ, tmp_path, opened, budget_s=60, say=said.append)
    with pytest.raises(Opened):
        check(report(row()))

    assert said == [
        f"Compares the losses with and without autocast=bf16: 6 runs of {STEPS} steps, 1.3 min",
        "losses with and without autocast=bf16: pair 1 of 3, about 80 s left",
    ]
    assert not (tmp_path / RUNS_FOLDER).exists()


def test_ctrl_c_leaves_out_the_rest_and_each_of_it_says_so(tmp_path):
    found, _ = checked(tmp_path, report(row(), row("swap=m:f=m:g"), row(changes=())), budget_s=60, opens=KeyboardInterrupt())

    assert found.interrupted
    assert found.by_lever == {lever: {"says": "losses not compared: interrupted"} for lever in ("autocast=bf16", "swap=m:f=m:g")}


def recorded(folder: Path, *facts: dict[str, Any]) -> None:
    lines = [json.dumps({"kind": "facts", **each}) for each in facts]
    (folder / "12-ab.jsonl").write_text("".join(f"{line}\n" for line in lines))


def test_no_run_is_made_where_nothing_that_trains_tells_its_losses(tmp_path):
    recorded(tmp_path, {"framework": "keras", "losses": False, "computes_with": "jax"})

    found, said = checked(tmp_path, report(row("swap=m:f=m:g")), budget_s=60)

    assert (list(found.by_lever), said) == (["swap=m:f=m:g"], [])
    reason = why_never(tmp_path)
    assert reason == NEVER(why=all_words()["jax"].no_losses)


@pytest.mark.parametrize(
    "facts",
    [
        (),
        ({"framework": "torch", "losses": True},),
        ({"framework": "jax", "losses": False}, {"framework": "torch", "losses": True}),
        # Of one that has said it since.
        ({"framework": "keras", "losses": False}, {"framework": "keras", "losses": True}),
        # Of an older version.
        ({"framework": "jax"},),
    ],
)
def test_losses_may_be_seen_where(tmp_path, facts):
    recorded(tmp_path, *facts)

    assert why_never(tmp_path) is None


def workers(**more: Any) -> dict[str, Any]:
    return row("workers=2", ("demand", "order"), **more)


@pytest.mark.parametrize(
    ("of", "place"),
    [
        (workers(), None),
        (workers(verdict="refuted"), 7),
        (row("constant-batch", ("order",)), 7),
        (row("batch-size=8", ("demand", "numerics", "order")), 7),
    ],
)
def test_only_a_proved_lever_that_changes_how_batches_come_is_held_to_its_claim(tmp_path, of, place):
    check = NumericsCheck(COMMAND, os.environ, tmp_path, lambda _: pytest.fail("no run is to be made"), budget_s=1000, say=lambda _: None)

    assert check(report(of), place) == Checked(by_lever={})


def test_where_the_budget_has_no_room_it_is_said_that_a_claim_was_not_compared(tmp_path):
    check = NumericsCheck(COMMAND, os.environ, tmp_path, lambda _: pytest.fail("no run is to be made"), budget_s=15, say=lambda _: None)

    found = check(report(workers()), 7).by_lever["workers=2"]

    assert found.keys() == {"says"}
    assert f"3 runs of {STEPS} steps, 39.0 s; --budget 20s has room for it" in found["says"]


def test_runs_of_a_claim_build_the_loader_with_the_lever_and_have_one_seed(tmp_path, monkeypatch):
    losses = UpdateLosses(loss=np.ones(STEPS), passes=np.ones(STEPS, np.int64), inputs=np.arange(1, STEPS + 1))
    asked: list[RunRequest] = []

    def run_once(make: Any, request: RunRequest, limits: Any) -> Ran:
        asked.append(request)
        is_refused = request.levers and request.levers[0].value == "4"
        state = WholeRunState.NOT_APPLICABLE if is_refused else WholeRunState.DONE
        return Ran(asked=request, state=state, seconds=1.0, losses=losses)

    monkeypatch.setattr(claims_check, "run_once", run_once)
    check = NumericsCheck(COMMAND, os.environ, tmp_path, lambda _: pytest.fail("no sandbox"), budget_s=60, say=lambda _: None)

    found = check(report(workers(), row("workers=4", ("order",))), 7).by_lever

    assert [(len(each.levers), each.loader, each.seed_offset, each.losses) for each in asked] == [
        (0, None, 0, True), (0, None, 0, True), (1, 7, 0, True), (1, 7, 0, True),
    ]  # fmt: skip
    assert (found["workers=2"]["bitwise_equal"], found["workers=2"]["same_input"]) == (True, True)
    assert found["workers=4"] == {"says": "input and losses could not be compared: not applicable"}


def test_ctrl_c_leaves_out_claims_too(tmp_path):
    def opened(place: Path) -> Sandbox:
        raise KeyboardInterrupt

    check = NumericsCheck(COMMAND, os.environ, tmp_path, opened, budget_s=60, say=lambda _: None)

    assert check(report(workers()), 7) == Checked(by_lever={"workers=2": {"says": "losses not compared: interrupted"}}, interrupted=True)
