"""A train function that is handed several turns of `fit` at once, in the place of the one that is called for each."""

from __future__ import annotations

import sys
from collections.abc import Mapping
from typing import Any, Final

from slowstep.frameworks.keras.inside._epochs import GroupedEpochs, ends_before_data, epochs_of, length_of
from slowstep.frameworks.keras.inside._train_functions import TrainFunction
from slowstep.record.experiment.lever import NotApplicable
from slowstep.record.experiment.training import Training
from slowstep.record.recorder import now

# The first is traced, the second shows that it runs.
_SETTLING: Final = 2
SHORT: Final = "an epoch ends after {length} batches, and its data go on: a call of {steps} would train on more than were asked for"


class GroupedFunction(TrainFunction):
    """The other train function of a model whose `fit` runs, for so many turns at once, of `steps` batches in all; `effect` counts its calls
    while it is on.
    """

    def __init__(self, training: Training, model: Any, attributes: Mapping[str, Any], epochs: Any, *, steps: int, turns: int) -> None:
        self._training, self._steps, self._most = training, steps, turns
        super().__init__(training, model, attributes, settling=_SETTLING)
        # A function of one step fetches by `get_next()`, one of several finds nothing more.
        self._ends = (StopIteration, sys.modules["tensorflow"].errors.OutOfRangeError)
        self._groups = self._grouped(epochs)

    def ready(self) -> bool:
        """Whether it is traced. Raises NotApplicable where it cannot be."""
        self._follow()
        return super().ready()

    def each_step(self) -> None:
        """Raises NotApplicable where the step could not be traced."""
        self._broken = self._broken or self._groups.broken
        super().each_step()
        self._follow()

    def remove(self) -> None:
        """Put back what there was."""
        super().remove()
        self._groups.remove()

    def _follow(self) -> None:
        """Another call of `fit` has other epochs."""
        epochs = epochs_of(self._model)
        if epochs is not None and not self._groups.is_of(epochs):
            self._groups.remove()
            self._groups = self._grouped(epochs)

    def _grouped(self, epochs: Any) -> GroupedEpochs:
        check_length(epochs, self._steps)
        return GroupedEpochs(epochs, self._most, self._groups_turns)

    def _groups_turns(self) -> bool:
        return self._original is not None and self._broken is None

    def _is_wanted(self) -> bool:
        return self._groups.turns > 1

    def _called(self, iterator: Any) -> Any:
        began_ns = now()
        result = super()._called(iterator)
        self._training.called_once(self._groups.turns, began_ns)
        return result

    def _as_it_was(self, original: Any, iterator: Any) -> Any:
        """All batches of the group, one by one. Where the data end after the first, those that were made are told of."""
        turns, began_ns, result, made = self._groups.turns, now(), original(iterator), 1
        while made < turns:
            try:
                result = original(iterator)
            except self._ends:
                break
            made += 1
        if turns > 1:
            self._training.called_once(made, began_ns)
        return result


def check_length(epochs: Any, steps: int) -> None:
    """Raises NotApplicable where an epoch ends after fewer batches than so many, though its data go on."""
    length = length_of(epochs)
    if length and length < steps and ends_before_data(epochs):
        raise NotApplicable(SHORT.format(length=length, steps=steps))
