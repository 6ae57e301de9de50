"""Levers that are on all the time: asked for by name (`slowstep run --with LEVER`), or one side of a re-run."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from slowstep.record.experiment.arms import READY_NS, Arms
from slowstep.record.experiment.building import FIRST_SAID, AtBuilding, builders
from slowstep.record.experiment.lever import LeverSpec

if TYPE_CHECKING:
    from slowstep.record.experiment.training import Training
    from slowstep.record.recorder import Recorder

_ON: Final = 1


class Always:
    """Switches on each lever at the first boundary at which it is ready: the first step is always as it is, and so are the first few where
    several loaders are read, until it is known which of them is waited for.

    Each has arms of its own, so that one that is unknown, has no meaning or fails leaves the others on. Where the recorder knows the place
    at which the training's loader is built, those that can change it there do so, and are on in the first step too.
    """

    def __init__(self, recorder: Recorder, training: Training, specs: list[dict[str, Any]]) -> None:
        self._recorder, self._training = recorder, training
        self._specs = specs
        self._builders = builders(recorder, training)
        self._levers: list[_AlwaysOn | AtBuilding] | None = None

    def built(self, loader: Any, place: int, framework: str) -> None:
        """The script has built a loader of a framework."""
        if place == self._recorder.loader_place:
            for lever in self._builders:
                lever.change(loader, framework)

    def boundary(self, at_ns: int) -> None:
        """A step has ended at this instant (ns)."""
        if self._levers is None:
            if self._specs and not (self._builders or self._training.is_feeder_known):
                return
            self._levers = self._prepared(at_ns)
        for lever in self._levers:
            lever.boundary(at_ns)

    def close(self) -> None:
        """Switch all of them off, and remove them."""
        for lever in reversed(self._levers or ()):
            lever.close()
        self._levers = []

    def _prepared(self, at_ns: int) -> list[_AlwaysOn | AtBuilding]:
        if self._specs:
            # Notes are written once the files are there.
            self._recorder.ensure_open()
        if self._builders:
            return list(self._builders)
        if self._specs:
            self._training.hold()
        return [_AlwaysOn(Arms(self._recorder, self._training, _arms(fields)), self._training, at_ns) for fields in self._specs]


class _AlwaysOn:
    def __init__(self, arms: Arms, training: Training, since_ns: int) -> None:
        self._arms, self._training, self._since_ns = arms, training, since_ns
        self._is_on = False
        self._steps, self._say_at = 0, FIRST_SAID
        self._has_acted = False

    def boundary(self, at_ns: int) -> None:
        if not self._arms.is_alive(_ON):
            return
        if self._is_on:
            self._arms.each_step(_ON)
            self._count()
        elif self._arms.are_ready() or at_ns - self._since_ns > READY_NS:
            self._arms.give_up_unready()
            if self._arms.is_alive(_ON) and self._arms.change_to(_ON) == _ON:
                self._is_on = True
                self._arms.say_on(_ON, self._training.updates)

    def close(self) -> None:
        self._arms.close()

    def _count(self) -> None:
        self._steps += 1
        # That it has changed anything at all is said at once: else nobody knows what the run shows of it.
        acts_first = not self._has_acted and self._arms.has_effect(_ON)
        self._has_acted |= acts_first
        if self._steps == self._say_at:
            self._say_at *= 10
        elif not acts_first:
            return
        self._arms.say_effect(_ON)


def _arms(fields: dict[str, Any]) -> list[dict[str, Any]]:
    try:
        name = str(LeverSpec(**fields))
    except TypeError:
        # A field too many or none: preparing the arm fails as well, and says why.
        name = str(fields.get("name"))
    return [{"name": "as-is", "levers": []}, {"name": name, "levers": [fields]}]
