"""What scenarios see of a step: its graph, what its device work is, who called, and which host time has which name."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np
import polars as pl
from numpy.typing import NDArray

from slowstep.analyses.device.operators import mostly_on_host
from slowstep.analyses.events.kernel_class import classify, is_collective
from slowstep.analyses.events.names import as_text
from slowstep.analyses.python.callers import Callers
from slowstep.analyses.replay.clock import Variant
from slowstep.analyses.replay.graph import CHAIN, RETURN, Graph, Indices
from slowstep.analyses.replay.recording_cost import HostClock, ProfilerRecords
from slowstep.analyses.replay.replayed_work import Material
from slowstep.analyses.steps.steps import Floats
from slowstep.timeline.intervals import Flags, Ints, covered_ns
from slowstep.timeline.schema import TABLE
from slowstep.timeline.timeline import Timeline


@dataclass(frozen=True, slots=True)
class Intervals:
    """Disjoint stretches of time in order, shape (n,) each."""

    start: Ints
    end: Ints

    @classmethod
    def union(cls, rows: pl.DataFrame) -> Intervals:
        """What `start_ns` and `end_ns` of rows cover."""
        rows = rows.select(pl.col("start_ns").cast(pl.Int64), pl.col("end_ns").cast(pl.Int64)).sort("start_ns")
        start, end = rows["start_ns"].to_numpy(), rows["end_ns"].to_numpy()
        if not len(start):
            return cls(start, end)
        reach = np.maximum.accumulate(end)
        opens = np.append(True, start[1:] > reach[:-1])
        return cls(start[opens], reach[np.append(opens[1:], True)])

    def covered(self, at: Ints) -> Floats:
        """How much of the time before each instant is covered."""
        return covered_ns(self.start, self.end, at)


@dataclass(frozen=True)
class Trace:
    """What all steps of one trace share. `tables` are the measurements made so far."""

    timeline: Timeline
    material: Material
    callers: Callers
    tables: Mapping[str, pl.DataFrame]
    device: str | None
    ranges: pl.DataFrame  # named ranges of the main logical thread that tell a stage
    recording: ProfilerRecords | None = None  # what the profiler wrote down on the main logical thread, where its cost is known

    @cached_property
    def events(self) -> pl.DataFrame:
        """One row per row of the material's work, see `describe_work`; made when the first scenario asks."""
        return describe_work(self.timeline, self.material, self.callers, self.table("kernels"))

    def table(self, name: str) -> pl.DataFrame:
        """A table of measurements; one without rows where it was not made."""
        return self.tables[name] if name in self.tables else pl.DataFrame()


def describe_work(timeline: Timeline, material: Material, callers: Callers, kernels: pl.DataFrame) -> pl.DataFrame:
    """What each device work is, one row each.

    Columns: kind, name, bytes, pageable, collective, class, precision, tensor_core, eligible, operator, where.
    """
    rows = timeline.rows("device_events", "kind", "name", "bytes", "pageable", "collective")[material.work.row]
    rows = rows.with_columns(pl.col("kind").cast(pl.String), as_text(rows["name"]))
    shared = is_collective(rows["name"]) | rows["collective"].is_not_null()
    kernel = pl.col("kind") == "kernel"
    found = pl.concat([rows, classify(rows["name"]), callers.launched(material.work.row).select("operator", "where")], how="horizontal")
    found = found.with_columns((kernel & shared).fill_null(value=False).alias("collective"), pl.when(kernel).then("class").alias("class"))
    joined: pl.DataFrame = found.join(_judged(kernels), on="name", how="left", maintain_order="left")
    both = [pl.coalesce(f"{name}_of_all", name).alias(name) for name in ("precision", "tensor_core")]
    described: pl.DataFrame = joined.with_columns(both)
    return described


