"""Scenarios in which host threads do less or wait less: each gives a step's variants, or says why it cannot."""

from __future__ import annotations

import numpy as np
import polars as pl

from slowstep.analyses.device.compilations import KERNEL_COMPILERS
from slowstep.analyses.ledger.own_work import LONG_NS
from slowstep.analyses.replay import assumed
from slowstep.analyses.replay.replayed_work import DEVICE, EVENT, MAYBE, NOTHING, OWN_COPY, STREAM
from slowstep.analyses.replay.scene import Changed, Intervals, Scene
from slowstep.analyses.replay.unjudged import HOST_OPERATORS_UNSEEN, NO_INPUT_NAMED, NO_LAUNCH, NO_STEPS_SHOWN
from slowstep.analyses.steps.steps import Floats
from slowstep.frameworks._events import Event
from slowstep.frameworks._known import events
from slowstep.reasons import Reason
from slowstep.timeline.intervals import Flags


def no_input_wait(scene: Scene) -> Changed | Reason | None:
    """Each batch is ready when it is asked for: receiving it is what stays."""
    waits = scene.trace.table("loader")
    if waits.is_empty():
        return NO_INPUT_NAMED()
    length = (waits["end_ns"] - waits["start_ns"]).to_numpy()
    # What the shortest wait took is at most what receiving takes: no need to assume more.
    shortest = float(length.min())
    stays = (assumed.RECEIVE_NS.expected, assumed.RECEIVE_NS.optimistic, assumed.RECEIVE_NS.pessimistic)
    kept = (min(stays[0], shortest), stays[1], stays[2])
    removed = [scene.covered(Intervals.union(_shortened(waits, floor))) for floor in kept]
    return _removals(scene, *removed)


def _shortened(waits: pl.DataFrame, floor: float) -> pl.DataFrame:
    rows = waits.select("start_ns", (pl.col("end_ns") - round(floor)).alias("end_ns"))
    return rows.filter(pl.col("end_ns") > pl.col("start_ns"))


def launches_free(scene: Scene) -> Changed | Reason | None:
    """Between two launches of the main thread no host time is left but what the script does there itself."""
    graph, chain = scene.graph, scene.main_chain
    kernels = scene.launchers(scene.where(pl.col("kind").is_in(["kernel", "memset", "d2d"])))
    waits = scene.trace.material.calls.waits_for > NOTHING
    launches = (graph.call >= 0) & (kernels & ~waits)[graph.call] & ~graph.returns
    between = np.zeros(len(graph.source), dtype=np.bool_)
    between[chain] = launches[graph.source[chain]] & launches[graph.target[chain]]
    if not between.any():
        return None
    named = scene.covered(_stages(scene))
    called = scene.covered(scene.step.called)
    free = np.where(between, np.maximum(graph.delay - named, 0.0), 0.0)
    in_calls = np.minimum(free, called)
    removed = np.where(graph.delay > LONG_NS, in_calls, free)
    return _removals(scene, removed, free, in_calls)


def _stages(scene: Scene, *stages: str) -> Intervals:
    """Named ranges that tell a stage (one of these, or any): input waits, callbacks, writes; launching has no part in them."""
    ranges = scene.trace.ranges
    return Intervals.union(ranges.filter(pl.col("stage").is_in(stages)) if stages else ranges)


def no_callbacks(scene: Scene) -> Changed | Reason | None:
    """Named callbacks, validation and logging take no time on the host."""
    removed = scene.covered(_stages(scene, "output"))
    return _removals(scene, removed, removed, removed)


def no_writes(scene: Scene) -> Changed | Reason | None:
    """Named writes, as of checkpoints, take no time on the host."""
    removed = scene.covered(_stages(scene, "store"))
    return _removals(scene, removed, removed, removed)


def no_synchronization(scene: Scene) -> Changed | Reason | None:
    """Waits for the device go, but those that the step needs, that allocate, that bring input, or that read GradScaler's flag."""
    calls, step = scene.trace.material.calls, _calls_of(scene)
    kind = calls.waits_for
    waits = step & np.isin(kind, [STREAM, EVENT, DEVICE]) & ~calls.allocates
    waits |= step & (kind == OWN_COPY) & scene.launchers(scene.where(pl.col("kind") == "d2h"))
    gone = waits & ~_needed(scene, waits) & ~_inside(scene, scene.step.loader)
    if not gone.any():
        return None
    return _unwaiting(scene, gone & ~_inside(scene, _scaling(scene)), gone)


def no_loss_scaling(scene: Scene) -> Changed | Reason | None:
    """GradScaler's flag is not read back."""
    calls = scene.trace.material.calls
    waits = _calls_of(scene) & (calls.waits_for > NOTHING) & (calls.waits_for != MAYBE)
    gone = waits & _inside(scene, _scaling(scene)) if waits.any() else waits
    return _unwaiting(scene, gone, gone) if gone.any() else None


def _unwaiting(scene: Scene, expected: Flags, optimistic: Flags) -> Changed:
    edits = [scene.edit().never_wait(scene.returns_of(calls)) for calls in (expected, optimistic, expected)]
    return Changed.of(edits)


