"""A plan that is a task: done once at a boundary, told in notes, and ended by the next plan."""

from __future__ import annotations

import json
import os
import threading
import time
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from recorded import make_folder, only
from slowstep.record.experiment import tasks
from slowstep.record.experiment.switch import Switch
from slowstep.record.recorder import Recorder
from slowstep.record.writing import format as contract


class Iterator:
    """What stands for a loader's iterator: it can be referred to weakly."""


@pytest.fixture
def recorder(tmp_path: Path) -> Any:
    recorder = Recorder(make_folder(tmp_path / "recording"))
    recorder.experiment = True
    yield recorder
    recorder.stop("test")


@pytest.fixture
def task(monkeypatch: pytest.MonkeyPatch) -> Any:
    """A task `probe` that does what the test puts into `do`."""
    seen: list[Any] = []
    holder = SimpleNamespace(seen=seen, do=lambda training, arguments: seen.append(arguments))
    probe = tasks.TaskImplementation(name="probe", run=lambda training, arguments: holder.do(training, arguments))
    monkeypatch.setattr(tasks, "find_by_folder", lambda *asked: {"torch": probe} if "probe" in asked else {})
    monkeypatch.setattr(tasks, "is_imported", lambda framework: framework.name == "torch")
    monkeypatch.setattr(tasks, "HELD_NS", 50_000_000)
    return holder


def post(recorder: Recorder, plan: dict[str, Any]) -> None:
    (Path(recorder.folder) / contract.PLAN_FILE).write_text(json.dumps(plan))
    recorder.page.bytes[contract.CONTROL_PLAN] = contract.PLAN_POSTED


def step(switch: Switch, iterator: Iterator, optimizer: Any) -> None:
    switch.requested(iterator)
    switch.received(iterator, 4, 0)
    switch.updated(optimizer)


def trained(recorder: Recorder, steps: int = 3) -> tuple[Switch, Iterator, Any]:
    switch, iterator, optimizer = Switch(recorder), Iterator(), Iterator()
    for _ in range(steps):
        step(switch, iterator, optimizer)
    return switch, iterator, optimizer


def ends(recorder: Recorder) -> list[dict[str, Any]]:
    return [note for note in only(recorder.folder).noted("task") if note["part"] == "end"]


@pytest.mark.parametrize(("process", "runs"), [(os.getpid(), 1), (1, 0), (None, 1)], ids=["this", "another", "any"])
def test_a_plan_is_walked_by_the_process_that_it_is_for(recorder: Recorder, task: Any, process: int | None, runs: int):
    switch, iterator, optimizer = trained(recorder)

    post(recorder, {"task": "probe", "arms": [], "blocks": [], "process": process})
    for _ in range(3):
        step(switch, iterator, optimizer)

    assert len(task.seen) == runs
    assert (recorder.page.bytes[contract.CONTROL_PLAN] == contract.PLAN_POSTED) == (not runs)


def test_a_task_is_run_once_with_its_arguments(recorder: Recorder, task: Any):
    switch, iterator, optimizer = trained(recorder)

    post(recorder, {"task": "probe", "arguments": {"seconds": 3}, "arms": [], "blocks": []})
    for _ in range(3):
        step(switch, iterator, optimizer)

    assert task.seen == [{"seconds": 3}]
    assert recorder.page.bytes[contract.CONTROL_PLAN] == contract.PLAN_DONE
    assert [end["state"] for end in ends(recorder)] == ["done"]


def test_a_task_is_that_of_the_framework_whose_loader_feeds_the_training(recorder: Recorder, task: Any, monkeypatch: pytest.MonkeyPatch):
    of_trainer, of_loader = tasks.known_frameworks()[:2]
    probes = {each.name: tasks.TaskImplementation(name=each.name, run=lambda *_: None) for each in (of_trainer, of_loader)}
    monkeypatch.setattr(tasks, "find_by_folder", lambda *_: probes)
    monkeypatch.setattr(tasks, "is_imported", lambda _: True)
    training, fed_by = SimpleNamespace(loader_framework=None), SimpleNamespace(loader_framework=of_loader)
    trains: Any = SimpleNamespace(framework=of_trainer)

    found = [tasks.Task(trains, given, "probe", {})._find() for given in (training, fed_by)]  # type: ignore[arg-type]

    assert found == [probes[of_trainer.name], probes[of_loader.name]]


