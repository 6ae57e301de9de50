"""Functions by stacks: which of the user's functions held a thread, and under which caller."""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from functools import lru_cache
from os.path import normpath
from pathlib import PurePath

import numpy as np
import polars as pl
from numpy.typing import NDArray

from slowstep.analyses.steps.cell_code import is_cell_top_level, without_shell
from slowstep.analyses.steps.steps import Floats
from slowstep.frameworks._known import code, named
from slowstep.frameworks._words import Code, Named
from slowstep.parts import CodePlace
from slowstep.record.writing.own_frames import is_own
from slowstep.timeline.intervals import Ints
from slowstep.timeline.timeline import Frame, RunningCall, Timeline

# The standard library and installed packages, whatever the prefix; frozen and generated code has no file of the user's.
# What was typed at Python's own prompt is the user's all the same.
LIBRARY = re.compile(r"[/\\]lib(64)?[/\\]python\d+(\.\d+)?[/\\]|[/\\](site|dist)-packages[/\\]|^<(?!stdin>|python-input-)")
PACKAGE = re.compile(r"[/\\](?:site|dist)-packages[/\\]([^/\\]+)[/\\]")
FROZEN = re.compile(r"^<frozen |>$")
FRAMEWORK = code(Code.TRAINS)
# Modules of trainers that do something with results: the `output` stage.
REPORTING = re.compile(r"[/\\](loggers|callbacks|integrations)[/\\]|" + code(Code.REPORTS).pattern)
TRAINING = code(Code.STEPS)
COMPUTING = code(Code.COMPUTES)
OPTIMIZERS = code(Code.OPTIMIZERS)
MODEL_FILE = code(Code.MODEL_CALL)
# What a call of a module goes through there, in whichever version; `parameters` and `train` are no calls of it.
MODULE_CALL = named(Named.MODEL_CALL)
# Up to Python 3.11 one is a function of its own, and a part of the one around it to everybody.
COMPREHENSION = re.compile(r"((^|\.)(<locals>\.)?<(listcomp|setcomp|dictcomp|genexpr)>)+$")
# What optimizers and schedulers wrap around every update.
UPDATE_WRAPPER = named(Named.UPDATE_WRAPPER)
# Modules whose work is writing logs and event files: the `store` stage.
WRITERS = re.compile(r"[/\\]logging[/\\]__init__\.py$|[/\\]tensorboard(X)?[/\\]|[/\\]csv\.py$")

# Where a Python thread waits for another one: what is waited for is that thread's work.
WAITING = re.compile(r"[/\\](threading|queue|concurrent[/\\]futures[/\\]\w+|multiprocessing[/\\](queues|connection|synchronize|pool))\.py$")
# Names that people give to validations.
EVALUATING = re.compile(r"(^|[._])(val|valid|validat\w*|eval|evaluat\w*|test)(_|$)", re.IGNORECASE)
# Fewer stacks than this name nothing: the share of one among 5 has a 90 % interval of 1 % to 66 % (Clopper-Pearson).
FEWEST_STACKS = 5
# Fewer divide nothing: the share of a half has a 90 % interval of 35 % to 65 % with 30.
FEWEST_TO_DIVIDE = 30

Path = tuple[Frame, ...]
# The files of functions, by their names and where they begin.
Files = Mapping[tuple[str, CodePlace], str]


@dataclass(frozen=True, kw_only=True, slots=True)
class Stacks:
    """Stacks of one thread: when, how much time each stands for, its frames, root first, whether the thread is known to be blocked, and
    whether the device had nothing to do (1) or something (0) meanwhile; -1 is unknown.
    """

    time_ns: Ints
    weight_ns: Floats
    stack: Ints
    frames: dict[int, Path]
    blocked: NDArray[np.bool_]
    device_idle: NDArray[np.int8]

    def only(self, mine: NDArray[np.bool_]) -> Stacks:
        """Some of them."""
        taken = {name: getattr(self, name)[mine] for name in ("time_ns", "weight_ns", "stack", "blocked", "device_idle")}
        return replace(self, **taken)

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
    columns = ("stack", "file", "function", "first_line", "line", "column", "end_line", "end_column", "called", "in_loop")
    for stack, file, function, first, line, column, end_line, end, called, in_loop in known.select(columns).iter_rows():
        call = None if column is None else RunningCall(column=column, name=called, in_loop=in_loop, end_line=end_line, end_column=end)
        frames[stack].append(Frame(file=file, function=function, first_line=first, line=line, call=call))
    return Stacks(
        time_ns=rows["time_ns"].to_numpy(),
        weight_ns=rows["weight_ns"].cast(pl.Float64).clip(lower_bound=0).to_numpy(),
        stack=rows["stack"].to_numpy(),
        frames={stack: without_shell(tuple(path)) for stack, path in frames.items()},
        blocked=rows["blocked"].to_numpy(),
        device_idle=rows["device_idle"].cast(pl.Int8).fill_null(-1).to_numpy(),
    )


