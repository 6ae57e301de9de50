"""Functions by stacks: which of the user's functions held a thread, and under which caller."""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import PurePath

import numpy as np
import polars as pl

from slowstep.analyses.steps import Floats
from slowstep.timeline.intervals import Ints
from slowstep.timeline.timeline import Frame, Timeline

# The standard library and installed packages, whatever the prefix; frozen and generated code has no file of the user's.
LIBRARY = re.compile(r"[/\\]lib(64)?[/\\]python\d+(\.\d+)?[/\\]|[/\\](site|dist)-packages[/\\]|^<")
FRAMEWORK = re.compile(r"[/\\](site|dist)-packages[/\\]torch[/\\]")
MODULE_FILE = "torch/nn/modules/module.py"
# Modules whose work is writing logs and event files: the `store` stage.
WRITERS = re.compile(r"[/\\]logging[/\\]__init__\.py$|[/\\](torch[/\\]utils[/\\])?tensorboard(X)?[/\\]|[/\\]csv\.py$")

Path = tuple[Frame, ...]


@dataclass(frozen=True, kw_only=True, slots=True)
class Stacks:
    """Stacks of one thread: when, how much time each stands for, and its frames, root first."""

    time_ns: Ints
    weight_ns: Floats
    stack: Ints
    frames: dict[int, Path]

    def paths(self, index: Iterable[int]) -> list[tuple[float, Path]]:
        """Weight and frames of some of the stacks."""
        return [(float(self.weight_ns[i]), self.frames.get(int(self.stack[i]), ())) for i in index]


def read_stacks(timeline: Timeline, process: int, thread: int | None = None) -> Stacks:
    """The stacks of a process, of one of its threads where given."""
    rows = timeline.table("stacks").filter(pl.col("process") == process)
    if thread is not None:
        rows = rows.filter(pl.col("thread") == thread)
    rows = rows.sort("time_ns")
    frames: dict[int, list[Frame]] = defaultdict(list)
    known = timeline.table("frames").filter(pl.col("process") == process).sort("stack", "depth")
    for stack, file, function, first, line in known.select("stack", "file", "function", "first_line", "line").iter_rows():
        frames[stack].append(Frame(file=file, function=function, first_line=first, line=line))
    return Stacks(
        time_ns=rows["time_ns"].to_numpy(),
        weight_ns=rows["weight_ns"].cast(pl.Float64).clip(lower_bound=0).to_numpy(),
        stack=rows["stack"].to_numpy(),
        frames={stack: tuple(path) for stack, path in frames.items()},
    )


def is_library(frame: Frame) -> bool:
    """Whether a frame is not the user's own code."""
    return bool(LIBRARY.search(frame.file))


def same_function(frame: Frame, other: Frame) -> bool:
    """Whether two frames run the same function, at whatever line."""
    return (frame.file, frame.function, frame.first_line) == (other.file, other.function, other.first_line)


def above(path: Path, base: Frame) -> Path:
    """The frames called from the innermost frame of `base`; the frame itself first. Empty where the stack does not pass through it."""
    for depth in range(len(path) - 1, -1, -1):
        if same_function(path[depth], base):
            return path[depth:]
    return ()


def own_frames(path: Path) -> Path:
    """The user's frames of a path; where it has none, its outermost library frame."""
    own = tuple(frame for frame in path if not is_library(frame))
    return own or path[:1]


def callee(path: Path, base: Frame) -> tuple[str, str, int] | None:
    """What the training frame `base` was doing in a stack: name, file and line of the function it had called, or of its own line."""
    frames = above(path, base)
    if not frames:
        own = own_frames(path)
        return (own[0].function, own[0].file, own[0].first_line) if own else None
    called = next((frame for frame in frames[1:] if not is_library(frame)), None)
    if called is not None:
        return called.function, called.file, called.first_line
    return f"line {frames[0].line}", frames[0].file, frames[0].line


def called_framework(path: Path, base: Frame) -> bool:
    """Whether the training frame `base` had called PyTorch itself, without a function of the user's between."""
    frames = above(path, base)[1:]
    return bool(frames) and all(is_library(frame) for frame in frames) and bool(FRAMEWORK.search(frames[0].file))


def in_module(path: Path) -> bool:
    """Whether a stack stands inside the call of a model."""
    return any(frame.file.replace("\\", "/").endswith(MODULE_FILE) for frame in path)


def writes(path: Path) -> bool:
    """Whether a stack stands in code that writes a log or an event file."""
    return any(WRITERS.search(frame.file) for frame in path)


def inside(stacks: Stacks, start_ns: Ints, end_ns: Ints) -> Ints:
    """Indices of the stacks that were taken within one of the intervals, which are sorted and do not overlap."""
    at = np.searchsorted(start_ns, stacks.time_ns, side="right") - 1
    ok = (at >= 0) & (stacks.time_ns < np.append(end_ns, 0)[at])
    return np.flatnonzero(ok)


def shown(file: str, script: str | None) -> str:
    """A path as reports show it: relative to the script's folder where it lies in it, else its last two components."""
    where = PurePath(file)
    if script is not None and where.is_relative_to(PurePath(script).parent):
        return str(where.relative_to(PurePath(script).parent))
    return str(PurePath(*where.parts[-2:]))
