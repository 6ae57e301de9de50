"""The topic `training`: whose loop trains, and in whose words fixes are written."""

from __future__ import annotations

from dataclasses import dataclass

from slowstep.faults import MayLack
from slowstep.frameworks._words import Words


@dataclass(frozen=True, kw_only=True, slots=True)
class TrainingTopic(MayLack):
    """The training as its users know it."""

    words: Words  # of the framework that trains
    level: int | None = None  # how much of it was recorded, 0 to 2; None of a trace
    from_within: bool = False  # whether its own process began the recording, by slowstep.record(); else slowstep run did
    reads: str | None = None  # what the framework's own loop was given, of which its words know the kinds; None of a loop of the script's
    is_training: bool = True  # False where there is no backward pass: inference, or a part of a training that shows none
