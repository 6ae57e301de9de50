"""The arms of an experiment: each a set of levers made ready in this training, of which at most one is on."""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from typing import TYPE_CHECKING, Any, Final

from slowstep.record.experiment.implementations import can_build, find_lever, prepared
from slowstep.record.experiment.lever import Change, Lever, LeverSpec, NotApplicable, NotHere
from slowstep.record.writing import format as fmt

if TYPE_CHECKING:
    from slowstep.record.experiment.training import Training
    from slowstep.record.recorder import Recorder

# The first arm of every plan has no levers.
AS_IS: Final = 0
# Why an arm was given up whose levers might have been ready later.
# So long levers may take to see what they need, before they are not applicable; less where a plan's budget is short.
READY_NS: Final = 20_000_000_000
NOT_IN_TIME: Final = "what it needs was not seen in time"


class Arms:
    """Prepares the levers of every arm, and says of each in a note what became of it. Arms in `without` are given up from the start."""

    def __init__(self, recorder: Recorder, training: Training, arms: list[dict[str, Any]], *, without: Collection[int] = ()) -> None:
        self._recorder, self._training = recorder, training
        self._names = [arm["name"] for arm in arms]
        self._specs = [arm["levers"] for arm in arms]
        self._levers: dict[str, Lever] = {}
        self._absent = set[int]()
        self._changes: list[list[Change] | None] = [
            None if number in without else self._prepared(number, specs) for number, specs in enumerate(self._specs)
        ]
        self._ready = [False] * len(self._changes)
        self._on = self._left = AS_IS

    def is_alive(self, arm: int) -> bool:
        """Whether an arm can still be switched on."""
        return self._changes[arm] is not None

    def gone(self, *, for_all: bool) -> int:
        """A bit for each arm that was given up; `for_all`: of those only that no rank of a job can have then.

        Not among these are levers that find nothing to change here: a function that one rank alone calls need not be there in others.
        """
        dead = [arm for arm, changes in enumerate(self._changes) if changes is None and not (for_all and arm in self._absent)]
        return sum(1 << arm for arm in dead)

    def has_levers(self, arm: int) -> bool:
        """Whether an arm has any."""
        return bool(self._specs[arm])

    def give_up(self, arm: int, reason: str) -> None:
        """Give up an arm for what is known elsewhere."""
        if self.is_alive(arm):
            self._give_up(arm, fmt.LEVER_NOT_APPLICABLE, reason)

    def are_ready(self) -> bool:
        """Whether every arm has seen what it needs."""
        # Each is asked: what one starts when it is asked (workers) takes its time beside the others.
        self._ready = [self._is_ready(arm) for arm in range(len(self._changes))]
        return all(self._ready)

    def give_up_unready(self) -> None:
        """Give up the arms that were not ready when they were asked last; the others are, from now on, known to be."""
        for arm, changes in enumerate(self._changes):
            if changes is not None and not self._ready[arm]:
                why = next((why for change in changes if (why := change.lacks()) is not None), NOT_IN_TIME)
                self._give_up(arm, fmt.LEVER_NOT_APPLICABLE, why)
            elif changes is not None:
                self._note(arm, fmt.LEVER_READY)

    def change_to(self, arm: int) -> int:
        """Switch to an arm; where that fails the arm is given up, and the training is as it was. Returns which arm is on.

        What the arm before it did is noted each time, and which one is on now: whoever reads it may end the process at any moment, and
        so may what the script meets with a lever.
        """
        self._left = self._on
        self._each(self._on, lambda change: change.off(), backwards=True)
        self.say_effect(self._on)
        self._recorder.note({"kind": "arm", "arm": arm})
        self._on = arm
        self._each(arm, lambda change: change.on())
        if not self.is_alive(arm):
            self._on = AS_IS
            self._recorder.note({"kind": "arm", "arm": AS_IS})
        return self._on

    def are_settled(self) -> bool:
        """Whether the arm that is on, and the one before it, leave the training as it will go on being."""
        return all(self._all(arm, lambda change: change.settled()) for arm in {self._on, self._left})

    def begin_counting(self, arm: int) -> None:
        """Tell the levers that are on that steps are counted from here on."""
        self._each(arm, lambda change: change.begin_counting())

    def each_step(self, arm: int) -> None:
        """Pass a boundary on to the levers that are on."""
        self._each(arm, lambda change: change.each_step())

    def close(self) -> None:
        """Switch off what is on, say once more what every arm did, and remove all levers."""
        self.change_to(AS_IS)
        for arm in range(len(self._changes)):
            self.say_effect(arm)
        # Backwards: two levers may have replaced the same function, the later one on top.
        for arm in reversed(range(len(self._changes))):
            self._remove(arm)
        self._changes = [None] * len(self._changes)

    def has_effect(self, arm: int) -> bool:
        """Whether an arm's levers have changed something by now."""
        return any(change.effect for change in self._changes[arm] or ())

    def say_effect(self, arm: int) -> None:
        """Note how often an arm's levers have changed something, and what else they measured."""
        changes = self._changes[arm] or []
        try:
            facts = {name: value for change in changes for name, value in change.facts().items()}
        except Exception as error:  # a lever's own fault: its arm is given up and named, the rest goes on
            self._give_up(arm, **self._became(arm, error))
            return
        if changes:
            self._note(arm, fmt.LEVER_EFFECT, effect=sum(change.effect for change in changes), facts=facts)

    def say_on(self, arm: int, updates: int) -> None:
        """Note that an arm is on for good, from the step after so many updates on."""
        self._note(arm, fmt.LEVER_ON, updates=updates)

    def end_for_loss(self, arms: Sequence[int], updates: int) -> None:
        """Give up arms because a loss was not finite, after so many updates: the one that was on, or both where one followed another."""
        names = " and ".join(self._names[arm] for arm in arms)
        how = "while it was on" if len(arms) == 1 else f"where {names} followed each other: whose doing it is is not known"
        for arm in arms:
            if not self.is_alive(arm):
                continue
            if arm == self._on:
                self._each(arm, lambda change: change.off(), backwards=True)
            self._remove(arm)
            self._changes[arm] = None
            self._note(arm, fmt.LEVER_FAILED, reason=f"the loss was not finite {how} (step {updates})", not_finite=updates)

    def say_spoilt(self, arms: Sequence[int], block: int) -> None:
        """Note that the training has not come back from what these arms did to it in a block."""
        for arm in arms:
            self._note(arm, fmt.LEVER_SPOILT, block=block)

    def _prepared(self, arm: int, specs: list[dict[str, Any]]) -> list[Change] | None:
        made: list[Change] = []
        try:
            for fields in specs:
                spec = LeverSpec(**fields)
                lever = self._levers[spec.name] = _known(spec.name)
                made.append(prepared(lever, self._training, spec))
        except Exception as error:  # a lever's own fault: its arm is given up and named, the rest goes on
            for change in reversed(made):
                self._try(arm, change.remove)
            self._note(arm, **self._became(arm, error))
            if isinstance(error, NotApplicable) and not any(self._changes_more(fields) for fields in specs):
                self._absent.add(arm)
            return None
        return made

    def _changes_more(self, fields: dict[str, Any]) -> bool:
        """Whether a lever changes more than the time that something takes."""
        lever = self._levers.get(str(fields.get("name")))
        return lever is None or bool(lever.changes)

    def _is_ready(self, arm: int) -> bool:
        return self._all(arm, lambda change: change.ready())

    def _all(self, arm: int, ask: Callable[[Change], bool]) -> bool:
        """Whether all levers of an arm say yes; one that fails has no say any more."""
        try:
            return all(ask(change) for change in self._changes[arm] or ())
        except Exception as error:  # a lever's own fault: its arm is given up and named, the rest goes on
            self._give_up(arm, **self._became(arm, error))
            return True

    def _each(self, arm: int, act: Callable[[Change], None], *, backwards: bool = False) -> None:
        changes = self._changes[arm] or []
        for change in reversed(changes) if backwards else changes:
            try:
                act(change)
            except Exception as error:  # a lever's own fault: its arm is given up and named, the rest goes on
                self._give_up(arm, **self._became(arm, error))
                return

    def _give_up(self, arm: int, state: str, reason: str, **more: Any) -> None:
        for change in reversed(self._changes[arm] or ()):
            self._try(arm, change.off)
        self._remove(arm)
        self._changes[arm] = None
        self._note(arm, state, reason=reason, **more)

    def _remove(self, arm: int) -> None:
        for change in reversed(self._changes[arm] or ()):
            self._try(arm, change.remove)

    def _try(self, arm: int, act: Callable[[], None]) -> None:
        try:
            act()
        except NotApplicable:
            # The reason for which the arm is given up, said once more.
            return
        except Exception as error:  # a lever's own fault: its arm is given up and named, the rest goes on
            self._note(arm, fmt.LEVER_NOT_UNDONE, reason=f"{type(error).__name__}: {error}")

    def _note(self, arm: int, state: str, **more: Any) -> None:
        self._recorder.note({"kind": "lever", "arm": arm, "name": self._names[arm], "state": state, **more})

    def _became(self, arm: int, error: Exception) -> dict[str, Any]:
        """What becomes of an arm whose lever raised this; `rerun` is where a run of its own would have to build its loader otherwise."""
        place = self._training.place if isinstance(error, NotHere) and self._can_build(arm) else None
        return became(error) | ({} if place is None else {"rerun": place})

    def _can_build(self, arm: int) -> bool:
        return all(can_build(fields["name"]) for fields in self._specs[arm])


def _known(name: str) -> Lever:
    lever = find_lever(name)
    if lever is None:
        raise NotApplicable(f"there is no lever {name!r}")
    return lever


def became(error: Exception) -> dict[str, Any]:
    """What becomes of a lever that raised this: a state, and the reason."""
    if isinstance(error, NotApplicable):
        return {"state": fmt.LEVER_NOT_APPLICABLE, "reason": str(error)}
    return {"state": fmt.LEVER_FAILED, "reason": f"{type(error).__name__}: {error}"}