def test_what_a_task_raises_reaches_no_script(recorder: Recorder, task: Any):
    def fail(training: Any, arguments: Any) -> None:
        raise RuntimeError("nothing there")

    task.do = fail
    switch, iterator, optimizer = trained(recorder)

    post(recorder, {"task": "probe"})
    step(switch, iterator, optimizer)

    assert [(end["state"], end["reason"]) for end in ends(recorder)] == [("failed", "RuntimeError: nothing there")]


@pytest.mark.parametrize("name", ["no_such_task", "../probe", "probe.sub"])
def test_a_task_that_does_not_exist_is_told(recorder: Recorder, name: str):
    switch, iterator, optimizer = trained(recorder)
    tasks_held, tasks.HELD_NS = tasks.HELD_NS, 0
    try:
        post(recorder, {"task": name})
        step(switch, iterator, optimizer)
    finally:
        tasks.HELD_NS = tasks_held

    assert [end["state"] for end in ends(recorder)] == ["unknown"]


def test_batches_that_a_task_asks_for_are_no_boundaries(recorder: Recorder, task: Any):
    switch, iterator, optimizer = trained(recorder)

    def ask(training: Any, arguments: Any) -> None:
        task.seen.append(arguments)
        for _ in range(5):
            step(switch, Iterator(), optimizer)

    task.do = ask
    post(recorder, {"task": "probe"})
    step(switch, iterator, optimizer)

    assert len(task.seen) == 1
    assert only(recorder.folder).health == {}


def test_the_training_is_held_until_the_next_plan_comes(recorder: Recorder, task: Any, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(tasks, "HELD_NS", 20_000_000_000)
    switch, iterator, optimizer = trained(recorder)
    post(recorder, {"task": "probe"})
    order: list[str] = []

    def next_plan() -> None:
        until = time.monotonic() + 20
        while recorder.page.bytes[contract.CONTROL_PLAN] != contract.PLAN_DONE and time.monotonic() < until:
            time.sleep(0.01)
        time.sleep(0.2)
        order.append("posted")
        post(recorder, {"seed": 0, "steps": 1, "arms": [{"name": "as-is", "levers": []}], "blocks": [0]})

    outside = threading.Thread(target=next_plan)
    outside.start()
    step(switch, iterator, optimizer)
    order.append("trains on")
    outside.join(30)
    assert order == ["posted", "trains on"]
    assert recorder.page.bytes[contract.CONTROL_PLAN] == contract.PLAN_POSTED
    for _ in range(6):
        step(switch, iterator, optimizer)

    assert recorder.page.bytes[contract.CONTROL_PLAN] == contract.PLAN_DONE
    assert [note["steps"] for note in only(recorder.folder).noted("block")] == [1]


def test_another_plan_ends_the_one_that_is_walked(recorder: Recorder):
    switch, iterator, optimizer = trained(recorder)
    arms = [{"name": "as-is", "levers": []}, {"name": "none", "levers": [{"name": "no-such-lever", "value": None, "every": 1}]}]
    post(recorder, {"seed": 0, "steps": 2, "arms": arms, "blocks": [0] * 1000})
    for _ in range(8):
        step(switch, iterator, optimizer)
    assert recorder.page.bytes[contract.CONTROL_PLAN] == contract.PLAN_TAKEN

    post(recorder, {"seed": 0, "steps": 1, "arms": arms[:1], "blocks": []})
    for _ in range(4):
        step(switch, iterator, optimizer)

    assert recorder.page.bytes[contract.CONTROL_PLAN] == contract.PLAN_DONE


def test_calls_are_timed_no_more_once_a_plan_is_taken_up(recorder: Recorder, task: Any):
    ended = []
    recorder.call_timers.append(lambda: ended.append(True))
    switch, iterator, optimizer = trained(recorder)
    assert recorder.level == 1

    post(recorder, {"task": "probe"})
    step(switch, iterator, optimizer)

    assert ended == [True]
    assert recorder.level == 0
