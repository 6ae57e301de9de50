"""What levers that leave out calls have in common: what is replaced while they are on, one step in k left as it is, and counts by name."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Mapping
from typing import Any

from slowstep.levers._calls.handing import Call, Function, Handler
from slowstep.levers._calls.intercept import intercept, release_all
from slowstep.levers._calls.turns import CallTurns
from slowstep.record.experiment.lever import Change, LeverSpec
from slowstep.record.experiment.made_calls import TRAINER
from slowstep.record.experiment.training import Training
from slowstep.record.patch import Undo, all_of

# Whether a call, by its arguments, is one that is meant at all.
Meant = Callable[[tuple[Any, ...], dict[str, Any]], bool]


class CallsOff(Change):
    """Leaves out calls of functions while it is on, of whole steps: one in `every` of those that have such calls keeps them."""

    def __init__(self, training: Training, every: int) -> None:
        self.training = training
        self._undos: list[Undo] = []
        self._counts: Counter[str] = Counter()
        self._turns, self._leaves_out = CallTurns(every), True
        # Steps since the beginning, and the last one that had such calls.
        self._step, self._decided = 0, -1
        # Asked now: later there may be no trainer whose loop runs.
        self._arguments = self.as_arguments(every) if every > 1 else {}
        if release_all not in training.recorder.forgetters:
            training.recorder.forgetters.append(release_all)

    @classmethod
    def prepare(cls, training: Training, spec: LeverSpec) -> Change:
        """A `Prepare` of this change: where there are no such calls nothing is left out, and the effect is 0. Raises as its constructor."""
        return cls(training, spec.every)

    def replaced(self) -> Iterable[tuple[Function, Handler]]:
        """Functions, each with what handles its calls while the change is on; asked for each time that it is switched on."""
        raise NotImplementedError

    def on(self) -> None:
        """Leave the calls out."""
        self._step += 1
        self._turns.begin_block()
        for function, handler in self.replaced():
            self.add_undo(intercept(function, handler))

    def begin_counting(self) -> None:
        """Have the turns of `every` go on from the last counted step."""
        self._step += 1
        self._turns.begin_counting()

    def each_step(self) -> None:
        """The next step decides anew."""
        self._step += 1

    def off(self) -> None:
        """Have all of them made again."""
        all_of(self._undos)()

    def remove(self) -> None:
        """Nothing is left once it is off."""
        self.off()

    def as_arguments(self, every: int) -> Mapping[str, Any]:
        """What leaving out all but one call in so many is among the arguments of a trainer; nothing where it is none of them."""
        return {}

    def is_of_trainer(self, name: str) -> bool:
        """Whether calls that are counted by a name are those which these arguments decide about."""
        return True

    def facts(self) -> Mapping[str, Any]:
        """How many calls were left out, by name, and what that is among a trainer's arguments, where nothing else was."""
        told = {"left_out": dict(self._counts)}
        if not self._arguments or not all(map(self.is_of_trainer, self._counts)):
            return told
        return {**told, "arguments": dict(self._arguments), "arguments_of": TRAINER}

    def add_undo(self, undo: Undo) -> None:
        """Have something undone by `off`."""
        self._undos.append(undo)

    def leaves_out(self) -> bool:
        """Whether calls of the step that is under way are left out."""
        if self._decided != self._step:
            self._decided, self._leaves_out = self._step, self._turns.is_left_out()
        return self._leaves_out

    def count(self, name: str) -> None:
        """Count a call that was left out."""
        self.effect += 1
        self._counts[name] += 1

    def nothing(self, name: str, result: Any = None, meant: Meant | None = None) -> Handler:
        """A handler that leaves out what is meant, and gives `result`."""

        def handler(call: Call, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
            if (meant is not None and not meant(args, kwargs)) or not self.leaves_out():
                return call(*args, **kwargs)
            self.count(name)
            return result

        return handler