def _calls_of(scene: Scene) -> Flags:
    calls = scene.trace.material.calls
    return np.asarray((calls.start >= scene.step.begin_ns) & (calls.start < scene.step.end_ns))


def _needed(scene: Scene, waits: Flags) -> Flags:
    calls, found = scene.trace.material.calls, np.zeros(len(waits), dtype=np.bool_)
    if not waits.any():
        return found
    which = np.flatnonzero(waits)
    around = scene.trace.callers.around(calls.thread[which], calls.start[which])
    found[which] = around["operator"].str.contains(events(Event.NEEDS_ANSWER)).fill_null(value=False).to_numpy()
    return found


def _inside(scene: Scene, stretches: Intervals) -> Flags:
    """Calls that begin in a stretch."""
    start = scene.trace.material.calls.start
    if not len(stretches.start):
        return np.zeros(len(start), dtype=np.bool_)
    at = np.searchsorted(stretches.start, start, side="right") - 1
    return np.asarray((at >= 0) & (start < stretches.end[np.maximum(at, 0)]))


def _scaling(scene: Scene) -> Intervals:
    """From each check of the gradients to the update of the scale."""
    rows = scene.step.host(["operator"])
    name = pl.col("name").cast(pl.String).str
    rows = rows.filter(name.contains(events(Event.SCALE_CHECK, Event.SCALE_UPDATE))).sort("start_ns")
    rows = rows.select("name", "start_ns", "end_ns", pl.col("start_ns").shift(-1).alias("next_ns"))
    rows = rows.filter(name.contains(events(Event.SCALE_CHECK)))
    return Intervals.union(rows.select("start_ns", pl.col("next_ns").fill_null(scene.step.end_ns).alias("end_ns")))


def no_allocator_calls(scene: Scene) -> Changed | Reason | None:
    """Calls that allocate or free take no time and wait for nothing."""
    calls = scene.trace.material.calls
    gone = _calls_of(scene) & calls.allocates
    if not gone.any():
        return None
    removed = scene.covered(Intervals.union(pl.DataFrame({"start_ns": calls.start[gone], "end_ns": calls.end[gone]})))
    variant = scene.edit().never_wait(scene.returns_of(gone)).remove_host(removed).variant()
    return Changed(variant, variant, variant)


def no_compilation(scene: Scene) -> Changed | Reason | None:
    """Nothing is compiled within the step."""
    rows = scene.step.host(["operator", "annotation", "python"])
    compiles = f"{KERNEL_COMPILERS}|{events(Event.COMPILATION, Event.COMPILATION_FUNCTION, Event.BUILD_FUNCTION)}"
    rows = rows.filter(pl.col("name").cast(pl.String).str.contains(compiles))
    if rows.is_empty():
        return None
    removed = scene.covered(Intervals.union(rows))
    return _removals(scene, removed, removed, removed)


def host_operations_on_device(scene: Scene) -> Changed | Reason | None:
    """Operators that computed on the host only have to be launched; those inside an input wait are the loader's."""
    outermost = scene.step.host_operators
    if outermost is None:
        return HOST_OPERATORS_UNSEEN()
    if not len(outermost.start):
        return None
    in_waits = Intervals.union(pl.concat([_frame(outermost), _frame(scene.step.loader)]))
    total = scene.covered(in_waits) - scene.covered(scene.step.loader)
    a = assumed.OPERATION_NS
    count = len(outermost.start)
    whole = max(float(total.sum()), 1.0)
    removed = [total * max(1.0 - count * each / whole, 0.0) for each in (a.expected, a.optimistic, a.pessimistic)]
    return _removals(scene, *removed)


def _frame(intervals: Intervals) -> pl.DataFrame:
    return pl.DataFrame({"start_ns": intervals.start, "end_ns": intervals.end}, schema={"start_ns": pl.Int64, "end_ns": pl.Int64})


def no_work_between_steps(scene: Scene) -> Changed | Reason | None:
    """Host work after the last launch of a step and before the first of the next that is neither input wait nor a waiting call."""
    if scene.whole_trace:
        return NO_STEPS_SHOWN()
    graph, chain = scene.graph, scene.main_chain
    launching = (graph.call >= 0) & scene.trace.material.calls.launches[graph.call] & ~graph.returns
    found = np.flatnonzero(launching[graph.target[chain]])
    if not len(found):
        return NO_LAUNCH()
    outside = np.zeros(len(graph.source), dtype=np.bool_)
    outside[chain[: found[0] + 1]] = True
    outside[chain[found[-1] + 1 :]] = True
    waiting = graph.returns[graph.target]
    removed = np.where(outside & ~waiting, np.maximum(graph.delay - scene.covered(scene.step.loader), 0.0), 0.0)
    return _removals(scene, removed, removed, removed)


def _removals(scene: Scene, expected: Floats, optimistic: Floats, pessimistic: Floats) -> Changed | None:
    if not optimistic.any():
        return None
    return Changed.of(scene.edit().remove_host(ns) for ns in (expected, optimistic, pessimistic))
