"""Two ranks of a job walk a plan in step, by what each publishes on the page that they share."""

from __future__ import annotations

import json
import sys
from types import SimpleNamespace
from typing import Any

import pytest

from slowstep.frameworks.torch.inside._framework import FRAMEWORK
from slowstep.record.device.last_loss import LastLoss
from slowstep.record.experiment import arms as arms_module
from slowstep.record.experiment import blocks as blocks_module
from slowstep.record.experiment import switch as switch_module
from slowstep.record.experiment.in_step import (
    ASYNCHRONOUS,
    ELSEWHERE,
    ELSEWHERE_GONE,
    OUT_OF_STEP,
    InStep,
    LocalRank,
    Ranks,
    Vote,
    find_local_rank,
)
from slowstep.record.experiment.lever import ORDER, Change, Lever, NotApplicable
from slowstep.record.experiment.switch import Switch
from slowstep.record.writing import format as contract

ALONE = {"arms": [{"name": "as-is", "levers": []}, {"name": "lever", "levers": [{"name": "lever"}]}], "blocks": [1, 0, 1, 0], "steps": 2}


class Switched(Change):
    """A lever that is ready, and has settled, after so many looks; in one step it may fail."""

    def __init__(self, ready_after: int = 0, settled_after: int = 0, fails_at: int = 0) -> None:
        self._ready_after, self._settled_after, self._fails_at = ready_after, settled_after, fails_at
        self._looks = self._steps = 0
        self.is_on = False

    def ready(self) -> bool:
        self._ready_after -= 1
        return self._ready_after < 0

    def on(self) -> None:
        self.is_on, self._looks = True, 0

    def off(self) -> None:
        self.is_on, self._looks = False, 0

    def settled(self) -> bool:
        self._looks += 1
        return self._looks > self._settled_after

    def each_step(self) -> None:
        self._steps += 1
        if self._steps == self._fails_at:
            raise RuntimeError("broken")


class Rank:
    """One rank: as much of a recorder and of a training as blocks need, its lever, and in which updates that was on."""

    def __init__(self, monkeypatch: Any, page: memoryview, number: int, change: Any, *, changes: Any = frozenset({ORDER}), **more: Any):
        def prepare(training: Any, spec: Any) -> Change:
            if isinstance(change, Exception):
                raise change
            return change  # type: ignore[no-any-return]

        self.notes, self.events, self.on_at = list[Any](), list[Any](), list[int]()
        self.training: Any = SimpleNamespace(updates=0, one_call=None)
        recorder: Any = SimpleNamespace(
            note=self.notes.append, event=lambda *fields: self.events.append(fields), health=lambda *_, **__: None
        )
        recorder.last_loss = LastLoss()
        monkeypatch.setattr(arms_module, "find_lever", lambda name: Lever(name=name, prepare=prepare, changes=changes))
        place = LocalRank(number, 2, is_whole=True)
        facts = {"is_finite": True, "is_mine": number == 0} | more
        self._blocks = InStep(recorder, self.training, ALONE, Ranks(page, place, 1), **facts)
        self._change, self._is_over = change, False

    def step(self, update: int) -> bool:
        """The boundary after an update. Returns whether there are more."""
        self.training.updates = update
        if not self._is_over:
            self._is_over = not self._blocks.boundary(update, 1, 0)
        if isinstance(self._change, Switched) and self._change.is_on:
            self.on_at.append(update)
        return not self._is_over

    @property
    def counted(self) -> list[int]:
        """The arms of its counted steps."""
        return [arm for *_, flags, arm in self.events if not flags]

    def reasons(self) -> list[str]:
        return [note["reason"] for note in self.notes if "reason" in note]


@pytest.fixture
def page() -> memoryview:
    return memoryview(bytearray(contract.CONTROL_BYTES))


def walk(*ranks: Rank, late: int = 0, steps: int = 200) -> None:
    """All ranks make one update after the other; the second takes up the plan so many updates later."""
    for update in range(1, steps):
        # Whichever comes first.
        for rank in ranks if update % 2 else ranks[::-1]:
            if rank is ranks[0] or update > late:
                rank.step(update)


@pytest.mark.parametrize("late", [0, 5])
def test_a_lever_is_switched_before_the_same_update_in_all_ranks(monkeypatch: Any, page: memoryview, late: int) -> None:
    first = Rank(monkeypatch, page, 0, Switched(settled_after=3))
    second = Rank(monkeypatch, page, 1, Switched(ready_after=7, settled_after=1))

    walk(first, second, late=late)

    assert first.on_at == second.on_at
    # Not before the second rank was ready for it.
    assert first.on_at[0] > late + 7
    assert first.counted == second.counted == [1, 1, 0, 0, 1, 1, 0, 0]
    assert first.reasons() == second.reasons() == []


def test_what_one_rank_cannot_have_no_rank_has(monkeypatch: Any, page: memoryview) -> None:
    first = Rank(monkeypatch, page, 0, Switched())
    second = Rank(monkeypatch, page, 1, NotApplicable("no loader"))

    walk(first, second)

    assert first.on_at == []
    assert first.reasons() == [ELSEWHERE_GONE]
    assert first.counted == [0, 0, 0, 0]


def test_a_function_that_is_not_there_in_another_rank_is_left_out_in_this_one(monkeypatch: Any, page: memoryview) -> None:
    first = Rank(monkeypatch, page, 0, Switched(), changes=frozenset())
    second = Rank(monkeypatch, page, 1, NotApplicable("not imported"), changes=frozenset())

    walk(first, second)

    assert first.counted == [1, 1, 0, 0, 1, 1, 0, 0]


