"""The names that a framework's events have in profilers' traces, and what the inputs of its operators are."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import Enum


class Event(Enum):
    """What events are, by their names. A Python function is written as profilers do: `torch/serialization.py(961): save`."""

    TRAINS = "what has no use but a backward pass or an update"
    BACKWARD = "what a backward pass consists of, on the thread that makes it"
    GRADIENT_NODE = "what computes gradients, around the operators that it consists of"
    ENGINE = "what the engine of gradients names like operators"
    ENGINE_WAIT = "what waits while other threads compute gradients or exchange them"
    UPDATE = "a call of the optimizer"
    MODULE = "the call of a module: the beginning of its name"
    MODEL = "what is written around a model's own work"
    STEP = "what a step consists of, as the loop calls it"
    FORWARD = "the part of a step that calls the model, and with its own optimization the optimizer too"
    OWN = "ranges around a step's own work, which nobody else has named"
    RUNTIME = "ranges of the runtime's own around its work, on the thread that calls it"
    CALLBACK = "the call of a callback"
    INPUT_WAIT = "a wait for input"
    INPUT_WAIT_FUNCTION = "a Python function that waits for input"
    LOADER_REQUEST = "the request for a batch, by the loader's own name"
    REQUEST_ALONE = "the request to a loader that makes its batches where they are asked for"
    INPUT_ELSEWHERE = "the taking of input on another thread, which the step waits for"
    CHECKPOINT_FUNCTION = "a Python function that writes a checkpoint"
    COMPILATION = "compiling"
    COMPILATION_FUNCTION = "a Python function that compiles"
    BUILD_FUNCTION = "a Python function that builds what the script extends the framework by"
    COLLECTIVE = "an exchange with other ranks"
    ON_DEVICE = "what only runs on an accelerator"
    COMPUTES_NOTHING = "an operator that computes nothing: a view, a shape, an allocation, the reading of one number"
    NO_OPERATOR = "what is named like an operator, and consists of operators"
    COPY_AND_WAIT = "an operator that copies to the host and waits for that"
    NEEDS_ANSWER = "an operator that cannot go on without a number that only the device knows"
    SCALE_CHECK = "a gradient scaler's look for infinities"
    SCALE_READ = "the reading of its answer"
    SCALE_FOLLOWS = "what follows that first"
    SCALE_UPDATE = "its update of the factor"
    FUSED = "a kernel that a compiler has made of several operations"
    PARAMETERS = "what brings parameters from elsewhere, or updates them"


class Takes(Enum):
    """What an operator makes of the inputs that are named beside it."""

    FACTORS = "two factors of a product of matrices"
    ROWS = "rows, and a weight of as many outputs and inputs"
    VECTOR = "a product with a vector"
    WEIGHT = "the weight of a convolution"


@dataclass(frozen=True, slots=True)
class Operator:
    """What an operator computes, and at which places of its inputs stand the factors, or the weight."""

    takes: Takes
    inputs: tuple[int, ...] = ()


@dataclass(frozen=True, kw_only=True, slots=True)
class BatchInputs:
    """Operators by which a batch's size is told, by their names: those that take `samples`, which of their inputs it is and the number of
    its dimensions; those that take `rows`, which are samples or positions of samples, and those that put a batch elsewhere (`moves`).
    """

    samples: Mapping[str, tuple[int, int]] = field(default_factory=dict)
    rows: frozenset[str] = frozenset()
    moves: frozenset[str] = frozenset()


@dataclass(frozen=True, kw_only=True, slots=True)
class TraceEvents:
    """Patterns by what they find (flags in groups, for they are joined), and operators by their names."""

    name: str
    patterns: Mapping[Event, str]
    operators: Mapping[str, Operator] = field(default_factory=dict)
    batches: BatchInputs = field(default_factory=BatchInputs)
