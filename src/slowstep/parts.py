"""What the time of a step is divided among: a part is a named piece of a stage, as a value. Its words are made in part_words.py."""

from __future__ import annotations

from dataclasses import dataclass, replace
from enum import StrEnum
from typing import NamedTuple

from slowstep.stages import UNATTRIBUTED


class PartKind(StrEnum):
    """What a part is. Of some kinds there is one part in a stage; of those that say so there are several, told apart by name and place."""

    # The training's own work.
    FORWARD_AND_REST = "forward_and_rest"
    FORWARD = "forward"
    FORWARD_BY_STACKS = "forward_by_stacks"
    BACKWARD = "backward"
    OPTIMIZER = "optimizer"
    UPDATES = "updates"  # whole ones, by a framework that has no optimizer and no span within them
    COMPILING = "compiling"
    COMPILATION = "compilation"  # of a function that has a name
    # In a script without an optimizer: functions that name gradients, and the loop's own lines, which may hold the update and more.
    UPDATE_BY_HAND = "update_by_hand"
    BESIDE_BACKWARD = "beside_backward"  # a function, or lines
    # In one that is not fed and calls no module: the forward, or what makes its input.
    BEFORE_BACKWARD = "before_backward"  # a function, or lines

    # The training thread stands still.
    CORE_WAIT = "core_wait"
    HELD_UP = "held_up"  # blocked, while other Python threads of the process compute
    RANK_WAIT = "rank_wait"
    COLLECTIVE = "collective"

    # A wait for a loader's batch, by the account of who made it, and the loader's begin and end.
    SAMPLES = "samples"
    COLLATE = "collate"
    PRODUCER_COLLECTION = "producer_collection"
    PRODUCER_CORE_WAIT = "producer_core_wait"
    LOCK_WAIT = "lock_wait"
    STORAGE = "storage"
    BLOCKED = "blocked"
    TRANSPORT = "transport"  # from the process that made it
    LOADER_OVERHEAD = "loader_overhead"  # without workers: what else a request takes
    SAMPLER = "drawing"  # the loader's, which draws indices
    LOADER_START = "loader_start"
    LOADER_END = "loader_end"
    # What a loop without a loader does before its forward is input; these no worker of a loader could take over.
    ROLL_OUT = "roll_out"  # a function, or lines
    THREAD_WAIT = "thread_wait"  # a function, or lines

    # What the script does, by stacks, timed calls, or the name that it has given.
    FUNCTION = "function"
    LINES = "lines"  # of the training loop itself, or of a comprehension in it
    LIBRARY_CALL = "library_call"  # by the loop itself, on a line that is not known
    SPAN = "span"

    # What a framework calls, by the names of those.
    CALLBACK = "callback"
    PROGRESS_BAR = "progress_bar"
    LOGGING = "logging"
    METRICS = "metrics"
    TRANSFORM = "transform"
    CHECKPOINT = "checkpoint"
    SAVE = "save"  # a function that writes a checkpoint
    SAVING_FUNCTION = "saving_function"  # the script's, that calls one: what it does beside the writing
    SMALL_CALLBACKS = "small_callbacks"
    SMALL_PARTS = "small_parts"  # of which there are too many to keep all apart
    VALIDATION = "validation"
    COLLECTION = "collection"  # of garbage

    # Of a trace. The device works, or a copy or collective runs and nothing of higher rank.
    KERNELS = "kernels"
    DEVICE_COPIES = "device_copies"
    MEMSETS = "memsets"
    COLLECTIVES = "collectives"
    COPIES = "copies"
    # It has nothing to do.
    LAUNCH = "launch"  # host time that nothing else names, up to the launch of the next kernel
    RUN_DRY = "run_dry"  # after a call, which waited for it; its place is where that was called
    NO_LAUNCH = "no_launch"
    # Without a device: operators of which the pass is not told, what is between operators, and outside of the training.
    OPERATORS = "operators"
    BETWEEN_OPERATORS = "between_operators"
    NOTHING_RECORDED = "nothing_recorded"
    # It is not known what the producer of the batch did: a trace of the training process cannot tell, and not everything is recorded.
    INPUT_WAIT = "input_wait"

    FROM_CAPTURE = "from_capture"  # of a stage that hooks cannot see
    UNATTRIBUTED = "unattributed"

    # Of a device that is seen from afar: it worked, on what is not seen; and it is not known whether it did.
    DEVICE_WORK = "device_work"
    UNKNOWN = "unknown"


class PieceKind(StrEnum):
    """Which piece of a part a finding is about, where that is not all of it. Of some kinds there are several, distinguished by names."""

    INSIDE_STEPS = "inside_steps"
    BETWEEN_STEPS = "between_steps"
    ALLOCATOR_CALLS = "allocator_calls"
    HOST_OPERATIONS = "host_operations"
    COMPILING = "compiling"
    LOSS_SCALING = "loss_scaling"
    TO_DEVICE = "to_device"
    TO_HOST = "to_host"
    SMALL_COLLECTIVES = "small_collectives"
    KERNELS = "kernels"  # of a class, and in a precision where that is known
    PRECISION = "precision"  # what computes in one
    LINE = "line"
    RANGE = "range"  # what the device does for a part of the host's
    RULE = "rule"  # what only the rule of that name tells apart


class CodePlace(NamedTuple):
    """Where something stands: a file as reports show it, and its first line there; `last_line` where it is the lines of a loop, `function`
    where it stands inside of that one, which begins at the line. Outside of functions a trace tells no line.
    """

    file: str
    line: int | None
    last_line: int | None = None
    function: str | None = None


@dataclass(frozen=True, slots=True)
class PartPiece:
    """A piece of a part, with the names that its kind has, None for one that is unknown; `of` is the part of the host's of a range."""

    kind: PieceKind
    names: tuple[str | None, ...] = ()
    of: Part | None = None


@dataclass(frozen=True, slots=True)
class Part:
    """A named piece of a stage.

    `name` is the user's or a framework's own (of a function, callback or operation), None where the kind says all, or where it is lines of
    the loop's own; `place` is where that is, None where it is unknown or nowhere. `piece` is what of it a finding is about, where that is
    not all: findings about different things within one part do not fold into one another, nor into one about the whole part.
    """

    stage: str
    kind: PartKind
    name: str | None = None
    place: CodePlace | None = None
    piece: PartPiece | None = None

    @property
    def whole(self) -> Part:
        """The part of which this may be a piece."""
        return replace(self, piece=None)

    def is_like(self, other: Part) -> bool:
        """Whether they are the same but for their stage: a function may compute in one and write in another."""
        return (self.kind, self.name, self.place) == (other.kind, other.name, other.place)


BODY = Part("compute", PartKind.FORWARD_AND_REST)
BACKWARD = Part("compute", PartKind.BACKWARD)
MODELS = (BODY, BACKWARD)
OPTIMIZER = Part("compute", PartKind.OPTIMIZER)
UPDATES = Part("compute", PartKind.UPDATES)
DEVICE_WORK = Part("compute", PartKind.DEVICE_WORK)
VALIDATION = Part("output", PartKind.VALIDATION)
COLLECTION = Part("output", PartKind.COLLECTION)
NOT_ATTRIBUTED = Part(UNATTRIBUTED, PartKind.UNATTRIBUTED)
UNKNOWN = Part(UNATTRIBUTED, PartKind.UNKNOWN)
