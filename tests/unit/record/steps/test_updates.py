"""Updates and what is due at them."""

from __future__ import annotations

import itertools
from pathlib import Path
from typing import Any

import pytest

from recorded import make_folder, processes
from slowstep.record.framework import NO_FRAMEWORK, Framework
from slowstep.record.recorder import Recorder
from slowstep.record.steps import updates
from slowstep.record.writing.fastpath import HELD_NS, SHORT_NS
from slowstep.record.writing.storage import GRANULE_BYTES
from slowstep.record.writing.threads import Iterator

STEPS = 20_000
STEP_NS = 4_000
DUE_EVERY = 25


class Optimizer:
    param_groups = ()


def test_shortest_steps_are_counted_once_where_details_are_left_out(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(updates, "_DUE_EVERY_NS", DUE_EVERY * STEP_NS)
    clock = itertools.count(10**9, STEP_NS // 4).__next__
    monkeypatch.setattr(updates, "now", clock)
    recorder = Recorder(make_folder(tmp_path / "recording"), level=0, limit_bytes=16 * GRANULE_BYTES)
    before, after = updates.Updates(recorder, NO_FRAMEWORK).build_hooks()
    me, optimizer, iterator = recorder.local.me, Optimizer(), Iterator(1)
    for _ in range(STEPS):
        began_ns = clock()
        me.held = (began_ns, began_ns + 1, iterator, 16)
        backward_ns = clock()
        me.backward = (backward_ns, backward_ns + 1)
        before(optimizer, (), {})
        after(optimizer, (), {})
    recorder.stop("exit")

    (process,) = processes(recorder.folder)
    totals = process.of("TOTALS")
    kept = len(process.of("UPDATE"))
    assert len(totals) > 5
    # Only the steps after the last bookkeeping may be neither kept nor counted.
    assert STEPS - 2 * DUE_EVERY <= kept + sum(record.a for record in totals) <= STEPS
    assert len(process.of("WAIT")) == kept


def test_short_steps_are_written_together_and_longer_ones_at_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    at_ns = [10**9]
    monkeypatch.setattr(updates, "now", lambda: at_ns[0])
    recorder = Recorder(make_folder(tmp_path / "recording"), level=0)
    before, after = updates.Updates(recorder, NO_FRAMEWORK).build_hooks()
    me, optimizer, iterator = recorder.local.me, Optimizer(), Iterator(1)
    monkeypatch.setattr(updates.Updates, "_do_what_is_due", lambda *_: None)
    waiting = []
    for step_ns in [HELD_NS // 20] * 50 + [SHORT_NS + 1] * 20:
        began_ns = at_ns[0]
        me.held = (began_ns, began_ns + 1, iterator, 16)
        before(optimizer, (), {})
        at_ns[0] += step_ns
        after(optimizer, (), {})
        waiting.append(at_ns[0] - me.ended[0][0][0] if me.ended else 0)
    recorder.stop("exit")

    assert max(waiting) <= HELD_NS
    assert len([ns for ns in waiting[:50] if ns]) >= 40
    # Where they have become longer, each is written at once after the next time that they are written.
    assert waiting[-4:] == [0] * 4


class _Calls:
    """Optimizers that are called one after the other, and how many steps are told of."""

    def __init__(self, folder: str, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(updates, "_DUE_EVERY_NS", 0)
        self.recorder = Recorder(folder)
        self.told: list[int] = []
        monkeypatch.setattr(self.recorder, "updated", lambda count, _: self.told.append(count))
        self._before, self._after = updates.Updates(self.recorder, NO_FRAMEWORK).build_hooks()

    def call(self, *optimizers: Optimizer) -> None:
        for optimizer in optimizers:
            self._before(optimizer, (), {})
            self._after(optimizer, (), {})


def test_the_steps_of_optimizers_that_follow_one_another_are_counted_on(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    calls = _Calls(make_folder(tmp_path / "recording"), monkeypatch)
    kept = Optimizer()
    calls.call(kept, kept, kept)
    for _ in range(4):
        calls.call(*[Optimizer()] * 2)
    for _ in range(3):
        calls.call(Optimizer())
    calls.recorder.stop("exit")

    # Of the second one's first call it is not known yet whether the first one is called again.
    assert calls.told == [1, 2, 3, *range(5, 15)]


def test_the_steps_of_optimizers_called_in_turns_are_those_of_the_busiest(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    calls = _Calls(make_folder(tmp_path / "recording"), monkeypatch)
    first, second = Optimizer(), Optimizer()
    for _ in range(5):
        calls.call(first, second)
    calls.recorder.stop("exit")

    assert calls.told == [1, 2, 3, 4, 5]


def test_steps_counted_on_by_mistake_are_taken_back(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    calls = _Calls(make_folder(tmp_path / "recording"), monkeypatch)
    outer = Optimizer()
    for _ in range(8):
        inner = Optimizer()
        calls.call(outer, inner, inner)
    calls.recorder.stop("exit")

    assert calls.told == [1, 3, 2, 3, 4, 5, 6, 7, 8]


@pytest.mark.parametrize(
    ("before", "each", "fed"),
    [(0, 1, True), (0, 0, False), (20, 0, False), (20, 1, True), (1, 2, True)],
    ids=["a loader", "none", "a validation first", "a validation, then a loader", "batches are accumulated"],
)
def test_what_was_asked_for_before_the_first_update_feeds_no_others(tmp_path, before, each, fed):
    recorder = Recorder(make_folder(tmp_path / "recording"))
    begin, end = updates.Updates(recorder, NO_FRAMEWORK).build_hooks()
    me, optimizer = recorder.local.me, Optimizer()
    me.waits = before
    for _ in range(5):
        me.waits += each
        begin(optimizer, (), {})
        end(optimizer, (), {})
    recorder.stop("exit")

    assert me.unfed is not fed


@pytest.mark.parametrize(
    ("each", "backwards", "times"),
    [(0, 1, 1), (1, 1, 0), (1, 0, 0), (2, 1, 1), (4, 1, 1), (4, 4, 0)],
    ids=["no loader", "a loader", "no backward is seen", "pairs", "batches are joined", "gradients are accumulated"],
)
def test_forwards_are_asked_for_once_where_requests_do_not_tell_what_feeds_the_updates(tmp_path, each, backwards, times):
    recorder, asked = Recorder(make_folder(tmp_path / "recording")), []
    recorder.when_forwards_tell = lambda: asked.append(None)
    begin, end = updates.Updates(recorder, NO_FRAMEWORK).build_hooks()
    optimizer = Optimizer()
    for _ in range(5):
        recorder.local.me.waits += each
        recorder.local.me.backwards += backwards
        begin(optimizer, (), {})
        end(optimizer, (), {})
    recorder.stop("exit")

    assert len(asked) == times


class Silent(Framework):
    """A framework that is not complete, or of a version that nobody knows."""

    name = "silent"

    def facts(self) -> dict[str, Any]:
        raise AttributeError("no such function")


def test_a_framework_that_fails_to_say_what_it_uses_costs_nothing_but_that(tmp_path: Path) -> None:
    recorder, optimizer, called = Recorder(make_folder(tmp_path / "recording"), level=0), Optimizer(), []
    recorder.when_training.append(lambda: called.append(True))
    before, after = updates.Updates(recorder, Silent()).build_hooks()

    before(optimizer, (), {})
    after(optimizer, (), {})
    recorder.stop("exit")

    (process,) = processes(recorder.folder)
    (facts,) = process.noted("facts")
    assert (facts["framework"], facts.get("threads")) == ("silent", None)
    assert [note["type"] for note in process.noted("optimizer")] == ["Optimizer"]
    assert (called, len(process.of("UPDATE"))) == ([True], 1)
    assert [note["name"] for note in process.noted("health")] == ["recorder-fault"]
