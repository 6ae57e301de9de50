"""Blocks of steps where calls return before their work is done, on a device that is a thread with a queue."""

from __future__ import annotations

import queue
import threading
import time
from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import pytest

from slowstep.record.device.last_loss import LastLoss
from slowstep.record.experiment import arms as arms_module
from slowstep.record.experiment.device_lead import DeviceLead
from slowstep.record.experiment.drained import UNKNOWN, DrainedBlocks
from slowstep.record.experiment.lever import Change, Lever
from slowstep.record.recorder import now

STEPS = 6
PLAN = {
    "arms": [{"name": "as-is", "levers": []}, {"name": "lever", "levers": [{"name": "lever"}]}],
    "blocks": [1, 0, 1, 0, 1, 0],
    "steps": STEPS,
    "settling": 3,
    "going_on": 4,
}
DEVICE_S = 0.02


class Device:
    """Makes one update after the other, each in the same time; so many may wait for it. `drained_ns` is when an update began that the
    training thread was waiting for."""

    def __init__(self, most: int = 0) -> None:
        self._handed_over: queue.Queue[threading.Event] = queue.Queue(most)
        self._host, self._is_waited_for = threading.get_ident(), False
        self.drained_ns = list[int]()
        threading.Thread(target=self._work, daemon=True).start()

    def hand_over(self) -> Callable[[], bool]:
        made = threading.Event()
        self._handed_over.put(made)
        return lambda: self._wait_for(made)

    def _wait_for(self, made: threading.Event) -> bool:
        is_host = threading.get_ident() == self._host
        self._is_waited_for |= is_host
        made.wait()
        self._is_waited_for &= not is_host
        return True

    def _work(self) -> None:
        while True:
            made = self._handed_over.get()
            if self._is_waited_for:
                self.drained_ns.append(now())
            time.sleep(DEVICE_S)
            made.set()


class HostWork(Change):
    """What the host does beside, left out while it is on."""

    is_on = False

    def on(self) -> None:
        self.is_on = True

    def off(self) -> None:
        self.is_on = False


class Trained:
    """A training that walks the plan: `ns` are lengths of counted steps by arm, `ends` what was known of each block's end."""

    def __init__(
        self, monkeypatch: pytest.MonkeyPatch, host_s: float, wait: Callable[[Callable[[], bool]], Callable[[], bool]], most: int = 0
    ) -> None:
        change = HostWork()
        lever = Lever(name="lever", prepare=lambda training, spec: change)
        monkeypatch.setattr(arms_module, "find_lever", lambda name: lever)
        self.notes = list[Any]()
        self.ns: dict[int, list[int]] = {0: [], 1: []}
        self.edges_ns: dict[int, list[int]] = {}
        recorder: Any = SimpleNamespace(note=self.notes.append, event=self._event, health=lambda *_, **__: None, last_loss=LastLoss())
        training: Any = SimpleNamespace(updates=0, one_call=None, lead=DeviceLead())
        device = self.device = Device(most)
        training.lead.updated(wait(device.hand_over()))
        blocks, goes_on = DrainedBlocks(recorder, training, PLAN), True
        while goes_on and training.updates < 300:
            if not change.is_on:
                time.sleep(host_s)
            training.lead.updated(wait(device.hand_over()))
            training.updates += 1
            goes_on = blocks.boundary(now(), 1, 5)

    def _event(self, kind: int, t0: int, t1: int, block: int, samples: int, delay_ns: int, flags: int, arm: int) -> None:
        if not flags:
            assert (samples, delay_ns) == (1, -1)
            self.ns[arm].append(t1 - t0)
            self.edges_ns.setdefault(block, []).extend((t0, t1))

    @property
    def gain(self) -> float:
        as_is, lever = self.ns[0], self.ns[1]
        return (sum(as_is) / len(as_is)) / (sum(lever) / len(lever))


def test_what_the_device_waits_for_is_gained_though_calls_return_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    trained = Trained(monkeypatch, 3 * DEVICE_S, lambda wait: wait)

    assert [len(trained.ns[arm]) for arm in (0, 1)] == [3 * STEPS, 3 * STEPS]
    # By the host's clock a step without it takes next to nothing.
    assert 1.5 < trained.gain < 6


def test_what_is_done_under_the_busy_device_gains_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    trained = Trained(monkeypatch, 0.3 * DEVICE_S, lambda wait: wait)

    assert trained.gain == pytest.approx(1, abs=0.6)


def test_the_host_goes_on_while_the_device_makes_what_counts(monkeypatch: pytest.MonkeyPatch) -> None:
    trained = Trained(monkeypatch, 0.0, lambda wait: wait, most=2)

    counted = [range(min(edges), max(edges)) for edges in trained.edges_ns.values()]
    assert len(counted) == len(PLAN["blocks"]) <= len(trained.device.drained_ns)
    # What it is waited for to make is of no block.
    assert not [at_ns for at_ns in trained.device.drained_ns if any(at_ns in block for block in counted)]


def test_where_nothing_tells_when_work_is_done_no_lever_is_tried(monkeypatch: pytest.MonkeyPatch) -> None:
    trained = Trained(monkeypatch, 0.0, lambda wait: lambda: False)

    assert [note["reason"] for note in trained.notes if note.get("state") == "not applicable"] == [UNKNOWN]
    assert trained.ns == {0: [], 1: []}


def test_of_a_block_whose_end_is_not_known_no_step_counts(monkeypatch: pytest.MonkeyPatch) -> None:
    asked = []

    def seldom(wait: Callable[[], bool]) -> Callable[[], bool]:
        asked.append(wait)
        if len(asked) % 4:
            return wait
        raise_it: Any = lambda: 1 / 0  # noqa: E731
        return raise_it  # type: ignore[no-any-return]

    trained = Trained(monkeypatch, 0.0, seldom)

    assert 0 < len(trained.ns[0]) + len(trained.ns[1]) < 6 * STEPS
    assert all(len(steps) % STEPS == 0 for steps in trained.ns.values())