def test_what_is_not_there_in_the_rank_that_is_judged_is_switched_in_none(monkeypatch: Any, page: memoryview) -> None:
    first = Rank(monkeypatch, page, 0, NotApplicable("not imported"), changes=frozenset())
    second = Rank(monkeypatch, page, 1, Switched(), changes=frozenset())

    walk(first, second)

    assert (first.counted, second.on_at) == ([0, 0, 0, 0], [])


def test_what_fails_in_one_rank_ends_in_all_one_update_later(monkeypatch: Any, page: memoryview) -> None:
    first = Rank(monkeypatch, page, 0, Switched())
    second = Rank(monkeypatch, page, 1, Switched(fails_at=2))

    walk(first, second)

    assert len(set(first.on_at) - set(second.on_at)) <= 2
    assert first.reasons() == [ELSEWHERE_GONE]
    assert first.counted[-4:] == [0, 0, 0, 0] == second.counted[-4:]


def test_ranks_that_do_not_update_in_step_have_no_lever(monkeypatch: Any, page: memoryview) -> None:
    monkeypatch.setattr(blocks_module, "READY_NS", 10)
    first = Rank(monkeypatch, page, 0, Switched())
    second = Rank(monkeypatch, page, 1, Switched())

    for update in range(1, 100):
        first.step(update)
        if update % 3 == 0:
            second.step(update // 3)

    assert (first.on_at, second.on_at) == ([], [])
    assert first.reasons() == [OUT_OF_STEP]
    assert first.counted == [0, 0, 0, 0]


def test_a_job_whose_ranks_can_have_no_lever_has_none(monkeypatch: Any, page: memoryview) -> None:
    first = Rank(monkeypatch, page, 0, Switched(), refused=ELSEWHERE)
    second = Rank(monkeypatch, page, 1, Switched(), refused=ELSEWHERE)

    walk(first, second)

    assert (first.on_at, first.reasons()) == ([], [ELSEWHERE])
    assert first.counted == [0, 0, 0, 0]


def test_where_none_can_have_a_lever_no_rank_waits_for_another(monkeypatch: Any, page: memoryview) -> None:
    first = Rank(monkeypatch, page, 0, Switched(), refused=ELSEWHERE)

    walk(first)

    assert first.counted == [0, 0, 0, 0]


@pytest.mark.parametrize(
    ("is_whole", "asynchronous", "reasons"),
    [(True, False, []), (True, True, [ASYNCHRONOUS]), (False, False, [ELSEWHERE]), (False, True, [ELSEWHERE])],
)
def test_ranks_are_refused_where_they_are_elsewhere_or_asynchronous(
    monkeypatch: Any, page: memoryview, tmp_path: Any, is_whole: bool, asynchronous: bool, reasons: list[str]
) -> None:
    monkeypatch.setattr(arms_module, "find_lever", lambda name: Lever(name=name, prepare=lambda training, spec: Switched()))
    monkeypatch.setattr(switch_module, "find_local_rank", lambda framework: LocalRank(0, 2, is_whole=is_whole))
    (tmp_path / contract.PLAN_FILE).write_text(json.dumps({**ALONE, "process": None}))
    page[contract.CONTROL_PLAN] = contract.PLAN_POSTED
    notes = list[Any]()
    recorder: Any = SimpleNamespace(
        note=notes.append,
        event=lambda *_: None,
        health=lambda *_, **__: None,
        levers=[],
        loader_place=None,
        last_loss=LastLoss(),
        folder=str(tmp_path),
        page=SimpleNamespace(bytes=page, plan_number=1),
        framework=SimpleNamespace(facts=lambda: {"asynchronous": asynchronous}),
        ensure_open=lambda: True,
        stop_timing_calls=lambda: None,
        local=SimpleNamespace(me=SimpleNamespace(delay_ns=lambda: None)),
        experiment=True,
        shared=lambda kind: kind(None),
    )
    switch = Switch(recorder)

    # A step ends with each update from the second on: no loader is read.
    for _ in range(3):
        switch.updated(switch.training)

    assert [note["reason"] for note in notes if note.get("state") == "not applicable"] == reasons


def test_votes_of_another_update_block_or_plan_are_none(page: memoryview) -> None:
    first, second = (Ranks(page, LocalRank(number, 2, is_whole=True), 1) for number in range(2))
    assert first.all_at(0, -1) is None

    first.publish(9, 4, Vote(True, 0))
    assert first.all_at(9, 4) is None
    second.publish(9, 4, Vote(False, 1 << 40))

    assert first.all_at(9, 4) == [Vote(True, 0), Vote(False, 1 << 40)] == second.all_at(9, 4)
    assert (first.are_at(9), first.are_at(8), first.are_at(5)) == (True, False, False)
    assert first.all_at(9, 5) is None
    assert Ranks(page, LocalRank(0, 2, is_whole=True), 2).all_at(9, 4) is None


@pytest.mark.parametrize(
    ("size", "environment", "place"),
    [
        (1, {}, None),
        (2, {}, LocalRank(1, 2, is_whole=True)),
        (4, {"LOCAL_WORLD_SIZE": "2", "LOCAL_RANK": "0"}, LocalRank(0, 2, is_whole=False)),
        (1000, {}, LocalRank(0, 1, is_whole=False)),
    ],
)
def test_a_process_knows_its_place(monkeypatch: Any, size: int, environment: dict[str, str], place: Any) -> None:
    for name in ("LOCAL_WORLD_SIZE", "LOCAL_RANK"):
        monkeypatch.delenv(name, raising=False)
    for name, value in environment.items():
        monkeypatch.setenv(name, value)
    group = SimpleNamespace(is_available=lambda: True, is_initialized=lambda: True, get_world_size=lambda: size, get_rank=lambda: size // 2)
    monkeypatch.setitem(sys.modules, "torch.distributed", group)

    assert find_local_rank(FRAMEWORK) == place
