"""Arms of an experiment: whatever a lever does wrong, it is undone and said, and the others go on."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import pytest

from slowstep.record.experiment import arms as arms_module
from slowstep.record.experiment.arms import AS_IS, Arms
from slowstep.record.experiment.lever import Change, Lever, NotApplicable


class Notes:
    """As much of a recorder as arms need."""

    def __init__(self) -> None:
        self.written: list[dict[str, Any]] = []

    def note(self, note: dict[str, Any]) -> None:
        self.written.append(note)

    def of(self, arm: int) -> list[str]:
        return [note["state"] for note in self.levers if note["arm"] == arm]

    @property
    def levers(self) -> list[dict[str, Any]]:
        return [note for note in self.written if note["kind"] == "lever"]

    @property
    def switched(self) -> list[int]:
        return [note["arm"] for note in self.written if note["kind"] == "arm"]


class Told(Change):
    """Writes down what it is told, and raises where it is told to."""

    def __init__(self, diary: list[str], name: str, raises: str = "", error: Exception | None = None) -> None:
        self._diary, self._name, self._raises, self._error = diary, name, raises, error or RuntimeError("broken")
        self.state = "off"

    def _told(self, what: str) -> None:
        self._diary.append(f"{self._name} {what}")
        if what == self._raises:
            raise self._error

    def ready(self) -> bool:
        self._told("ready")
        return True

    def on(self) -> None:
        self.state = "on"
        self.effect += 1
        self._told("on")

    def each_step(self) -> None:
        self._told("step")

    def settled(self) -> bool:
        self._told("settled")
        return True

    def off(self) -> None:
        self.state = "off"
        self._told("off")

    def remove(self) -> None:
        self.state = "removed"
        self._told("remove")

    def facts(self) -> Mapping[str, Any]:
        self._told("facts")
        return {self._name: 1}


@pytest.fixture
def made(monkeypatch: pytest.MonkeyPatch) -> Any:
    """Makes arms of changes that are given; each arm is a list of them."""

    def make(*arms: list[Change], without: tuple[int, ...] = ()) -> tuple[Arms, Notes]:
        notes = Notes()
        changes = {f"{number}.{place}": change for number, arm in enumerate(arms, 1) for place, change in enumerate(arm)}
        levers = {name: Lever(name=name, prepare=lambda training, spec: changes[spec.name]) for name in changes}
        monkeypatch.setattr(arms_module, "find_lever", levers.get)
        plan = [{"name": "as-is", "levers": []}]
        for number, arm in enumerate(arms, 1):
            plan.append({"name": f"arm {number}", "levers": [{"name": f"{number}.{place}"} for place in range(len(arm))]})
        recorder: Any = notes
        training: Any = None
        return Arms(recorder, training, plan, without=without), notes

    return make


def walk(arms: Arms, *blocks: int) -> None:
    assert arms.are_ready()
    arms.give_up_unready()
    for arm in blocks:
        if arms.is_alive(arm):
            on = arms.change_to(arm)
            arms.are_settled()
            arms.each_step(on)
    arms.close()


def test_levers_of_an_arm_are_undone_in_the_opposite_order(made: Any) -> None:
    diary: list[str] = []
    arms, _ = made([Told(diary, "a"), Told(diary, "b")], [Told(diary, "c")])

    walk(arms, 1, AS_IS, 2)

    acts = [entry for entry in diary if entry.split()[1] in ("on", "off", "remove")]
    assert acts == ["a on", "b on", "b off", "a off", "c on", "c off", "c remove", "b remove", "a remove"]


def test_an_arm_that_an_earlier_start_gave_up_is_neither_made_ready_nor_switched_on(made: Any) -> None:
    diary: list[str] = []
    arms, notes = made([Told(diary, "a")], [Told(diary, "b")], without=(1,))

    walk(arms, 1, AS_IS, 2)

    assert not any(entry.startswith("a ") for entry in diary)
    assert (notes.of(1), notes.switched) == ([], [AS_IS, 2, AS_IS])


@pytest.mark.parametrize(("lacks", "reason"), [(None, arms_module.NOT_IN_TIME), ("an epoch takes longer", "an epoch takes longer")])
def test_of_an_arm_that_is_not_ready_in_time_what_it_lacks_is_said(made: Any, lacks: str | None, reason: str) -> None:
    class Unready(Told):
        def ready(self) -> bool:
            return False

        def lacks(self) -> str | None:
            return lacks

    arms, notes = made([Told([], "a"), Unready([], "b")])

    assert not arms.are_ready()
    arms.give_up_unready()

    assert [note["reason"] for note in notes.levers if note["arm"] == 1] == [reason]
    assert not arms.is_alive(1)


def test_what_an_arm_did_is_said_after_each_of_its_blocks_and_at_the_end(made: Any) -> None:
    arms, notes = made([Told([], "a")])

    walk(arms, 1, AS_IS, 1)

    assert [note["effect"] for note in notes.levers if note["state"] == "effect"] == [1, 2, 2]
    assert notes.of(1) == ["ready", "effect", "effect", "effect"]


def test_which_arm_is_on_is_said_before_the_script_meets_it(made: Any) -> None:
    diary: list[str] = []
    arms, notes = made([Told(diary, "a")], [Told(diary, "broken", "on")])
    arms.are_ready()

    arms.change_to(1)
    assert notes.switched == [1]
    arms.change_to(AS_IS)
    arms.change_to(2)

    # The second lever could not be switched on: the training is as it is.
    assert notes.switched == [1, AS_IS, 2, AS_IS]
    arms.close()


@pytest.mark.parametrize("raises", ["ready", "on", "settled", "step", "off", "facts"])
def test_a_lever_that_raises_is_undone_and_the_rest_goes_on(made: Any, raises: str) -> None:
    diary: list[str] = []
    first, broken, other = Told(diary, "first"), Told(diary, "broken", raises), Told(diary, "other")
    arms, notes = made([first, broken], [other])

    walk(arms, 1, 2, 1, 2)

    assert (first.state, broken.state, other.state) == ("removed", "removed", "removed")
    assert "failed" in notes.of(1)
    assert not arms.is_alive(1)
    assert [note["reason"] for note in notes.levers if note["state"] == "failed"] == ["RuntimeError: broken"]
    assert notes.of(2) == ["ready", "effect", "effect", "effect"]
    assert diary.count("other on") == 2


@pytest.mark.parametrize("raises", ["ready", "on", "step", "off"])
def test_a_lever_may_find_out_late_that_it_has_no_meaning(made: Any, raises: str) -> None:
    arms, notes = made([Told([], "a", raises, NotApplicable("it is a generator"))], [Told([], "b")])

    walk(arms, 1, 2)

    assert notes.of(1)[-1] == "not applicable"
    assert {note.get("reason") for note in notes.levers} == {None, "it is a generator"}
    assert notes.of(2) == ["ready", "effect", "effect"]


@pytest.mark.parametrize(("arms", "how"), [((2,), "while it was on"), ((1, 2), "where arm 1 and arm 2 followed each other")])
def test_a_loss_that_is_not_finite_ends_the_arms_in_question(made: Any, arms: tuple[int, ...], how: str) -> None:
    diary: list[str] = []
    made_arms, notes = made([Told(diary, "a")], [Told(diary, "b")])
    made_arms.are_ready()
    made_arms.change_to(1)
    made_arms.change_to(2)

    made_arms.end_for_loss(arms, 41)

    failed = [note for note in notes.levers if note["state"] == "failed"]
    assert [note["arm"] for note in failed] == list(arms)
    assert all(note["reason"].startswith(f"the loss was not finite {how}") and note["not_finite"] == 41 for note in failed)
    # Each is switched off once: the first was, when the second was switched on.
    assert (diary.count("a off"), diary.count("b off")) == (1, 1)
    assert [made_arms.is_alive(arm) for arm in (1, 2)] == [1 not in arms, False]
    made_arms.close()


def test_what_could_not_be_undone_is_said(made: Any) -> None:
    first = Told([], "first")
    arms, notes = made([first, Told([], "broken", "remove")])

    walk(arms, 1)

    assert notes.of(1) == ["ready", "effect", "effect", "not undone"]
    assert first.state == "removed"


def test_a_lever_that_does_not_exist_ends_its_arm_and_the_others_of_it_are_removed(made: Any) -> None:
    first, notes = Told([], "first"), Notes()
    made([first])
    plan = [{"name": "as-is", "levers": []}, {"name": "both", "levers": [{"name": "1.0"}, {"name": "nothing"}]}]

    arms = Arms(notes, None, plan)  # type: ignore[arg-type]

    assert not arms.is_alive(1)
    assert first.state == "removed"
    (note,) = notes.written
    assert (note["state"], note["reason"]) == ("not applicable", "there is no lever 'nothing'")
