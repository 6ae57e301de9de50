"""The words of a part, for people: all of them are made here. Nothing reads them again."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

from slowstep.parts import CodePlace, Part, PartKind, PartPiece, PieceKind
from slowstep.stages import STAGES, UNATTRIBUTED

# Of a kind of which there are several, its name follows.
_WORDS: Final[dict[PartKind, str]] = {
    PartKind.FORWARD_AND_REST: "forward and the rest",
    PartKind.FORWARD: "forward",
    PartKind.FORWARD_BY_STACKS: "forward, by stacks",
    PartKind.BACKWARD: "backward",
    PartKind.OPTIMIZER: "optimizer",
    PartKind.UPDATES: "calls that train (forward to update)",
    PartKind.COMPILING: "compiler at work",
    PartKind.COMPILATION: "compiling",
    PartKind.UPDATE_BY_HAND: "update by hand",
    PartKind.BESIDE_BACKWARD: "apart from backward",
    PartKind.BEFORE_BACKWARD: "before backward",
    PartKind.CORE_WAIT: "waiting for a core",
    PartKind.HELD_UP: "waiting for other Python threads",
    PartKind.RANK_WAIT: "waiting in backward (estimate)",
    PartKind.COLLECTIVE: "collective",
    PartKind.SAMPLES: "making samples",
    PartKind.COLLATE: "collate",
    PartKind.PRODUCER_COLLECTION: "garbage collection (loader)",
    PartKind.PRODUCER_CORE_WAIT: "waiting for a core (loader)",
    PartKind.LOCK_WAIT: "waiting for a thread or lock",
    PartKind.STORAGE: "storage",
    PartKind.BLOCKED: "blocked for an unknown reason",
    PartKind.TRANSPORT: "transport",
    PartKind.LOADER_OVERHEAD: "loader overhead",
    PartKind.SAMPLER: "drawing indices",
    PartKind.LOADER_START: "loader start-up",
    PartKind.LOADER_END: "loader shut-down",
    PartKind.ROLL_OUT: "roll-out",
    PartKind.THREAD_WAIT: "waiting for a thread",
    PartKind.FUNCTION: "function",
    PartKind.LINES: "lines",
    PartKind.LIBRARY_CALL: "call of a library",
    PartKind.SPAN: "span",
    PartKind.CALLBACK: "callback",
    PartKind.PROGRESS_BAR: "progress bar",
    PartKind.LOGGING: "logging",
    PartKind.METRICS: "metrics",
    PartKind.TRANSFORM: "transform",
    PartKind.CHECKPOINT: "checkpoint",
    PartKind.SAVE: "checkpoint",
    PartKind.SAVING_FUNCTION: "function",
    PartKind.SMALL_CALLBACKS: "callbacks of less than 0.2 % each",
    PartKind.SMALL_PARTS: "other parts, each of little time",
    PartKind.VALIDATION: "validation",
    PartKind.COLLECTION: "garbage collection",
    PartKind.KERNELS: "kernels",
    PartKind.DEVICE_COPIES: "device-to-device copies",
    PartKind.MEMSETS: "filling memory",
    PartKind.COLLECTIVES: "exposed collectives",
    PartKind.COPIES: "exposed copies",
    PartKind.LAUNCH: "launch",
    PartKind.RUN_DRY: "device idle",
    PartKind.NO_LAUNCH: "idle before work whose launch is not in the trace",
    PartKind.OPERATORS: "operators",
    PartKind.BETWEEN_OPERATORS: "between operators",
    PartKind.NOTHING_RECORDED: "nothing recorded",
    PartKind.INPUT_WAIT: "waiting for input",
    PartKind.FROM_CAPTURE: "from capture",
    PartKind.UNATTRIBUTED: "unattributed",
    PartKind.DEVICE_WORK: "device work",
    PartKind.UNKNOWN: "not known whether the device worked",
}
# What stands between the kind's words and the name, where it is no colon; None: the name alone says it.
_BEFORE_NAME: Final[dict[PartKind, str | None]] = {
    PartKind.FUNCTION: None,
    PartKind.SAVING_FUNCTION: None,
    PartKind.LINES: None,
    PartKind.LIBRARY_CALL: None,
    PartKind.SPAN: None,
    PartKind.COLLECTIVE: None,
    PartKind.SAVE: " by ",
    PartKind.RUN_DRY: " after ",
}
# Of what is not here the names say it.
_PIECE_WORDS: Final[dict[PieceKind, str]] = {
    PieceKind.INSIDE_STEPS: "inside steps",
    PieceKind.BETWEEN_STEPS: "between steps",
    PieceKind.ALLOCATOR_CALLS: "allocator calls",
    PieceKind.HOST_OPERATIONS: "operations on the host",
    PieceKind.COMPILING: "compiling",
    PieceKind.LOSS_SCALING: "loss scaling",
    PieceKind.TO_DEVICE: "to the device",
    PieceKind.TO_HOST: "to the host",
    PieceKind.SMALL_COLLECTIVES: "small ones",
}
_UNKNOWN_NAME: Final[dict[PieceKind, str]] = {PieceKind.KERNELS: "unknown precision"}


def part_in_words(part: Part) -> str:
    """As the ledger calls it: "backward", "draw (train.py:12)", "train.py:30-34", "callback: Plot.on_train_batch_end"; a piece
    of one as "launch: between steps".
    """
    words = _with_place(part_without_place(part), part)
    return words if part.piece is None else f"{words}: {piece_in_words(part.piece)}"


def piece_in_words(piece: PartPiece) -> str:
    """As it stands behind its part: "between steps", "matmul, float32"."""
    if piece.of is not None:
        return part_in_words(piece.of)
    names = (_UNKNOWN_NAME[piece.kind] if name is None else name for name in piece.names)
    return _PIECE_WORDS.get(piece.kind) or ", ".join(names)


def part_without_place(part: Part) -> str:
    """The same without where it is."""
    words = _WORDS[part.kind]
    if part.name is None and part.place is None:
        return words
    before = _BEFORE_NAME.get(part.kind, ": ")
    return part_called(part) if before is None else f"{words}{before}{part_called(part)}"


def part_name(part: Part) -> str:
    """Its own name in a sentence that says where it is: "draw", "lines 30-34"; the kind's where it has none."""
    if part.name is not None:
        return part.name
    if part.place is None:
        return _WORDS[part.kind]
    return f"{'line' if part.place.last_line is None else 'lines'} {lines_in_words(part.place)}"


