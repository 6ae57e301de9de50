"""What the training thread of a trace without a device did: each instant of a step is charged to that.

Named ranges that tell a stage go to it; operators to `compute`, by direction; between the step's first operator (or the end of its input
wait) and its last (or the end of its optimizer) time without an operator is the Python of the training, also `compute`. Before and after,
what somebody has named is `output`, by that name: it is done with results, or at least beside the model; so are the script's functions
after it, where the profiler took Python's calls. Other time is not recorded. A collective, of whichever thread, is exposed while the
training thread computes nothing: no operator of its own is open, only the one that waits. Where the backward runs on a thread of its own,
what that thread does counts for the training thread, which waits for it.

A mark need not lie between two steps: Lightning's profiler ends a step with the forward, inside of the optimizer's call, which has the
forward and the backward as its closure. What an optimizer's call is around, and a framework's own forward, is never beside the model; and
of an optimizer's call only what follows its closure is the update.

A framework's runtime may compute on threads of its own, in the name of the training thread, which waits or goes on: what it works then is
the training's compute, whatever the thread does meanwhile, as of a device. Of which pass it is, is not told. What a range of the training
thread hands over belongs to that range.
"""

from __future__ import annotations

from typing import Final

import numpy as np
import polars as pl

from slowstep.analyses.events.names import host_named, host_names
from slowstep.analyses.events.parts import BETWEEN_OPERATORS, COLLECTIVES, COLUMNS, FORWARD, NOTHING_RECORDED, OPERATORS, rows_of
from slowstep.analyses.events.training_thread import OPTIMIZER_RANGE, training_thread
from slowstep.analyses.events.unions import merged
from slowstep.analyses.ledger.stage_ranges import LOAD_BATCH, told_ranges
from slowstep.analyses.python.user_places import own_function
from slowstep.frameworks._events import Event
from slowstep.frameworks._known import events
from slowstep.parts import BACKWARD as AUTOGRAD
from slowstep.parts import OPTIMIZER as UPDATE
from slowstep.parts import PartKind
from slowstep.timeline.intervals import Flags, Ints, containing, distinct, flattened, union
from slowstep.timeline.spine import NEVER, NONE, HostLane, Labelled
from slowstep.timeline.timeline import Timeline

# Ranges of process groups that name their library, and what a framework calls its exchanges.
COLLECTIVE_RANGE: Final = rf"^(gloo|nccl|mpi|ucc):|{events(Event.COLLECTIVE)}"
# What people call their own range around it, and its engine's nodes.
BACKWARD_RANGE: Final = rf"(?i:^\W*backward\W*$)|{events(Event.BACKWARD, Event.GRADIENT_NODE)}"
# What waits, and computes nothing itself.
WAITS: Final = rf"{COLLECTIVE_RANGE}|{events(Event.ENGINE_WAIT)}"


def training_lane(timeline: Timeline, begins: Ints, ends: Ints) -> tuple[HostLane, pl.DataFrame]:
    """What the training thread did at every instant of some steps, and the part of each label."""
    thread = training_thread(timeline)
    host = timeline.table("host_events").filter((pl.col("kind") != "python") & (pl.col("end_ns") > pl.col("start_ns")))
    ranges = told_ranges(timeline).filter(pl.col("thread") == thread)
    named = Labelled(*flattened(ranges["start_ns"].to_numpy(), ranges["end_ns"].to_numpy()))
    handed = _Handed(timeline.table("handed_work"), thread, named)
    spans = _Spans(host, _own_functions(timeline, thread), thread, handed)
    bodies = spans.bodies(begins, ends, ranges)
    first, end, beside_parts = spans.beside(bodies, begins, ends)
    edges = distinct(begins, ends, *named[:2], first, end, *spans.edges)
    at = edges[:-1]
    kind, row = spans.kind(at, bodies), named.at(at)
    beside = np.where((row >= 0) | np.isin(kind, (SHARING_KIND, HANDED_KIND)), NONE, containing(first, end, at))
    told = (row >= 0) & (kind != HANDED_KIND)
    part = np.select([beside >= 0, told], [len(KINDS) + len(ranges) + beside, len(KINDS) + row], default=kind)
    known = pl.concat([rows_of(KINDS), ranges.select(pl.col(name).cast(pl.String) for name in COLUMNS), beside_parts])
    return HostLane(thread=NONE if thread is None else thread, named=Labelled(at, edges[1:], part)), known


def _own_functions(timeline: Timeline, thread: int | None) -> pl.DataFrame:
    """Calls of the script's own functions on the training thread: `start_ns`, `end_ns`, and `kind`, `name` and `place` of the part."""
    names = host_names(timeline, ["python"])
    told = [own_function(text) or (None, None, None) for text in names["text"].to_list()]
    labels = pl.DataFrame(told, schema=dict.fromkeys(("part_kind", "part_name", "place"), pl.String), orient="row")
    # What loads a batch may do so for the next step.
    names = pl.concat([names, labels], how="horizontal")
    names = names.filter(pl.col("part_kind").is_not_null() & ~pl.col("text").str.contains(LOAD_BATCH))
    rows = host_named(timeline, names).filter(pl.col("thread") == thread)
    return rows.select("start_ns", "end_ns", kind="part_kind", name="part_name", place="place")


