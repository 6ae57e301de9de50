"""The words of a framework: how its users write a change of their training, and by which of its files it is known."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from enum import Enum
from typing import Final


class Remedy(Enum):
    """What rules ask to be changed; each framework has an argument of its own for it, or none."""

    WORKERS = "worker processes of the loader"
    PERSISTENT_WORKERS = "whether they outlive an epoch"
    PREFETCH = "batches that each makes ahead"
    ANY_ORDER = "whether batches may come in another order"
    PIN_MEMORY = "batches in pinned memory"
    COPY_AHEAD = "copies to the device that nobody waits for"
    KEEP_LOADER = "one loader for all epochs"
    BATCH_SIZE = "samples in a batch"
    ACCUMULATE = "batches in an update"
    FUSED = "an optimizer with one pass over its parameters"
    FUSED_ADAMW = "the same of the AdamW that the framework makes by itself"
    COMPILE = "a compiled model"
    GRAPHS = "a compiled model whose kernels are launched together"
    BFLOAT16 = "mixed precision with bfloat16"
    FLOAT16 = "mixed precision with float16"
    TF32 = "products of float32 on Tensor Cores"
    DEVICE = "an accelerator"
    WHOLE_BATCHES = "batches that are taken whole from data in memory"
    VALIDATION_BY_STEPS = "validations by steps, not by epochs"
    VALIDATION_STEPS = "steps between validations"
    VALIDATION_BATCHES = "batches between validations"
    VALIDATION_EPOCHS = "epochs between validations"
    VALIDATION_LENGTH = "batches in a validation"
    VALIDATION_BATCH_SIZE = "samples in a batch of a validation"
    CHECKPOINT_BY_STEPS = "checkpoints by steps, not by epochs"
    CHECKPOINT_STEPS = "steps between checkpoints"
    CHECKPOINT_WEIGHTS = "checkpoints of the weights alone"
    CHECKPOINT_ASIDE = "checkpoints that a background thread writes"
    LOGGING_STEPS = "steps between log entries"
    PROGRESS_BAR = "the progress bar"
    ANOMALY = "anomaly detection"
    DETERMINISM = "deterministic algorithms"


# What of them is the loader's, whichever framework trains.
OF_LOADER: Final = frozenset(
    {
        *(Remedy.WORKERS, Remedy.PERSISTENT_WORKERS, Remedy.PREFETCH, Remedy.ANY_ORDER, Remedy.PIN_MEMORY, Remedy.KEEP_LOADER),
        *(Remedy.BATCH_SIZE, Remedy.WHOLE_BATCHES),
    }
)


class Code(Enum):
    """What stacks and timed calls of a recording show of a framework, by the file that a frame is of."""

    TRAINS = "all of it that trains, its loop included"
    COMPUTES = "all of what computes"
    STEPS = "what a step consists of: layers, gradients, updates"
    OPTIMIZERS = "optimizers, and what wraps their calls"
    OWN_OPTIMIZERS = "optimizers of its own"
    UPDATE = "what wraps every update"
    MODEL_CALL = "what calls a model"
    MODEL_HOOKS = "what calls the hooks of models"
    LAYERS = "layers of models"
    CONVOLUTIONS = "layers that convolve"
    GRADIENTS = "what computes gradients where it is called for them"
    GENERATED = "what calls code that a compiler has written"
    COMPILER = "a compiler at work"
    DECORATOR = "what stands between a caller and a function that is decorated"
    LOADER = "what makes and hands over batches"
    REQUEST = "what is asked for the next batch"
    FETCH = "what makes one batch"
    REPORTS = "what does something with results"
    HOOK_OF_BACKWARD = "what slowstep puts in the place of a backward pass"
    HOOK_OF_REQUEST = "what slowstep puts in the place of a request for a batch"
    HOOK_OF_COLLATE = "what slowstep puts around the collating of a batch"


@dataclass(frozen=True, kw_only=True, slots=True)
class Argument:
    """An argument of a call, as scripts write it: of `Trainer({arguments})` the `name`, with its value.

    `owner` is where what is called can be imported from. `value` is what makes the change where there is one choice; else whoever asks
    gives it. `{kind}` is the class that the script chose.
    """

    call: str
    owner: str
    name: str
    value: object = None


@dataclass(frozen=True, kw_only=True, slots=True)
class Words:
    """How users of a framework write changes. What it has no word for is said in those of the framework that it `rests_on`.

    `code` has patterns that find files of it in paths with any separator; `loop` finds one of its training loop, `marks` what a profiler's
    trace calls it; of one that is `beneath` others, these train where both are seen. `places` are where scripts make some calls, and
    `made_in` the hooks of the user's that make them, by whose ranges a recording tells whose hook it was; `lacks` is what it does not let
    them change. `loader` is what makes batches.
    """

    name: str
    title: str
    arguments: Mapping[Remedy, Argument | str]
    code: Mapping[Code, str] = field(default_factory=dict)
    loop: re.Pattern[str] | None = None
    marks: re.Pattern[str] | None = None
    beneath: bool = False
    places: Mapping[str, str] = field(default_factory=dict)
    made_in: Mapping[str, str] = field(default_factory=dict)
    lacks: frozenset[Remedy] = frozenset()
    rests_on: Words | None = None
    loader: str = ""

    @property
    def loader_class(self) -> str:
        """What makes batches is called."""
        return self.loader or (self.rests_on.loader_class if self.rests_on is not None else "loader")

    @property
    def has_loop(self) -> bool:
        """Whether the training loop is the framework's, and no script's."""
        return self.loop is not None and not self.beneath

    def find(self, change: Remedy) -> Argument | str | None:
        """The argument that makes a change, or a phrase where that is no argument; None where there is no one word for it."""
        found = self.arguments.get(change)
        if found is not None or self.rests_on is None or change in self.lacks:
            return found
        return self.rests_on.find(change)

    def fed_by(self, loader: Words) -> Words:
        """The same where it reads a loader of another framework: changes of the loader are written as that one's users do."""
        if loader.name in self._names():
            return self
        theirs = {change: found for change in OF_LOADER - self.lacks if (found := loader.find(change)) is not None}
        own = {change: found for change, found in self.arguments.items() if change not in OF_LOADER}
        return replace(self, arguments=own | theirs, lacks=self.lacks | (OF_LOADER - theirs.keys()), loader=loader.loader_class)

    def _names(self) -> set[str]:
        return {self.name, *(self.rests_on._names() if self.rests_on is not None else ())}

    def has(self, *changes: Remedy) -> bool:
        """Whether there are words for all of the changes."""
        return all(self.find(change) is not None for change in changes)

    def write(self, changes: Mapping[Remedy, object], *, kind: str = "") -> str:
        """The changes as a script makes them, those without a word left out: "DataLoader(..., num_workers=2, persistent_workers=True)".

        The values are the arguments'; an ellipsis stands for one that is not known, or the user's to choose.
        """
        calls: dict[str, list[str]] = {}
        for change, value in changes.items():
            found = self.find(change)
            if isinstance(found, Argument):
                given = value if found.value is None else found.value
                calls.setdefault(found.call, []).append(f"{found.name}={_written(given)}")
            elif found is not None:
                calls[found] = []
        return " and ".join(self._call(call, arguments, kind) if arguments else call for call, arguments in calls.items())

    def placed(self, ranges: Iterable[str]) -> Words:
        """The same where a recording has these ranges: a call is where the one hook made it that was seen to ("Data.train_dataloader")."""
        seen = list(ranges)
        found = {call: [name for name in seen if name.endswith(f".{hook}")] for call, hook in self.made_in.items()}
        known = {call: f" in {names[0]}()" for call, names in found.items() if len(names) == 1}
        return replace(self, places={**self.places, **known}) if known else self

    def name_of(self, change: Remedy) -> str | None:
        """What the argument itself is called; None where there is none."""
        found = self.find(change)
        return found.name if isinstance(found, Argument) else None

    def _call(self, call: str, arguments: list[str], kind: str) -> str:
        place = next((place for begin, place in self.places.items() if call.startswith(begin)), "")
        return call.format(kind=kind, arguments=", ".join(arguments)) + place


def _written(value: object) -> str:
    if value is ...:
        return "..."
    return f'"{value}"' if isinstance(value, str) else str(value)