def files_of(stacks: Stacks, script: str | None) -> Files:
    """The file of every function in the stacks."""
    distinct = {frame for path in stacks.frames.values() for frame in path if not is_library(frame)}
    return {(frame.function, CodePlace(shown(frame.file, script), frame.first_line)): frame.file for frame in distinct}


def is_library(frame: Frame) -> bool:
    """Whether a frame is not the user's own code."""
    return bool(LIBRARY.search(frame.file))


def library_of(frame: Frame) -> str | None:
    """The package or module that a frame is of; None of the user's code, of slowstep itself, and of a part of another function."""
    if not is_library(frame) or is_own(frame.file) or is_comprehension(frame.function):
        return None
    package = PACKAGE.search(frame.file)
    return package[1] if package is not None else FROZEN.sub("", PurePath(frame.file).stem)


def same_function(frame: Frame, other: Frame) -> bool:
    """Whether two frames run the same function, at whatever line; the top levels of all cells of a notebook are one."""
    if is_cell_top_level(frame) and is_cell_top_level(other):
        return True
    return (frame.file, frame.function, frame.first_line) == (other.file, other.function, other.first_line)


def is_comprehension(function: str) -> bool:
    """Whether that is the name of a comprehension, or of a generator expression."""
    return bool(COMPREHENSION.search(function))


def enclosing(function: str) -> str:
    """The name of a function; of a comprehension, that of the function around it."""
    return COMPREHENSION.sub("", function) or "<module>"


def own_frames(path: Path) -> Path:
    """The user's frames of a path; where it has none, its outermost library frame."""
    own = tuple(frame for frame in path if not is_library(frame))
    return own or path[:1]


def in_module(path: Path) -> bool:
    """Whether a stack stands inside the call of a model."""
    return any(MODEL_FILE.search(frame.file) for frame in path)


def calls_module(path: Path) -> bool:
    """The same of the call alone: asking a model for its weights is none."""
    return any(in_module((frame,)) and MODULE_CALL.search(frame.function) for frame in path)


def wraps_update(path: Path) -> bool:
    """Whether a stack stands in what a framework wraps around an optimizer's update, which calls nothing of the user's there."""
    outermost = next((i for i, frame in enumerate(path) if OPTIMIZERS.search(frame.file) and UPDATE_WRAPPER.search(frame.function)), None)
    return outermost is not None and all(COMPUTING.search(frame.file) for frame in path[outermost:])


def reports(path: Path) -> bool:
    """Whether a stack stands in a framework's loggers or callbacks."""
    return any(REPORTING.search(frame.file) for frame in path)


def writes(path: Path) -> bool:
    """Whether a stack stands in code that writes a log or an event file."""
    return any(WRITERS.search(frame.file) for frame in path)


def is_waiting(path: Path) -> bool:
    """Whether a stack stands in Python's own means of waiting for another thread or process."""
    return bool(path) and bool(WAITING.search(path[-1].file))


def is_forward(path: Path) -> bool:
    """Whether a function in a stack is called `forward`: a module's that is called past its own `__call__`, or what stands for one."""
    return any(frame.function.rpartition(".")[2] == "forward" for frame in path)


def is_evaluating(path: Path) -> bool:
    """Whether a function of the user's in a stack is named as validations are."""
    return any(EVALUATING.search(frame.function) for frame in path if not is_library(frame))


def inside(stacks: Stacks, start_ns: Ints, end_ns: Ints) -> Ints:
    """Indices of the stacks that were taken within one of the intervals, which are sorted and do not overlap."""
    at = np.searchsorted(start_ns, stacks.time_ns, side="right") - 1
    ok = (at >= 0) & (stacks.time_ns < np.append(end_ns, 0)[at])
    return np.flatnonzero(ok)


@lru_cache(maxsize=4096)
def shown(file: str, script: str | None) -> str:
    """A path as reports show it: relative to the script's folder where it lies in it, else, and of a library, its last two components."""
    # Of `python ../train.py` the interpreter keeps the dots.
    where = PurePath(normpath(file))
    # An environment is often a folder beside the script.
    if script is not None and not LIBRARY.search(file) and where.is_relative_to(PurePath(script).parent):
        return str(where.relative_to(PurePath(script).parent))
    return str(PurePath(*where.parts[-2:]))