FORWARD_KIND, BACKWARD_KIND, OPTIMIZER_KIND, PYTHON_KIND, SHARING_KIND, HANDED_KIND, NOTHING_KIND = range(7)
KINDS: Final = (FORWARD, AUTOGRAD, UPDATE, BETWEEN_OPERATORS, COLLECTIVES, OPERATORS, NOTHING_RECORDED)


class _Handed:
    """What a runtime did for the training thread, but for what one of its named ranges has handed over; and the calls that hand it over."""

    def __init__(self, table: pl.DataFrame, thread: int | None, named: Labelled) -> None:
        mine = table.filter(pl.col("for_thread") == thread)
        handed_ns = mine["handed_ns"].fill_null(NEVER).to_numpy()
        free = pl.Series(named.at(handed_ns) < 0, dtype=pl.Boolean)
        self.work = merged(mine.filter(pl.col("works") & free))
        self.calls = merged(mine.filter(~pl.col("works") & (pl.col("thread") == thread)))
        # A loop that hands over whole graphs makes operations of its own around them, for whatever it likes: only of a loop that makes all
        # of them by itself is what lies between them the training's.
        own = mine.filter(pl.col("works") & free & (pl.col("thread") == thread) & pl.lit(not len(self.calls[0])))
        self.own = own.select("start_ns", "end_ns")


class _Spans:
    """The training thread's operators, backward, optimizer, and the collectives of all threads, each as disjoint intervals."""

    def __init__(self, host: pl.DataFrame, functions: pl.DataFrame, thread: int | None, handed: _Handed) -> None:
        names = host.select("name").unique().with_columns(pl.col("name").cast(pl.String).alias("text"))
        flags = names.select(
            "name",
            pl.col("text").str.contains(BACKWARD_RANGE).alias("backward"),
            pl.col("text").str.contains(OPTIMIZER_RANGE).alias("optimizer"),
            pl.col("text").str.contains(COLLECTIVE_RANGE).alias("collective"),
            pl.col("text").str.contains(WAITS).alias("waits"),
            pl.col("text").str.contains(events(Event.FORWARD)).alias("forward"),
            pl.col("text").str.contains(events(Event.STEP, Event.RUNTIME)).alias("own"),
        )
        host = host.join(flags, on="name", how="left")
        engines = host.filter(pl.col("backward"))["thread"].unique()
        mine = host.filter((pl.col("thread") == thread) | (pl.col("thread").is_in(engines.implode()) & (pl.col("kind") == "operator")))
        operators = mine.filter(pl.col("kind") == "operator")
        # Of what the runtime did here, on whichever thread, it is known where it belongs.
        operators = operators.filter(pl.Series(~_in(handed.work, operators["start_ns"].to_numpy()), dtype=pl.Boolean))
        self.computing = merged(operators.filter(~pl.col("waits")))
        self.operators = merged(pl.concat([operators.select("start_ns", "end_ns"), handed.own]))
        self.backward = merged(mine.filter(pl.col("backward")))
        self.with_closures = merged(mine.filter(pl.col("optimizer")))
        self.forwards = merged(mine.filter(pl.col("forward")))
        self.optimizer = _after_last(np.union1d(self.forwards[1], self.backward[1]), self.with_closures)
        self.collective = merged(host.filter(pl.col("collective")))
        plain = ~(pl.col("backward") | pl.col("optimizer") | pl.col("collective") | pl.col("own"))
        named = mine.filter((pl.col("kind") == "annotation") & (pl.col("thread") == thread) & plain)
        span, nowhere = pl.lit(PartKind.SPAN.value), pl.lit(None, dtype=pl.String)
        self.named = named.select("start_ns", "end_ns", kind=span, name=pl.col("name").cast(pl.String), place=nowhere)
        self.functions, self.handed = functions, handed

    @property
    def edges(self) -> list[Ints]:
        every = (
            *(self.computing, self.operators, self.backward, self.optimizer),
            *(self.with_closures, self.forwards, self.collective, self.handed.work, self.handed.calls),
        )
        return [side for both in every for side in both]

    def bodies(self, begins: Ints, ends: Ints, ranges: pl.DataFrame) -> tuple[Ints, Ints]:
        """Of each step, from the end of its first input wait or its first operator to the end of its optimizer or last operator."""
        received = merged(ranges.filter(pl.col("stage") == "preprocess"))[1]
        done = np.where(
            _last_within(self.optimizer[1], begins, ends) >= 0,
            _last_within(self.optimizer[1], begins, ends),
            _last_within(self.operators[1], begins, ends),
        )
        first = _first_within(self.operators[0], begins, ends)
        taken = _first_within(received, begins, ends)
        opened = np.where((taken >= 0) & ((taken < first) | (first < 0)), taken, first)
        usable = (opened >= 0) & (done > opened)
        opened, done = opened[usable], done[usable]
        inner, left = self._around_the_model(received, done)
        return union(np.append(opened, inner), np.append(done, left))

    def _around_the_model(self, received: Ints, done: Ints) -> tuple[Ints, Ints]:
        """Begins and ends of what is around the model's work wherever a step's mark lies; from the end of the input wait on before which
        nothing else was done.

        A `training_step` around an optimizer's call updates by itself, and may then do anything.
        """
        begin, end = self.forwards
        updates = np.searchsorted(self.with_closures[1], end, side="right") > np.searchsorted(self.with_closures[1], begin)
        begin, end = np.append(begin[~updates], self.with_closures[0]), np.append(end[~updates], self.with_closures[1])
        waited = _latest(received, begin)
        return np.where(waited > _latest(done, begin), waited, begin), end

    def beside(self, bodies: tuple[Ints, Ints], begins: Ints, ends: Ints) -> tuple[Ints, Ints, pl.DataFrame]:
        """Begins, ends and parts of what somebody has named and no body is in, the outermost of those inside each other.

        In a step without a body (its operators are on other threads) nothing is known to be beside one. Functions have names anyway: they
        count after a body only, before it they may make the input.
        """
        named = self.named.filter(
            _outside(self.named, bodies) & _in_steps(self.named, begins, ends, _first_within(bodies[0], begins, ends))
        )
        done = _last_within(bodies[1], begins, ends)
        after = self.functions.filter(_outside(self.functions, bodies) & _in_steps(self.functions, begins, ends, done, after=True))
        ranges = pl.concat([named, after]).sort("start_ns", "end_ns", descending=[False, True])
        reach = pl.col("end_ns").cum_max().shift(1)
        rows = ranges.filter(reach.is_null() | (pl.col("start_ns") >= reach))
        return rows["start_ns"].to_numpy(), rows["end_ns"].to_numpy(), rows.select(pl.lit("output").alias("stage"), "kind", "name", "place")

    def kind(self, at: Ints, bodies: tuple[Ints, Ints]) -> Ints:
        """What holds at each instant, as an index of `KINDS`."""
        kind = np.where(_in(bodies, at) | _in(self.handed.calls, at), PYTHON_KIND, NOTHING_KIND)
        kind = np.where(_in(self.operators, at), FORWARD_KIND, kind)
        kind = np.where(_in(self.backward, at), BACKWARD_KIND, kind)
        kind = np.where(_in(self.optimizer, at), OPTIMIZER_KIND, kind)
        kind = np.where(_in(self.handed.work, at), HANDED_KIND, kind)
        return np.where(_in(self.collective, at) & ~_in(self.computing, at), SHARING_KIND, kind)