def _judged(kernels: pl.DataFrame) -> pl.DataFrame:
    """What the table `kernels` says of each name, if it was made."""
    schema = {
        "name": pl.String,
        "eligible": pl.Boolean,
        "precision_of_all": pl.String,
        "tensor_core_of_all": pl.Boolean,
    }
    if kernels.is_empty():
        return pl.DataFrame(schema=schema)
    return kernels.select("name", "eligible", precision_of_all="precision", tensor_core_of_all="tensor_core").unique(
        "name", keep="first", maintain_order=True
    )


@dataclass(frozen=True, slots=True)
class Changed:
    """A step with one thing changed: as expected, and in the better and worse case of what that assumes. `samples` is how many times as
    many samples the step then has."""

    expected: Variant
    optimistic: Variant
    pessimistic: Variant
    samples: float = 1.0

    @classmethod
    def of(cls, edits: Iterable[Edit], samples: float = 1.0) -> Changed:
        """From the three edits: expected, better, worse."""
        expected, optimistic, pessimistic = (edit.variant() for edit in edits)
        return cls(expected, optimistic, pessimistic, samples)


class StepEvents:
    """What happens in one step, looked up when a scenario first asks: it is the same in all forms of the step.

    `work`: the device work at each node of its graph, -1 for none.
    """

    def __init__(self, trace: Trace, work: Indices, begin_ns: int, end_ns: int) -> None:
        self.trace, self.begin_ns, self.end_ns = trace, begin_ns, end_ns
        self._work = work

    @cached_property
    def nodes(self) -> Ints:
        """The nodes of device work, in order."""
        return np.flatnonzero(self._work >= 0)

    @cached_property
    def events(self) -> pl.DataFrame:
        """What `nodes` are: rows of `Trace.events`."""
        events: pl.DataFrame = self.trace.events[self._work[self.nodes]]
        return events

    @cached_property
    def _hosts(self) -> pl.DataFrame:
        own = pl.col("thread").is_in(list(self.trace.material.turns))
        inside = (pl.col("start_ns") >= self.begin_ns) & (pl.col("start_ns") < self.end_ns)
        hosts = self.trace.timeline.rows("host_events", "thread", "kind", "name", "start_ns", "end_ns")
        return hosts.filter(inside & own).drop("thread")

    def host(self, kinds: list[str]) -> pl.DataFrame:
        """Kind, name and times of what began on the main logical thread within the step."""
        return self._hosts.filter(pl.col("kind").is_in(kinds))

    @cached_property
    def called(self) -> Intervals:
        """When that thread was inside an operator or a call of the runtime."""
        return Intervals.union(self.host(["operator", "runtime", "driver"]))

    @cached_property
    def loader(self) -> Intervals:
        """The waits for input."""
        waits = self.trace.table("loader")
        return Intervals.union(waits) if not waits.is_empty() else Intervals.union(TABLE["host_events"].empty())

    @cached_property
    def host_operators(self) -> Intervals | None:
        """Operators that computed on the host; None where the trace does not tell which did."""
        operators = self.trace.table("operators")
        if operators.is_empty():
            return None
        names = mostly_on_host(operators, "name")["name"]
        return Intervals.union(self.host(["operator"]).filter(pl.col("name").cast(pl.String).is_in(names.implode())))


