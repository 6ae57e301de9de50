"""What a plan has switched on never outlives it: not a fault, not the end of the recording, and not in a child."""

from __future__ import annotations

import json
import os
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from recorded import make_folder, only
from slowstep.record.experiment import arms as arms_module
from slowstep.record.experiment.blocks import Blocks
from slowstep.record.experiment.lever import Change, Lever
from slowstep.record.experiment.switch import Switch
from slowstep.record.recorder import Recorder, now
from slowstep.record.writing import format as contract

PLAN = {
    "arms": [{"name": "as-is", "levers": []}, {"name": "lever", "levers": [{"name": "lever"}]}],
    "blocks": [1, 0, 1],
    "steps": 5,
}


class OnOff(Change):
    """Says whether it is on; None once it was removed."""

    def __init__(self) -> None:
        self.is_on: bool | None = False

    def on(self) -> None:
        self.is_on = True

    def off(self) -> None:
        self.is_on = False

    def remove(self) -> None:
        self.is_on = None


class Walked:
    """A training without a loader that has walked into the first block of the plan, whose lever is on."""

    def __init__(self, recorder: Recorder) -> None:
        self.recorder, self.switch, self.optimizer = recorder, Switch(recorder), Optimizer()
        for _ in range(3):
            self.step()
        self.post()
        for _ in range(3):
            self.step()

    def post(self) -> None:
        (Path(self.recorder.folder) / contract.PLAN_FILE).write_text(json.dumps(PLAN | {"process": os.getpid()}))
        self._page[contract.CONTROL_PLAN] = contract.PLAN_POSTED

    def step(self) -> None:
        self.switch.updated(self.optimizer)

    @property
    def _page(self) -> memoryview:
        return self.recorder.page.bytes

    @property
    def plan(self) -> int:
        return self._page[contract.CONTROL_PLAN]


class Optimizer:
    """Can be referred to weakly."""


@pytest.fixture
def change(monkeypatch: pytest.MonkeyPatch) -> OnOff:
    change = OnOff()
    monkeypatch.setattr(arms_module, "find_lever", lambda name: Lever(name=name, prepare=lambda training, spec: change))
    return change


@pytest.fixture
def walked(tmp_path: Path, change: OnOff) -> Any:
    recorder = Recorder(make_folder(tmp_path / "recording"))
    recorder.experiment = True
    walked = Walked(recorder)
    assert (change.is_on, walked.plan) == (True, contract.PLAN_TAKEN)
    yield walked
    recorder.stop("test")


def test_a_recording_that_ends_leaves_no_lever_on(walked: Walked, change: OnOff) -> None:
    walked.switch.close()
    walked.step()

    assert (change.is_on, walked.plan) == (None, contract.PLAN_DONE)


def test_what_a_lever_has_found_of_the_batch_size_counts_where_no_loader_tells(walked: Walked, change: OnOff) -> None:
    walked.step()
    walked.switch.training.batch_samples = 32
    walked.step()
    walked.switch.training.called_once(2, now())
    walked.step()
    walked.recorder.stop("test")

    assert [record.b for record in only(walked.recorder.folder).of("ARM")][-4:] == [-1, 32, 32, 32]


def test_no_plan_is_taken_up_once_the_recording_has_ended(walked: Walked, change: OnOff) -> None:
    walked.switch.close()
    walked.post()

    for _ in range(3):
        walked.step()

    assert (change.is_on, walked.plan) == (None, contract.PLAN_POSTED)


def test_a_fault_between_two_steps_ends_the_plan_and_its_levers(walked: Walked, change: OnOff, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Blocks, "_advance", lambda *_: 1 / 0)

    with pytest.raises(ZeroDivisionError):
        walked.step()
    walked.step()

    assert (change.is_on, walked.plan) == (None, contract.PLAN_DONE)


def test_a_plan_that_cannot_be_taken_up_is_over(tmp_path: Path, change: OnOff, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Blocks, "__init__", lambda *_, **__: 1 / 0)
    recorder = Recorder(make_folder(tmp_path / "recording"))

    with pytest.raises(ZeroDivisionError):
        Walked(recorder)

    assert recorder.page.bytes[contract.CONTROL_PLAN] == contract.PLAN_DONE
    recorder.stop("test")


def test_a_recording_that_ends_in_the_middle_of_a_switch_leaves_no_lever_on(walked: Walked, change: OnOff) -> None:
    change.on = lambda: (walked.switch.close(), setattr(change, "is_on", True))  # type: ignore[method-assign, return-value, func-returns-value]

    for _ in range(30):
        walked.step()

    assert (change.is_on, walked.plan) == (None, contract.PLAN_DONE)


def test_a_child_that_was_forked_meanwhile_walks_no_plan_and_ends_none(
    walked: Walked, change: OnOff, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("slowstep.record.experiment.switch.os", SimpleNamespace(getpid=lambda: 1))

    for _ in range(30):
        walked.step()
    walked.switch.close()

    assert (change.is_on, walked.plan) == (True, contract.PLAN_TAKEN)
