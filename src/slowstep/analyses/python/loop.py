"""The training loop in stacks: where a stack leaves the way to the update, and whether that is before the forward.

The recorder notes the frames that lead to the first update and to the first forward. A stack that was taken elsewhere in the loop shares
the outer ones with them; where it leaves them, the lines of that frame tell what is called, and whether before the forward or after it.
"""

from __future__ import annotations

import re
from dataclasses import replace
from enum import Enum
from typing import NamedTuple

from slowstep.analyses.python.functions import (
    FRAMEWORK,
    Path,
    enclosing,
    is_comprehension,
    is_library,
    own_frames,
    same_function,
    shown,
)
from slowstep.analyses.steps.cell_code import is_cell_top_level
from slowstep.part_words import part_in_words
from slowstep.parts import CodePlace, Part, PartKind
from slowstep.timeline.timeline import Frame, Loops

NOWHERE = -1


class LoopCall(NamedTuple):
    """What the training loop was doing: a function and where it begins, or a line of its own (no name), or lines and where these do."""

    name: str | None
    file: str
    line: int
    last_line: int | None = None

    @property
    def is_function(self) -> bool:
        return self.name is not None

    def part(self, stage: str, script: str | None, kind: PartKind | None = None) -> Part:
        """As the ledger has it; a function or lines where no other kind is given."""
        place = CodePlace(shown(self.file, script), self.line, self.last_line)
        return Part(stage, kind or (PartKind.FUNCTION if self.is_function else PartKind.LINES), self.name, place)

    def label(self, script: str | None) -> str:
        """In words: `draw (train.py:12)`, `lines 30-34 (train.py)`."""
        return part_in_words(self.part("", script))


def meeting(path: Path, way: Path) -> int:
    """Depth of the innermost frame of `path` that is also on the `way` to a call; NOWHERE where they have none in common.

    A way of one frame stands for its innermost occurrence: older recordings know the training function only.
    """
    if len(way) == 1:
        return next((depth for depth in range(len(path) - 1, -1, -1) if same_function(path[depth], way[0])), NOWHERE)
    depth = NOWHERE
    for here, there in zip(path, way, strict=False):
        if not same_function(here, there):
            break
        depth += 1
        if here.line != there.line and not _goes_on(path, way, depth):
            break
    return depth


def met_frame(way: Path, depth: int) -> Frame:
    """The frame of a way that a stack meets at a depth of its own: of a way of one frame always that."""
    return way[min(depth, len(way) - 1)]


def _goes_on(path: Path, way: Path, depth: int) -> bool:
    """Whether one function is called from two cells: its lines tell more than theirs."""
    if not is_cell_top_level(path[depth]) or depth + 1 >= min(len(path), len(way)):
        return False
    return same_function(path[depth + 1], way[depth + 1])


def called_from_loop(path: Path, way: Path, loops: Loops | None = None) -> LoopCall | None:
    """What the loop was doing in a stack that left the `way` to the update.

    That is the user's function next to the loop, else the loop's own line, or the lines of one of the `loops` beside the update; a
    framework's function where the loop is the framework's. A comprehension is its line. None for an empty stack.
    """
    depth = meeting(path, way)
    if depth == NOWHERE:
        own = own_frames(path)
        return LoopCall(own[0].function, own[0].file, own[0].first_line) if own else None
    loop, own_calls = path[depth], [frame for frame in path[depth + 1 :] if not is_library(frame)]
    called = next((frame for frame in own_calls if not is_comprehension(frame.function)), next(iter(own_calls), None))
    if called is None and is_library(loop):
        called = path[min(depth + 1, len(path) - 1)]
    if called is not None and is_comprehension(called.function) and called.file == loop.file:
        return _own_lines(replace(loop, line=called.first_line), loops or {})
    if called is not None:
        return LoopCall(enclosing(called.function), called.file, called.first_line)
    return _own_lines(loop, loops or {})


def _own_lines(frame: Frame, loops: Loops) -> LoopCall:
    beside = loops.get((frame.file, frame.function, frame.first_line), ())
    for first, last in beside:
        if first <= frame.line <= last:
            return LoopCall(None, frame.file, first, last)
    return LoopCall(None, frame.file, frame.line)


def called_framework(path: Path, way: Path, files: re.Pattern[str] = FRAMEWORK) -> bool:
    """Whether the loop had called a framework itself (one of some `files` of it), or is one, without a function of the user's between."""
    depth = meeting(path, way)
    if depth == NOWHERE:
        return False
    frames = path[depth + 1 :]
    first = path[depth : depth + 2] if is_library(path[depth]) else frames[:1]
    return all(is_library(frame) for frame in frames) and any(files.search(frame.file) for frame in first)


class CallOrder(Enum):
    """When a function does something: before or after a call that it makes."""

    BEFORE = "before"
    AFTER = "after"
    UNKNOWN = "in the same line"


def order_of(frame: Frame, calling: Frame) -> CallOrder:
    """When a function does what `frame` is in, compared with the call that it makes in `calling`, in one pass through its text.

    Arguments come before the call that they are for, in whichever line they stand. Lines tell where it is not known what the calls span.
    """
    own, its = frame.call_span, calling.call_span
    if own is not None and its is not None and own != its:
        is_argument, has_as_argument = its[0] <= own[0] and own[1] <= its[1], own[0] <= its[0] and its[1] <= own[1]
        if is_argument or has_as_argument:
            return CallOrder.BEFORE if is_argument else CallOrder.AFTER
        return CallOrder.BEFORE if own[1] <= its[0] else CallOrder.AFTER
    if its is not None and its[0][0] < frame.line <= its[1][0]:
        return CallOrder.BEFORE
    return CallOrder.UNKNOWN if frame.line == calling.line else CallOrder.BEFORE if frame.line < calling.line else CallOrder.AFTER


def is_before(path: Path, way: Path) -> bool:
    """Whether a stack stands before the call that the `way` leads to, by the frame in which they part; its line where no more is known."""
    depth = meeting(path, way)
    return depth != NOWHERE and order_of(path[depth], met_frame(way, depth)) is not CallOrder.AFTER


def is_below(path: Path, way: Path, other_cells: int) -> bool:
    """Whether a stack stands in a line of the loop below the call that the `way` leads to."""
    return meeting(path, way) != NOWHERE and are_lines_comparable(path, way, way, other_cells) and not is_before(path, way)


def are_lines_comparable(path: Path, way: Path, update: Path, other_cells: int) -> bool:
    """Whether path and way part in the same text, and not in a line that makes the `update` too: the lines of two cells say nothing about
    before and after, nor does one line for all of a step, where it is not known which of its calls is which.

    Commands at a prompt all have the file `<stdin>`: with `other_cells`, the way may be that of another one.
    """
    depth = meeting(path, way)
    if 0 <= depth < len(way) and depth == len(update) - 1 and path[depth].line == way[depth].line == update[depth].line:
        return order_of(path[depth], way[depth]) is not CallOrder.UNKNOWN
    if depth == NOWHERE or not is_cell_top_level(path[depth]):
        return True
    return path[depth].file == met_frame(way, depth).file and not (other_cells and path[depth].file == "<stdin>")