@dataclass
class Scene:
    """One step of a trace, to be changed."""

    step: StepEvents
    graph: Graph
    whole_trace: bool = False  # no step is known: what is replayed is all that the trace holds
    clock: HostClock | None = None  # of the main logical thread, where the graph's delays are without what recording took

    @property
    def trace(self) -> Trace:
        """The trace that it is a step of."""
        return self.step.trace

    def where(self, condition: pl.Expr) -> Flags:
        """The nodes of device work for which a condition on `events` holds, as flags of all nodes."""
        flags = np.zeros(self.graph.nodes, dtype=np.bool_)
        flags[self.step.nodes] = self.step.events.select(condition.fill_null(value=False).alias("found"))["found"].to_numpy()
        return flags

    def column(self, name: str) -> NDArray[np.float64]:
        """A numeric column of `events` by node, NaN for what is no device work or unknown. Shape (nodes,)."""
        values = np.full(self.graph.nodes, np.nan)
        values[self.step.nodes] = self.step.events[name].cast(pl.Float64).to_numpy()
        return values

    def covered(self, intervals: Intervals) -> Floats:
        """How much of each edge of the main logical thread lies in intervals of that thread. Shape (edges,); 0 for all other edges."""
        graph, covered = self.graph, np.zeros(len(self.graph.source))
        chain = self.main_chain
        at = graph.observed.astype(np.int64) + self.step.begin_ns
        if self.clock is not None:
            at, intervals = self.clock.own(at), Intervals(self.clock.own(intervals.start), self.clock.own(intervals.end))
        covered[chain] = intervals.covered(at[graph.target[chain]]) - intervals.covered(at[graph.source[chain]])
        return covered

    def without(self, clock: HostClock) -> Scene:
        """The same step, without what recording it took of the main logical thread's time."""
        graph, chain = self.graph, self.main_chain
        at = graph.observed.astype(np.int64) + self.step.begin_ns
        taken = at - clock.own(at)
        delay = graph.delay.copy()
        own = np.maximum(delay[chain], 0.0)
        delay[chain] -= np.minimum(own, taken[graph.target[chain]] - taken[graph.source[chain]])
        return replace(self, graph=replace(graph, delay=delay), clock=clock)

    @property
    def main_chain(self) -> Ints:
        """The edges of the main logical thread, in its order."""
        return np.flatnonzero((self.graph.kind == CHAIN) & self.graph.on_main[self.graph.target])

    def returns_of(self, calls: Flags) -> Flags:
        """Nodes at which one of these calls (flags by call) returns."""
        return np.asarray(self.graph.returns & (self.graph.call >= 0) & calls[self.graph.call])

    def launchers(self, work: Flags) -> Flags:
        """By call: whether it launched one of these nodes."""
        found = np.zeros(len(self.trace.material.calls.start), dtype=np.bool_)
        calls = self.trace.material.work.call[self.graph.work[work]]
        found[calls[calls >= 0]] = True
        return found

    def edit(self) -> Edit:
        return Edit(self.graph)


class Edit:
    """A variant in the making."""

    def __init__(self, graph: Graph) -> None:
        self.graph = graph
        self.delay, self.duration, self.residual = graph.delay.copy(), graph.duration.copy(), graph.residual.copy()
        self.at_least = 0.0

    def scale(self, nodes: Flags, factor: float) -> Edit:
        """Let device work take this many times as long."""
        self.duration[nodes] *= factor
        return self

    def drop(self, nodes: Flags) -> Edit:
        """Let device work take no time and cause no delay of its own."""
        self.duration[nodes] = 0.0
        self.residual[nodes] = 0.0
        into = nodes[self.graph.target] & (self.graph.kind != CHAIN)
        self.delay[into] = np.minimum(self.delay[into], 0.0)
        return self

    def remove_host(self, ns: Floats) -> Edit:
        """Take time from edges of host threads, shape (edges,), as far as they have it."""
        chain = self.graph.kind == CHAIN
        self.delay[chain] = np.minimum(self.delay[chain], np.maximum(self.delay[chain] - ns[chain], 0.0))
        return self

    def never_wait(self, returns: Flags) -> Edit:
        """Let calls return at once: the nodes at which they do wait for nothing but their own thread, for as long as a call takes."""
        into = returns[self.graph.target]
        self.delay[into & (self.graph.kind == RETURN)] = -np.inf
        own = into & (self.graph.kind == CHAIN)
        self.delay[own] = np.minimum(self.delay[own], self.graph.own_call)
        self.residual[returns] = 0.0
        return self

    def variant(self) -> Variant:
        return Variant(self.delay, self.duration, self.residual, self.at_least)
