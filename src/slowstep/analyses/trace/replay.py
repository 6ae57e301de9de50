"""Gain by replay: how long steps would have taken with one thing changed (table `replay`).

At most five steps are replayed: the median one, the slowest, and three at random (with a fixed seed). Each is rebuilt as its dependency
graph (`replay_graph`), and replayed unchanged and as each scenario has it (`replay_scenarios`, `replay_lengths`, `replay_clock`). A step
is not judged where the replay of the unchanged graph misses its length by more than 2 %, as what it took then depends on the steps before
it, or where more than 10 % of it are delays that no dependency explains. What other ranks do is as observed.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

import numpy as np
import polars as pl

from slowstep.analyses.chance import SEED
from slowstep.analyses.trace.callers import Callers
from slowstep.analyses.trace.replay_graph import build_graph, residual_ns
from slowstep.analyses.trace.replay_lengths import Answer, scenario_lengths
from slowstep.analyses.trace.replay_scene import Scene, Trace
from slowstep.analyses.trace.replay_waits import Launched
from slowstep.analyses.trace.replay_work import find_material
from slowstep.analyses.trace.scenarios import SCENARIOS, UNCHANGED
from slowstep.analyses.trace.stage_ranges import stage_ranges
from slowstep.analyses.trace.tables import REPLAY
from slowstep.timeline.timeline import Timeline

STEPS_AT_MOST: Final = 5
MISSES_AT_MOST: Final = 0.02
# The mark of a trace that shows no steps, and is taken as one.
WINDOW: Final = "window"
RESIDUAL_AT_MOST: Final = 0.10


def find_replay(
    timeline: Timeline, steps: pl.DataFrame, measured_tables: Mapping[str, pl.DataFrame], callers: Callers | None = None
) -> pl.DataFrame:
    """The table `replay`: one row per scenario and replayed step.

    `measured_tables` are those of the other analyses made so far, by name; of `loader`, `kernels`, `operators` and `copies` what is there
    is used. Without steps the table is empty.
    """
    if steps.is_empty():
        return REPLAY.empty()
    material = find_material(timeline, steps)
    chosen = choose_steps((steps["end_ns"] - steps["start_ns"]).to_numpy())
    if isinstance(material, str):
        return _table([row for step in chosen for row in _unjudged(steps, step, material)])
    callers = callers or Callers(timeline)
    devices = timeline.table("trace_devices")["name"].drop_nulls()
    ranges = stage_ranges(timeline).filter(pl.col("thread").is_in(list(material.turns)))
    trace = Trace(timeline, material, callers, measured_tables, devices[0] if len(devices) else None, ranges)
    launched = Launched(material)
    return _table([row for step in chosen for row in _replayed(trace, launched, steps, step)])


def choose_steps(lengths: np.ndarray[tuple[int], np.dtype[np.int64]]) -> list[int]:
    """Positions of the steps to replay, in order: all of up to five; else the median, the slowest and three at random."""
    if len(lengths) <= STEPS_AT_MOST:
        return list(range(len(lengths)))
    order = np.argsort(lengths, kind="stable")
    chosen = {int(order[(len(order) - 1) // 2]), int(np.argmax(lengths))}
    for step in np.random.default_rng(SEED).permutation(len(lengths)).tolist():
        if len(chosen) == STEPS_AT_MOST:
            break
        chosen.add(step)
    return sorted(chosen)


def host_bounds(steps: pl.DataFrame, step: int) -> tuple[int, int]:
    """A step's time on the host: what lies between its mark and the next one's belongs to it where the two follow each other."""
    begin, end = steps["host_start_ns"][step], steps["host_end_ns"][step]
    if step + 1 < steps.height and steps["number"][step + 1] == steps["number"][step] + 1:
        end = max(end, steps["host_start_ns"][step + 1])
    return int(begin), int(end)


def _replayed(trace: Trace, launched: Launched, steps: pl.DataFrame, step: int) -> list[dict[str, Any]]:
    begin, end = host_bounds(steps, step)
    graph = build_graph(trace.material, launched, begin, end)
    scene = Scene(trace, graph, begin, end, whole_trace=steps["mark"][step] == WINDOW)
    observed, residual = int(steps["end_ns"][step] - steps["start_ns"][step]), residual_ns(graph)
    others = [scenario for scenario in SCENARIOS if scenario != UNCHANGED]
    unchanged_ns, reason, answers = scenario_lengths(scene, others, lambda ns: _not_judged(observed, ns, residual))
    common = {"step": step, "observed_ns": observed, "unchanged_ns": unchanged_ns, "residual_ns": residual}
    if reason is not None:
        return [common | {"scenario": scenario, "not_judged": reason} for scenario in SCENARIOS]
    answers = {UNCHANGED: Answer(unchanged_ns, unchanged_ns, unchanged_ns)} | answers
    return [common | {"scenario": scenario} | _times(answer) for scenario, answer in answers.items()]


def _times(answer: Answer) -> dict[str, float | str | None]:
    if answer.reason is not None:
        return {"not_judged": answer.reason}
    return {"expected_ns": answer.expected_ns, "best_ns": answer.best_ns, "worst_ns": answer.worst_ns}


def _not_judged(observed: float, replayed: float, residual: float) -> str | None:
    if abs(replayed - observed) > MISSES_AT_MOST * observed:
        return (
            f"the replay of the unchanged step takes {replayed / 1e6:.1f} ms instead of {observed / 1e6:.1f}: "
            "what the step took depends on those before it"
        )
    if residual > RESIDUAL_AT_MOST * observed:
        return f"{residual / observed:.0%} of the step are delays that no dependency in the trace explains"
    return None


def _unjudged(steps: pl.DataFrame, step: int, reason: str) -> list[dict[str, Any]]:
    observed = steps["end_ns"][step] - steps["start_ns"][step]
    common = {"step": step, "observed_ns": observed, "unchanged_ns": observed, "residual_ns": 0, "not_judged": reason}
    return [common | {"scenario": scenario} for scenario in SCENARIOS]


def _table(rows: list[dict[str, Any]]) -> pl.DataFrame:
    return pl.DataFrame([{column.name: _whole(row.get(column.name)) for column in REPLAY.columns} for row in rows], schema=REPLAY.schema)


def _whole(value: object) -> object:
    return round(value) if isinstance(value, float) else value
