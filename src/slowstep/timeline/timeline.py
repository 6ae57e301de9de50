"""A timeline: the declared tables, the facts that they cannot hold, and what is doubtful about them."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import wraps
from typing import Any, TypeVar

import polars as pl

from slowstep.health import Health
from slowstep.timeline.coverage import NOTHING, UNSEEN, CoverageLevel, KindCoverage
from slowstep.timeline.run_facts import RunFacts
from slowstep.timeline.schema import RECORDING_TABLES, TABLE
from slowstep.timeline.stored import Stored, chosen
from slowstep.timeline.table import Table
from slowstep.timeline.trace import TraceFacts
from slowstep.timeline.trace_tables import TRACE_TABLES

T = TypeVar("T")


@dataclass(frozen=True, kw_only=True, slots=True)
class RunningCall:
    """Which call or operation of its line a frame was in: its column (bytes of UTF-8 from 0), the name of what is called or the operator's
    sign, whether a loop of the function holds it, and the end of it: `f(x)(y)` are two that begin in one column. None is unknown.
    """

    column: int
    name: str | None = None
    in_loop: bool | None = None
    end_line: int | None = None
    end_column: int | None = None


def call_in(note: Sequence[int] | None) -> RunningCall | None:
    """The call that a recording tells as [column, last line, last column]; None of None."""
    if note is None:
        return None
    column, end_line, end_column = note
    return RunningCall(column=column, end_line=end_line, end_column=end_column)


# Line, from 1, and column, from 0.
TextPosition = tuple[int, int]


@dataclass(frozen=True, kw_only=True, slots=True)
class Frame:
    """A place in somebody's code: file, function, and the line that was executed. Frames of one line are equal, whatever it calls."""

    file: str
    function: str
    first_line: int
    line: int
    call: RunningCall | None = field(default=None, compare=False)

    @property
    def call_span(self) -> tuple[TextPosition, TextPosition] | None:
        """Where in the file the call begins and ends that it is in; None where that is not known."""
        call = self.call
        if call is None or call.end_line is None or call.end_column is None:
            return None
        return (self.line, call.column), (call.end_line, call.end_column)


# First and last lines of loops, by file, name and first line of the function that holds them.
Loops = Mapping[tuple[str, str, int], Sequence[Sequence[int]]]
# A function: file, name and first line.
Place = tuple[str, str, int]


@dataclass(frozen=True, kw_only=True, slots=True)
class FrameworkFacts:
    """A framework that updates in a process: its version, None where that is not known, and what it would use of the machine."""

    version: str | None
    facts: Mapping[str, Any]


@dataclass(frozen=True, kw_only=True, slots=True)
class CallWork:
    """What the operations of such a call compute: products of two elements of all that multiply, and of the one that multiplies most;
    elements that the largest one gives of those that sort or add up along a length, that find or draw them one by one, and of all others.
    """

    products: int
    most_products: int
    sorted: int
    scattered: int
    given: int


@dataclass(frozen=True, kw_only=True, slots=True)
class CallOperations:
    """Operations that a call of a traced function runs which makes a whole update: so many at least, and at most, the elements of all
    variables that it reads, and what they compute; None where that is not known.
    """

    fewest: int
    most: int | None
    elements: int | None
    work: CallWork | None = None


