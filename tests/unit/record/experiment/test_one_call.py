"""A lever that makes several steps by one call: each of them is counted, with its share of what the call took."""

from __future__ import annotations

from itertools import pairwise
from types import SimpleNamespace
from typing import Any

import pytest

from slowstep.record.device.last_loss import LastLoss
from slowstep.record.experiment import arms as arms_module
from slowstep.record.experiment import blocks as blocks_module
from slowstep.record.experiment.blocks import Blocks
from slowstep.record.experiment.lever import Change, Lever
from slowstep.record.experiment.one_call import OneCall

MS = 1_000_000


class Together(Change):
    is_on = False

    def on(self) -> None:
        self.is_on = True

    def off(self) -> None:
        self.is_on = False


class Trained:
    """A training whose step takes 3 ms: 1 between two calls and 2 in each. With the lever a call makes `at_once` steps, in 2 ms each."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, *, at_once: int, steps: int, samples: int = -1) -> None:
        self.ns, self.steps = 0, list[tuple[int, int, int, int, bool]]()
        self.lever, self.samples, self.at_once = Together(), samples, at_once
        monkeypatch.setattr(blocks_module, "now", lambda: self.ns)
        monkeypatch.setattr(arms_module, "find_lever", lambda name: Lever(name=name, prepare=lambda training, spec: self.lever))
        self.training: Any = SimpleNamespace(updates=0, one_call=None, place=None)
        recorder: Any = SimpleNamespace(note=lambda _: None, event=self.event, health=lambda *_, **__: None, last_loss=LastLoss())
        arms = [{"name": "as-is", "levers": []}, {"name": "lever", "levers": [{"name": "lever"}]}]
        self.blocks = Blocks(recorder, self.training, {"arms": arms, "blocks": [1, 0, 1], "steps": steps})

    def event(self, kind: int, from_ns: int, to_ns: int, block: int, samples: int, delay_ns: int, flags: int, arm: int) -> None:
        self.steps.append((block, from_ns, to_ns, samples, bool(flags)))

    def run(self) -> Trained:
        more = True
        while more:
            self.ns += MS
            count, began_ns = self.at_once if self.lever.is_on else 1, self.ns
            self.ns += 2 * MS * count
            if self.lever.is_on:
                self.training.one_call = OneCall(steps=count, began_ns=began_ns)
            more = self.blocks.boundary(self.ns, self.samples * count, -1)
        return self

    def counted(self, block: int) -> list[tuple[int, int, int]]:
        return [(from_ns, to_ns, samples) for number, from_ns, to_ns, samples, settling in self.steps if number == block and not settling]


@pytest.fixture(autouse=True)
def known(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(arms_module, "prepared", lambda lever, training, spec: lever.prepare(training, spec))


def lengths_ms(steps: list[tuple[int, int, int]]) -> list[float]:
    return [(to_ns - from_ns) / MS for from_ns, to_ns, _ in steps]


def test_steps_of_one_call_share_it_and_the_first_has_what_was_before(monkeypatch):
    found = Trained(monkeypatch, at_once=4, steps=8).run()

    assert lengths_ms(found.counted(0)) == [3, 2, 2, 2] * 2
    assert lengths_ms(found.counted(1)) == [3] * 8
    assert all(one[1] == other[0] for one, other in pairwise(found.counted(0)))


def test_of_steps_that_a_block_has_no_room_for_the_others_keep_their_share(monkeypatch):
    found = Trained(monkeypatch, at_once=4, steps=6).run()

    # Of the second call half is counted, with half of what was before it.
    assert lengths_ms(found.counted(0)) == [3, 2, 2, 2, 2.5, 2]
    assert len(found.counted(2)) == 6


def test_a_call_of_more_steps_than_a_block_has_is_counted_in_part(monkeypatch):
    found = Trained(monkeypatch, at_once=10, steps=5).run()

    assert lengths_ms(found.counted(0)) == [2.5, 2, 2, 2, 2]


def test_its_samples_are_shared_too(monkeypatch):
    found = Trained(monkeypatch, at_once=4, steps=6, samples=16).run()

    assert [samples for _, _, samples in found.counted(0)] == [16] * 6
    assert sum(samples for _, _, samples in found.counted(1)) == 96
