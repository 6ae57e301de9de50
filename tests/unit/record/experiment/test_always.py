"""Levers that are on from the beginning: what is said of them, and that a training without them is left alone."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from few import few
from levered import TRAINING, run_always, run_planned, said, steps_of
from recorded import Server
from slowstep.record.writing import format as fmt

pytest.importorskip("torch")

THREADS = TRAINING + "train(lambda *_: print(torch.get_num_threads()))\n"


def test_a_lever_is_on_from_the_second_step_to_the_last(server: Server, tmp_path: Path) -> None:
    ran = run_always(server, tmp_path, THREADS, "threads=2")

    assert ran.out.split() == ["1"] + ["2"] * 23
    assert [note["state"] for note in ran.trainer.noted("lever") if note["arm"]] == ["ready", "on", "effect", "effect"]
    assert said(ran, "on") == [{"kind": "lever", "arm": 1, "name": "threads=2", "state": "on", "updates": 1}]
    # Said after the first step and after ten: the process may be killed before its end.
    assert [note["effect"] for note in said(ran, "effect")] == [1, 10]
    assert ran.trainer.faults == {}


def test_that_a_lever_has_acted_is_said_at_once(server: Server, tmp_path: Path) -> None:
    rare = (
        TRAINING
        + """
seen = []
def real(): return "as it is"
def other(): return "changed"
def look(*_):
    seen.append(None)
    if len(seen) == 55:
        print(real())
train(look, steps=60)
"""
    )
    ran = run_always(server, tmp_path, rare, "swap=__main__:real=__main__:other")

    assert ran.out.split() == ["changed"]
    # Ready after 30 looks: after its tenth step it has done nothing yet, and its hundredth is never made.
    assert [note["effect"] for note in said(ran, "effect")][:2] == [0, 1]


@pytest.mark.slow
def test_a_loop_without_a_loader_has_it_from_its_second_update_on(server: Server, tmp_path: Path) -> None:
    body = TRAINING.replace(
        "for inputs, targets in loader:", "for _ in range(steps):\n        inputs, targets = torch.randn(4, 16), torch.zeros(4, 1)"
    )
    ran = run_always(server, tmp_path, body + "train(lambda *_: print(torch.get_num_threads()))\n", "threads=2")

    assert ran.out.split() == ["1"] + ["2"] * 23


def test_levers_that_are_unknown_or_mean_nothing_leave_the_others_on(server: Server, tmp_path: Path) -> None:
    ran = run_always(server, tmp_path, THREADS, "no-such", "threads=1", "threads=2", "autocast:every=3")

    assert ran.out.split()[1:] == ["2"] * 23
    assert [(note["name"], note["reason"]) for note in said(ran, "not applicable")] == [
        ("no-such", "there is no lever 'no-such'"),
        ("threads=1", "operations use 1 thread already"),
    ]
    assert [note["name"] for note in said(ran, "on")] == ["threads=2", "autocast:every=3"]


@pytest.mark.parametrize("text", few(["{", '"threads"', '[{"no_such": 1}]', "[1]"], every=3))
def test_a_variable_that_says_nothing_of_use_changes_nothing(server: Server, tmp_path: Path, text: str) -> None:
    ran = run_always(server, tmp_path, THREADS, **{fmt.ENV_LEVERS: text})

    assert (ran.code, ran.out.split(), ran.trainer.faults) == (0, ["1"] * 24, {})


def test_a_plan_is_walked_beside_it(server: Server, tmp_path: Path) -> None:
    specs = json.dumps([{"name": "threads", "value": "2", "every": 1}])
    ran = run_planned(server, tmp_path, THREADS, blocks=(0,), steps=1000, **{fmt.ENV_LEVERS: specs})

    assert ran.out.split() == ["1"] + ["2"] * 23
    assert len(steps_of(ran, 0)) == 23


@pytest.mark.slow
def test_when_the_recording_ends_before_the_training_it_is_undone(server: Server, tmp_path: Path) -> None:
    ran = run_always(server, tmp_path, THREADS, "threads=2", **{fmt.ENV_STEPS: "8"})

    assert ran.out.split() == ["1"] + ["2"] * 7 + ["1"] * 16


def test_without_levers_and_experiment_nothing_is_hooked(server: Server, tmp_path: Path) -> None:
    names = TRAINING + (
        "from torch.optim import optimizer\n"
        "print(len(optimizer._global_optimizer_post_hooks), torch.utils.data.DataLoader.__iter__.__code__.co_filename)\n"
    )
    ran = run_always(server, tmp_path, names)
    (tmp_path / "with").mkdir()
    hooked = run_always(server, tmp_path / "with", names, "threads=2")

    assert ran.out.split()[0] == "1"
    assert ran.out.strip().endswith("inside/dataloader.py")
    assert hooked.out.split()[0] == "2"
    assert hooked.out.strip().endswith("inside/switch.py")
