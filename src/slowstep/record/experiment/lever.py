"""What a lever is: one change made to a running training from outside, switched on and off at step boundaries, and undone without a trace.

A file of `slowstep/levers` defines `LEVER`, which says what the change is. How it is made says, for each framework, an `IMPLEMENTATION` in
`frameworks/NAME/inside/levers`: its `prepare` gets the training and the lever's specification, and returns a `Change`. Levers are for
sandboxed trainings; they still raise nothing into the script: what a replaced function returns must be of use to it.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    from slowstep.record.experiment.training import Training

# What a lever changes beside the time: how numbers come out, in which order data comes, how much of the machine the job asks for.
NUMERICS: Final = "numerics"
ORDER: Final = "order"
DEMAND: Final = "demand"
# What is noted of an error that the script meets with a lever on and that is its own: it would have met it without the lever too.
OWN_ERROR: Final = "own_error"

# Of what levers measure (`Change.facts`), that which counts up for as long as a process lives: where a script is started several times its
# sum is told, and of anything else what was measured last. `left_out` is such a number for each name.
COUNTERS: Final = frozenset(
    ("kept_ns", "batches_kept", "calls", "calls_in_workers", "left_out", "empty_files", "loads", "epoch_changes"),
)


class OnLongSteps(StrEnum):
    """What a lever does to steps that are seldom and long, and not for a loader that is waited for (a validation, a checkpoint)."""

    KEPT = "kept"
    PERHAPS = "perhaps"  # it may make them shorter or longer
    OWN = "own"  # it decides whether there are any


class NotApplicable(Exception):
    """The lever has no meaning in this training; the message ends the sentence "not applicable, because ..."."""


class NotHere(NotApplicable):
    """It has a meaning, but cannot be switched in a running training; a run that has it from its start on may be possible."""


@dataclass(frozen=True, slots=True, kw_only=True)
class LeverSpec:
    """A lever as it was asked for: `workers=4`, `stub=train:plot`, `checkpoint-off:every=10`."""

    name: str
    value: str | None = None
    every: int = 1

    def __str__(self) -> str:
        """As it is written on a command line."""
        value = "" if self.value is None else f"={self.value}"
        return f"{self.name}{value}" + (f":every={self.every}" if self.every > 1 else "")


class Change:
    """A lever made ready in one training. Called on the training thread, between two steps, and never while inside the change.

    `on` and `off` alternate, many times; `remove` comes last, once, after `off`. All of them may raise: the arm is given up then, and said.
    `effect` counts what was changed so far (calls left out, batches mocked), and is the evidence that the lever did something.
    """

    effect: int = 0

    def on(self) -> None:
        """Make the change."""
        raise NotImplementedError

    def off(self) -> None:
        """Undo it: the training goes on as it was, perhaps not at once, see `settled`."""
        raise NotImplementedError

    def remove(self) -> None:
        """Undo what `prepare` did. Nothing is left behind: no patch, thread, process or file."""

    def ready(self) -> bool:
        """Whether it may be switched on: what it needs to see of the training (batches, calls) has been seen."""
        return True

    def lacks(self) -> str | None:
        """What it still needs where it was not ready in time, to end the sentence "not applicable, because ..."; None: it was not seen."""
        return None

    def begin_counting(self) -> None:
        """Called at the boundary from which on the steps of a block are counted; those between `on` and it only settled."""

    def each_step(self) -> None:
        """Called at every boundary inside the arm's blocks."""

    def settled(self) -> bool:
        """Asked at boundaries after `on` and after `off`: whether the next step is as it will go on being."""
        return True

    def facts(self) -> Mapping[str, Any]:
        """What else was measured, as JSON: a peak of memory, the files that were dropped from the cache ...

        What counts up is named in COUNTERS.
        """
        return {}


# Makes a change ready. Raises NotApplicable, with the reason, or TooManyObjects, and ValueError for a value that cannot be meant.
Prepare = Callable[["Training", LeverSpec], Change]
# Makes the change to a loader that the script has just built, for good, and says as JSON what it made of it. Where it raises the same, it
# leaves the loader as it was.
Build = Callable[[Any, LeverSpec], Mapping[str, Any]]


@dataclass(frozen=True, slots=True, kw_only=True)
class Lever:
    """A kind of change. `takes` names its value in messages ("N", "MODULE:FUNCTION"), None where it takes none.

    `every`: whether `:every=k` is understood, which leaves one call in k as it is. `changes` holds NUMERICS, ORDER and DEMAND,
    `long_steps` says whether seldom long steps may count alike with it and without. `read` raises ValueError for a value that cannot be
    meant, from the specification alone: so a typo is reported before a training is started for it.
    `harms` says what it would do to files of the user's where no sandbox holds back all writes: it is refused there. None: nothing.
    `same_numbers` is False where numbers may differ though `changes` names none: code of the user's is left out, or sums are made in other
    parts. `prepare` is there where the change can be made whichever framework trains; one that has its own way goes before it. `hint` says
    what to do instead where nothing makes the change.
    """

    name: str
    takes: str | None = None
    takes_optional: bool = False
    every: bool = False
    changes: frozenset[str] = frozenset()
    long_steps: OnLongSteps = OnLongSteps.KEPT
    read: Callable[[LeverSpec], object] | None = None
    harms: str | None = None
    same_numbers: bool = True
    prepare: Prepare | None = None
    hint: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Implementation:
    """How a framework makes a lever's change. `acts_on_loader`: also where its loader feeds another framework's training; `computes_with`:
    of one that trains on others, only where this one computes for it.
    """

    lever: Lever
    prepare: Prepare
    build: Build | None = None
    acts_on_loader: bool = False
    computes_with: str | None = None

    @property
    def name(self) -> str:
        """That of its lever."""
        return self.lever.name
