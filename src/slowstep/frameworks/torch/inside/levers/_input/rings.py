"""Rings in place of all loaders that feed a training: with one of them still waited for, cached batches would show nothing."""

from __future__ import annotations

import statistics
from collections.abc import Mapping
from typing import Any

from slowstep.frameworks.torch.inside.levers._input.ring import Ring
from slowstep.record.experiment.lever import Change
from slowstep.record.experiment.training import Training


def rings(training: Training, size: int, *, across_epochs: bool = False) -> Change:
    """A ring for each loader. Raises NotApplicable where no torch DataLoader feeds the training."""
    made = Ring if len(training.feeders) == 1 else Rings
    return made(training, size, across_epochs=across_epochs)


class Rings(Change):
    """One ring for each of several loaders, all on or off together."""

    def __init__(self, training: Training, size: int, *, across_epochs: bool) -> None:
        self._rings = list[Ring]()
        try:
            for feeder in training.feeders:
                self._rings.append(Ring(feeder, size, across_epochs=across_epochs))
        except BaseException:
            self.remove()
            raise

    def ready(self) -> bool:
        """Whether all are. Raises as each."""
        # Each is asked: what one begins when it is asked goes on beside the others.
        are_ready = [ring.ready() for ring in self._rings]
        return all(are_ready)

    def on(self) -> None:
        """Give their batches. Raises RuntimeError, with none of them on, where another change gives one loader's."""
        done = list[Ring]()
        try:
            for ring in self._rings:
                ring.on()
                done.append(ring)
        except BaseException:
            for ring in done:
                ring.off()
            raise

    def off(self) -> None:
        """Have all loaders give them again."""
        for ring in reversed(self._rings):
            ring.off()

    def each_step(self) -> None:
        """Raises what went wrong in one of them."""
        for ring in self._rings:
            ring.each_step()
        self.effect = sum(ring.effect for ring in self._rings)

    def settled(self) -> bool:
        """Whether all are."""
        return all(ring.settled() for ring in self._rings)

    def remove(self) -> None:
        """Leave nothing behind."""
        for ring in reversed(self._rings):
            ring.remove()

    def facts(self) -> Mapping[str, Any]:
        """Those of the loader that is waited for most; the floor is what each given batch takes on average, of those where it is known."""
        self.effect = sum(ring.effect for ring in self._rings)
        each = [ring.facts() for ring in self._rings]
        floors = [facts["floor_ns"] for facts in each if facts["floor_ns"] is not None]
        return {**each[0], "floor_ns": int(statistics.mean(floors)) if floors else None, "mocked": len(each)}