def _outside(rows: pl.DataFrame, bodies: tuple[Ints, Ints]) -> pl.Series:
    """Which rows touch no body."""
    touched = np.searchsorted(bodies[0], rows["end_ns"].to_numpy()) > np.searchsorted(bodies[1], rows["start_ns"].to_numpy(), side="right")
    return pl.Series(~touched, dtype=pl.Boolean)


def _in_steps(rows: pl.DataFrame, begins: Ints, ends: Ints, of_step: Ints, *, after: bool = False) -> pl.Series:
    """Which rows begin in a step for which there is an instant `of_step` (-1: none), and, where asked, not before that."""
    start = rows["start_ns"].to_numpy()
    instant = np.append(of_step, -1)[containing(begins, ends, start)]
    return pl.Series((instant >= 0) & ((start >= instant) | (not after)), dtype=pl.Boolean)


def _in(intervals: tuple[Ints, Ints], at: Ints) -> Flags:
    return np.asarray(containing(*intervals, at) >= 0)


def _after_last(times: Ints, intervals: tuple[Ints, Ints]) -> tuple[Ints, Ints]:
    """The intervals, each from the last of some instants on that is in it."""
    begin, end = intervals
    return np.maximum(begin, _latest(times, end)), end


def _latest(times: Ints, at: Ints) -> Ints:
    """The last of some instants, in order, that is not after each other one; before all of them where there is none."""
    return np.append(times, np.iinfo(np.int64).min)[np.searchsorted(times, at, side="right") - 1]


def _first_within(times: Ints, begins: Ints, ends: Ints) -> Ints:
    found = np.append(times, np.iinfo(np.int64).max)[np.searchsorted(times, begins)]
    return np.where(found < ends, found, -1)


def _last_within(times: Ints, begins: Ints, ends: Ints) -> Ints:
    found = np.append(times, -1)[np.searchsorted(times, ends, side="right") - 1]
    return np.where(found > begins, found, -1)
