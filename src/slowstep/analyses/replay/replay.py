"""Gain by replay: how long steps would have taken with one thing changed (table `replay`).

At most five steps are replayed: the median one, the slowest, and three at random (with a fixed seed); of very large ones fewer. Each is
rebuilt as its dependency graph (`replay_graph`), and replayed unchanged and as each scenario has it (`replay_scenarios`,
`replay_lengths`, `replay_clock`). A step is not judged where more than 10 % of it are delays that no dependency explains, or where the
replay of the unchanged graph misses its length by more than 2 %, as what it took then depends on the steps before it; nor a scenario whose
step consists of such delays to more than 10 %. Where the clocks of host and device differ (`clocks`) nothing is. Waits that no call tells
of are looked for first (`replay_hidden_waits`). What other ranks do is as observed. Where the profiler's own cost matters each step is
replayed once more without what that usually is, and without the most that it may be (`recording_cost`).
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

import numpy as np
import polars as pl

from slowstep.analyses.device.clocks import Clocks, find_clocks
from slowstep.analyses.events.tables import REPLAY, WINDOW
from slowstep.analyses.ledger.stage_ranges import stage_ranges
from slowstep.analyses.python.callers import Callers
from slowstep.analyses.replay.graph import build_graph, residual_ns
from slowstep.analyses.replay.graph_waits import LaunchOrder
from slowstep.analyses.replay.hidden_waits import with_hidden_waits
from slowstep.analyses.replay.lengths import RESIDUAL_AT_MOST, ScenarioLength, scenario_lengths
from slowstep.analyses.replay.recording_cost import AS_RECORDED, find_profiler_records
from slowstep.analyses.replay.replayed_work import Material, find_material
from slowstep.analyses.replay.scenarios import SCENARIOS, UNCHANGED
from slowstep.analyses.replay.scene import Scene, StepEvents, Trace
from slowstep.analyses.replay.unjudged import (
    DELAYS_IN_STEP,
    REBUILT_OTHERWISE,
    STEP_TOO_LARGE,
    TRACE_TOO_LARGE,
    unjudged_columns,
)
from slowstep.analyses.steps.chance import SEED
from slowstep.reasons import Reason
from slowstep.timeline.timeline import Timeline

STEPS_AT_MOST: Final = 5
# Calls and device work of all replayed steps together. Three passes over 565,000 took 5.0 s, 3 us each (on an AMD EPYC), and one step of
# this size takes 66, as each scenario needs its own: 50 s. A graph of a million, of a window without steps, also takes more than its trace.
EVENTS_AT_MOST: Final = 1 << 18
MISSES_AT_MOST: Final = 0.02
_CHANGES: Final = tuple(scenario for scenario in SCENARIOS if scenario != UNCHANGED)


def find_replay(
    timeline: Timeline,
    steps: pl.DataFrame,
    measured_tables: Mapping[str, pl.DataFrame],
    callers: Callers | None = None,
    clocks: Clocks | None = None,
) -> pl.DataFrame:
    """The table `replay`: one row per scenario and replayed step.

    `measured_tables` are those of the other analyses made so far, by name; of `loader`, `kernels`, `operators` and `copies` what is there
    is used. Without steps the table is empty.
    """
    if steps.is_empty():
        return REPLAY.empty()
    chosen = choose_steps((steps["end_ns"] - steps["start_ns"]).to_numpy())
    if steps["mark"][0] == WINDOW and timeline.count("device_events") > EVENTS_AT_MOST:
        # Known before anything is made of it.
        return _none_judged(steps, chosen, _too_large(timeline.count("device_events"), whole_trace=True))
    callers = callers or Callers(timeline)
    differ = (clocks or find_clocks(timeline)).differ
    if differ is not None:
        return _none_judged(steps, chosen, differ)
    material = find_material(timeline, steps)
    if isinstance(material, Reason):
        return _none_judged(steps, chosen, material)
    ranges = stage_ranges(timeline).filter(pl.col("thread").is_in(list(material.turns)))
    material = with_hidden_waits(timeline, material, ranges, int(steps["host_end_ns"].to_numpy().max()))
    reach = np.cumsum([_events(material, *host_bounds(steps, step)) for step in chosen])
    fitting = int(np.searchsorted(reach, EVENTS_AT_MOST, side="right"))
    if not fitting:
        return _none_judged(steps, chosen[:1], _too_large(int(reach[0]), whole_trace=steps["mark"][0] == WINDOW))
    devices = timeline.table("trace_devices")["name"].drop_nulls()
    recording = find_profiler_records(timeline, material.turns)
    trace = Trace(timeline, material, callers, measured_tables, devices[0] if len(devices) else None, ranges, recording)
    launched = LaunchOrder(material)
    return _table([row for step in sorted(chosen[:fitting]) for row in _replayed(trace, launched, steps, step)])


def choose_steps(lengths: np.ndarray[tuple[int], np.dtype[np.int64]]) -> list[int]:
    """Positions of the steps to replay, all of up to five, those first that matter most: the median, the slowest, others at random."""
    order = np.argsort(lengths, kind="stable")
    by_length = [int(order[(len(order) - 1) // 2]), int(np.argmax(lengths))]
    at_random = np.random.default_rng(SEED).permutation(len(lengths)).tolist()
    return list(dict.fromkeys(by_length + at_random))[:STEPS_AT_MOST]


def host_bounds(steps: pl.DataFrame, step: int) -> tuple[int, int]:
    """A step's time on the host: what lies between its mark and the next one's belongs to it where the two follow each other."""
    begin, end = steps["host_start_ns"][step], steps["host_end_ns"][step]
    if step + 1 < steps.height and steps["number"][step + 1] == steps["number"][step] + 1:
        end = max(end, steps["host_start_ns"][step + 1])
    return int(begin), int(end)


def _events(material: Material, begin_ns: int, end_ns: int) -> int:
    """How many calls, and kernels and copies that were launched, an interval of the host holds."""
    calls, launched = np.searchsorted(material.calls.start, [begin_ns, end_ns]), material.work.launched
    return int(calls[1] - calls[0]) + int(np.count_nonzero((launched >= begin_ns) & (launched < end_ns)))


def _too_large(events: int, *, whole_trace: bool) -> Reason:
    return (TRACE_TOO_LARGE if whole_trace else STEP_TOO_LARGE)(events=events, most=EVENTS_AT_MOST)


def _none_judged(steps: pl.DataFrame, chosen: list[int], reason: Reason) -> pl.DataFrame:
    return _table([row for step in sorted(chosen) for row in _unjudged(steps, step, reason)])


def _replayed(trace: Trace, launched: LaunchOrder, steps: pl.DataFrame, step: int) -> list[dict[str, Any]]:
    begin, end = host_bounds(steps, step)
    graph = build_graph(trace.material, launched, begin, end)
    observed, residual = int(steps["end_ns"][step] - steps["start_ns"][step]), residual_ns(graph)
    if residual > RESIDUAL_AT_MOST * observed:
        return _unjudged(steps, step, DELAYS_IN_STEP(share=residual / observed), residual)
    scene = Scene(StepEvents(trace, graph.work, begin, end), graph, whole_trace=steps["mark"][step] == WINDOW)
    clocks = {} if trace.recording is None else trace.recording.clocks(begin, end)
    scenes = [scene, *map(scene.without, clocks.values())]
    unchanged, reason, answers = scenario_lengths(scenes, _CHANGES, lambda ns: _missed(observed, ns))
    common = {"step": step, "observed_ns": observed, "residual_ns": residual}
    if reason is not None:
        as_recorded = common | {"recording": AS_RECORDED, "unchanged_ns": unchanged[0], **unjudged_columns(reason)}
        return [as_recorded | {"scenario": scenario} for scenario in SCENARIOS]
    levels = [(AS_RECORDED, 0), *((level, clock.taken_ns) for level, clock in clocks.items())]
    rows = []
    for (level, taken_ns), unchanged_ns, found in zip(levels, unchanged, answers, strict=True):
        own = common | {"recording": level, "taken_ns": taken_ns, "unchanged_ns": unchanged_ns}
        found = {UNCHANGED: ScenarioLength(unchanged_ns, unchanged_ns, unchanged_ns), **found}
        rows += [own | {"scenario": scenario} | _times(answer) for scenario, answer in found.items()]
    return rows


def _times(answer: ScenarioLength) -> dict[str, float | str | None]:
    if answer.reason is not None:
        return {**unjudged_columns(answer.reason)}
    return {"expected_ns": answer.expected_ns, "best_ns": answer.best_ns, "worst_ns": answer.worst_ns}


def _missed(observed: float, replayed: float) -> Reason | None:
    if abs(replayed - observed) <= MISSES_AT_MOST * observed:
        return None
    return REBUILT_OTHERWISE(took=observed, rebuilt=replayed)


def _unjudged(steps: pl.DataFrame, step: int, reason: Reason, residual: float = 0.0) -> list[dict[str, Any]]:
    observed = steps["end_ns"][step] - steps["start_ns"][step]
    common = {"step": step, "observed_ns": observed, "unchanged_ns": observed, "residual_ns": residual, **unjudged_columns(reason)}
    return [common | {"scenario": scenario, "recording": AS_RECORDED} for scenario in SCENARIOS]


def _table(rows: list[dict[str, Any]]) -> pl.DataFrame:
    return pl.DataFrame([{column.name: _whole(row.get(column.name)) for column in REPLAY.columns} for row in rows], schema=REPLAY.schema)


def _whole(value: object) -> object:
    return round(value) if isinstance(value, float) else value