def part_called(part: Part) -> str:
    """Its own name; of what has none the place: "draw", "train.py:30-34"."""
    return part_name(part) if part.name is not None or part.place is None else place_in_words(part.place)


def is_named(part: Part) -> bool:
    """Whether it is called by a name of its own or its place, and not by the words of its kind."""
    return part.name is not None or part.place is not None


def part_name_and_place(part: Part) -> str:
    """Its name, and where it is: "Plot.on_train_batch_end (train.py:9)", "train.py:30-34"."""
    return _with_place(part_called(part), part)


def part_place(part: Part) -> str | None:
    """Where it is, beside what it is called; None where that says it, or nobody knows."""
    if part.kind is PartKind.LIBRARY_CALL:
        return "called by the loop"
    return None if part.place is None or part.name is None else place_in_words(part.place)


def parts_in_order(parts: Iterable[Part]) -> list[Part]:
    """By stage, in the order in which a batch passes through them, and then by their words."""
    stages = (*STAGES, UNATTRIBUTED)
    return sorted(parts, key=lambda part: (stages.index(part.stage), part_in_words(part)))


def part_noun(part: Part) -> str:
    """What to call it: "line", "lines" of a loop, or "function"."""
    if part.kind is not PartKind.LINES:
        return "function"
    return "lines" if is_plural(part) else "line"


def is_plural(part: Part) -> bool:
    """Whether it is the lines of a loop, which "take" where all else "takes"."""
    return part.kind is PartKind.LINES and part.place is not None and part.place.last_line is not None


def place_in_words(place: CodePlace) -> str:
    """`train.py:12`, `train.py:30-34`, `step (train.py:82)`."""
    line = place.file if place.line is None else f"{place.file}:{lines_in_words(place)}"
    return line if place.function is None else f"{place.function} ({line})"


def lines_in_words(place: CodePlace) -> str:
    """`12`, `30-34`."""
    return f"{place.line}" if place.last_line is None else f"{place.line}-{place.last_line}"


def _with_place(words: str, part: Part) -> str:
    where = part_place(part)
    if where is None:
        return words
    # Of a call, not of a function.
    return f"{words} in {where}" if part.kind is PartKind.RUN_DRY else f"{words} ({where})"