@dataclass(frozen=True, kw_only=True, slots=True)
class ProcessFacts:
    """What one process said of itself; None is unknown."""

    pid: int
    role: str
    script: str | None
    cwd: str | None
    python: str | None
    framework_version: str | None  # of the one that trains; None where it was not imported
    cores_allowed: int | None
    cpu_quota: float | None
    threads: int | None
    training_frames: Mapping[int, Frame]  # by optimizer
    forward_frame: Frame | None
    training_paths: Mapping[int, tuple[Frame, ...]]  # frames that lead to the first update, root first, by optimizer
    forward_path: tuple[Frame, ...]  # those that lead to the first forward with gradients; empty where none was recorded
    graph_nodes: int | None
    graph_elements: int | None
    event_cost_ns: float | None
    events: int | None
    sampler_cpu_ns: int | None
    notes: Mapping[str, Any]
    physical_cores: int | None = None  # of those allowed: hardware threads of one core share what computes
    cpu_flags: frozenset[str] | None = None  # what of arithmetic in 16 bits its processor has, as Linux calls it
    once_cpu_ns: int | None = None  # of the sampler's, what was spent once: on code that it met for the first time, on calibration
    sampling: tuple[tuple[int, int], ...] = ()  # when the sampler's cost was read, and what it was by then without what was spent once (ns)
    memory_available_bytes: int | None = None  # when recording began
    rank: int | None = None  # in the job of several ranks that it is one of
    world_size: int | None = None
    local_world_size: int | None = None  # ranks of that job on its machine
    import_path: tuple[str, ...] = ()  # folders in which it looks for modules
    inner_loops: Mapping[int, Loops] = field(default_factory=dict)  # beside the call of the update, by optimizer
    loops_around: Mapping[int, Loops] = field(default_factory=dict)  # the innermost that holds that call, of each function it came through
    by_hand: frozenset[int] = frozenset()  # optimizers that stand for updates by hand: their calls are ends of backward passes
    uses_gradients: frozenset[Place] = frozenset()  # functions in stacks and timed calls that name gradients
    left_ns: int | None = None  # when it ran to its end, well or by an exception; None where it was killed, or recorded for a time only
    raised: str | None = None  # the exception that ended it, by its class
    hands_over: frozenset[Place] = frozenset()  # functions in stacks that name what hands something to another thread
    framework: str = ""  # that trains, by its name; empty where none did
    frameworks: Mapping[str, FrameworkFacts] = field(default_factory=dict)  # that update in it, by name
    framework_of: Mapping[int, str] = field(default_factory=dict)  # by optimizer, where it was said
    operations: Mapping[str, CallOperations] = field(default_factory=dict)  # by framework, of those that trace one function that trains
    spent_ns: int = 0  # by hooks that write nothing each time they are called
    level: int | None = None  # of --level: how much was recorded of it
    lost_notes: int = 0  # lines of what it noted that make no sense, since the recording is damaged

    @property
    def has_optimizers(self) -> bool:
        """Whether updates are calls of optimizers; else calls of the framework make them."""
        return bool(self.notes["facts"].get("optimizers", True))

    @property
    def call_operations(self) -> CallOperations | None:
        """Those of the calls that make updates, where the framework says that computes."""
        return self.operations.get(str(self.notes["facts"].get("computes_with") or self.framework))

    @property
    def cores(self) -> float | None:
        """How many cores it may use, by its affinity and its quota; None where neither is known."""
        return min((float(limit) for limit in (self.cores_allowed, self.cpu_quota) if limit), default=None)

    def of(self, optimizer: int) -> ProcessFacts:
        """The same, with what the framework says of itself whose optimizer that is: several may update in one process."""
        name = self.framework_of.get(optimizer, self.framework)
        if name == self.framework or name not in self.frameworks:
            return self
        said = self.frameworks[name]
        notes = {**self.notes, "facts": said.facts}
        return replace(self, framework=name, framework_version=said.version, threads=said.facts.get("threads"), notes=notes)


@dataclass(frozen=True, kw_only=True, slots=True)
class Timeline:
    """Everything that a source could read: `tables` by the names in `schema`, processes' facts by their index there."""

    source: str
    tables: Mapping[str, pl.DataFrame]
    processes: tuple[ProcessFacts, ...]
    run: RunFacts
    health: tuple[Health, ...]
    trace: TraceFacts | None = None  # where the source is a profiler's trace
    coverage: Mapping[str, KindCoverage] = field(default_factory=lambda: NOTHING)  # of each of KINDS, what it has
    found: dict[Any, Any] = field(default_factory=dict, init=False, repr=False, compare=False)  # by functions that are `found_once`

    @property
    def declared(self) -> tuple[Table, ...]:
        """The tables that its source may fill."""
        return RECORDING_TABLES if self.trace is None else TRACE_TABLES

    def table(self, name: str) -> pl.DataFrame:
        """A table by name; empty where the source saw none of its rows. Raises KeyError for a name that is not declared."""
        declared, found = TABLE[name], self.tables.get(name)
        return declared.empty() if found is None else found

    def level(self, kind: str) -> CoverageLevel:
        """How what is of one of KINDS is known."""
        return self.coverage.get(kind, UNSEEN).known

    def rows(self, name: str, *columns: str, kinds: Collection[str] = ()) -> pl.DataFrame:
        """Some columns of a table; with `kinds` only the rows whose column `kind` holds one of these, in the same order.

        Of a table that is not in memory nothing else is read. Raises KeyError as `table` does.
        """
        if isinstance(self.tables, Stored) and name in self.tables:
            return self.tables.rows(name, columns, kinds)
        return chosen(self.table(name), columns, kinds)

    def count(self, name: str) -> int:
        """How many rows a table has. Raises KeyError as `table` does."""
        return self.tables.count(name) if isinstance(self.tables, Stored) and name in self.tables else len(self.table(name))


def found_once(find: Callable[[Timeline], T]) -> Callable[[Timeline], T]:
    """Have what is found of a timeline kept with it, for all that ask: for what many ask.

    It lives as long as the timeline: some 32 MB of a Kineto trace of 1 GB.
    """

    @wraps(find)
    def of_timeline(timeline: Timeline) -> T:
        if find not in timeline.found:
            timeline.found[find] = find(timeline)
        known: T = timeline.found[find]
        return known

    return of_timeline
