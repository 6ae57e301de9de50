"""Builds what was measured of a trace from a few rows, for tests of rules. Times are given in milliseconds a step."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import polars as pl

from made_topics import of_topics, with_topics
from slowstep.analyses.completeness import Completeness
from slowstep.analyses.device.charged import CHARGED
from slowstep.analyses.device.device_topic import DeviceTopic
from slowstep.analyses.events.parts import COLUMNS, KERNELS, part_of, row_of
from slowstep.analyses.events.tables import TRACE_MEASUREMENT_TABLES
from slowstep.analyses.ledger.ledger import Ledger
from slowstep.analyses.measurements import Measurements
from slowstep.analyses.replay.recording_cost import AS_RECORDED, LESS_MOST_COST, LESS_USUAL_COST
from slowstep.analyses.replay.replay_topic import ReplayTopic
from slowstep.analyses.replay.scenarios import UNCHANGED
from slowstep.analyses.replay.unjudged import unjudged_columns
from slowstep.analyses.steps.marks_topic import MarksTopic
from slowstep.analyses.steps.trace_steps import as_steps
from slowstep.analyses.steps.training_topic import TrainingTopic
from slowstep.frameworks._known import words_of_profiler
from slowstep.part_words import parts_in_order
from slowstep.parts import Part
from slowstep.reasons import Reason
from slowstep.timeline.coverage import KINDS, TRACED, UNSEEN
from slowstep.timeline.trace import TraceFacts

TABLE = {declared.name: declared for declared in TRACE_MEASUREMENT_TABLES}
EVERYTHING = frozenset({"operators", "runtime", "device", "shapes", "stacks", "python", "memory", "annotations"})
COMPLETE = Completeness(
    kernels=1000, kernels_with_launch=1.0, launches=1000, launches_with_kernel=1.0, inside_steps=0.9, devices=1, streams=2
)
OF_TRACES = dict.fromkeys(KINDS, TRACED) | {"batches": UNSEEN, "machine": UNSEEN}
# What a row of a table is where a test does not say it.
DEFAULTS: dict[str, dict[str, Any]] = {
    "steps": {"mark": "ProfilerStep", "thread": 0},
    "gaps": {"gap": 0, "between_steps": False, "thread": 0, "start_ns": 0, "end_ns": 0},
    "kernels": {"class": "other", "count": 100, "median_ns": 1e4, "p05_ns": 1e4, "p95_ns": 1e4, "share": 0.0},
    "operators": {"count": 100, "device_total_ns": 0, "device_self_ns": 0, "launches": 0, "on_host": False, "backward": False},
    "launches": {"launches": 0, "graph_launches": 0, "launch_ns": 0, "short_kernels": 0},
    "copies": {"exposed_ns": 0, "blocking": False, "repeated": False},
    "synchronizations": {"host_wait_ns": 0, "run_dry_ns": 0, "reads_back": False},
    "collectives": {"library": "nccl", "exposed_ns": 0, "overlapped_ns": 0},
    "memory": {"device": 0, "allocator_calls": 0, "allocator_ns": 0},
    "loader": {"start_ns": 0, "end_ns": 0, "exposed_ns": 0},
    "replay": {"residual_ns": 0, "recording": AS_RECORDED},
}
PerStep = float | Sequence[float]


def measured_table(name: str, rows: Iterable[Mapping[str, Any]]) -> pl.DataFrame:
    """A declared table from rows: `total_ms` and `total_us` stand for `total_ns`; columns left out are null, or as in DEFAULTS."""
    full = []
    for row in rows:
        given = _in_columns(name, {_column(key): _whole(key, value) for key, value in row.items()})
        full.append({column.name: None for column in TABLE[name].columns} | DEFAULTS.get(name, {}) | given)
    return pl.DataFrame(full, schema=TABLE[name].schema) if full else TABLE[name].empty()


def _in_columns(table: str, row: Mapping[str, Any]) -> dict[str, Any]:
    """The row with a part in the columns that tell one."""
    if "part" not in row:
        return dict(row)
    part, columns = row["part"], CHARGED if CHARGED[0] in TABLE[table].schema else COLUMNS
    values = (None,) * len(columns) if part is None else row_of(part)
    return {key: value for key, value in row.items() if key != "part"} | dict(zip(columns, values, strict=True))


def gaps_of(ms: float, *, steps: Iterable[int] = range(10), step_ms: float = 100.0, gap: int = 0, **row: Any) -> list[dict[str, Any]]:
    """Rows of the table `gaps`: a stretch of so many milliseconds at the begin of each of the steps, of steps that are all as long."""
    return [
        {"step": step, "gap": gap + 1000 * step, "start_ms": step * step_ms, "end_ms": step * step_ms + ms, "stage": "compute"} | row
        for step in steps
    ]


def made_measured(
    *,
    steps: int = 10,
    step_ms: PerStep = 100.0,
    ledger: Mapping[Part, PerStep] | None = None,
    replay: Mapping[str, PerStep | tuple[float, float, float] | Reason] | None = None,
    recorded: Iterable[str] = EVERYTHING,
    completeness: Mapping[str, Any] | None = None,
    facts: Mapping[str, Any] | None = None,
    has_device: bool = True,
    mark: str = "ProfilerStep",
    rest: Part = KERNELS,
    recording: tuple[float, float] | None = None,
    tables: Mapping[str, Iterable[Mapping[str, Any]]] | None = None,
    **more: Any,
) -> Measurements:
    """Measurements of a trace.

    `ledger` has ms per step by part, one number or a list with one for each step; rows of the table `gaps` are charged too
    (to the parts that `ledger` does not name); what is left of a step is `rest`.
    `replay` has, by scenario, the ms of a step after the change (a number, a list, or the tuple of expected, best and worst), or in
    words why it is not judged; `recording` the shares of the host's time that the profiler took, usually and at most. `mark` is "window"
    for a trace without steps, with `steps=1`. `tables` has the rows of other tables by name; `more` are fields of topics.
    """
    lengths = _each(step_ms, steps)
    filled = {name: measured_table(name, (tables or {}).get(name, ())) for name in TABLE if name != "ledger"}
    filled["steps"] = _steps(lengths).with_columns(pl.lit(mark).cast(TABLE["steps"].schema["mark"]).alias("mark"))
    charged = _ledger(lengths, _charged(filled["gaps"], steps) | dict(ledger or {}), rest)
    filled["replay"] = pl.concat([_replay(lengths, replay or {}), *_recorded(lengths, recording)])
    given: dict[str, Any] = {"format": "made", "files": ("made.json",), "bytes": 0, "events": 0, "recorded": frozenset(recorded)}
    given |= {"vendor": "nvidia"} if has_device else {}
    device: dict[str, Any] = {
        "seen": has_device,
        "name": "NVIDIA A100-SXM4-40GB" if has_device else None,
        "compute_capability": 8.0 if has_device else None,
        "busy_share": 0.5 if has_device else None,
    }
    tables_of_device = {name: rows for name, rows in filled.items() if name not in ("steps", "replay", "loader")}
    marks = MarksTopic(table=filled["steps"], whole_steps=steps)
    traced = TraceFacts(**(given | dict(facts or {})))
    found = of_topics(
        facts=traced,
        coverage=OF_TRACES,
        completeness=replace(COMPLETE, **dict(completeness or {})),
        marks=marks,
        steps=as_steps(filled["steps"], steps),
        training=TrainingTopic(words=words_of_profiler(traced.framework, traced.profiler)),
        ledger=charged,
        device=DeviceTopic(**device, **tables_of_device, requests=filled["loader"]),
        replay=ReplayTopic(table=filled["replay"]),
    )
    return changed(found, **more)


def changed(m: Measurements, **changes: Any) -> Measurements:
    """The same with other values of some fields of topics."""
    topics = {name: m.topic(name) for name in sorted(m.provided)}
    for name, value in changes.items():
        home = next(topic for topic, of in topics.items() if hasattr(of, name))
        topics[home] = replace(topics[home], **{name: value})
    return with_topics(m, **topics)


def _steps(lengths: Sequence[float]) -> pl.DataFrame:
    rows, at = [], 0.0
    for step, length in enumerate(lengths):
        row = {"step": step, "number": step + 5, "start_ms": at, "end_ms": at + length, "host_start_ms": at, "host_end_ms": at + length}
        rows.append({key: value for key, value in row.items() if _column(key) in TABLE["steps"].schema})
        at += length
    return measured_table("steps", rows)


def _ledger(lengths: Sequence[float], parts: Mapping[Part, Any], rest: Part) -> Ledger:
    charged = {part: _each(per_step, len(lengths)) for part, per_step in parts.items()}
    left = [length - sum(values[step] for values in charged.values()) for step, length in enumerate(lengths)]
    assert min(left, default=0.0) >= 0.0, "more was charged to a step than its length"
    charged[rest] = [left[step] + charged.get(rest, [0.0] * len(lengths))[step] for step in range(len(lengths))]
    parts = tuple(part for part in parts_in_order(charged) if any(charged[part]))
    ns = [[round(ms * 1e6) for ms in charged[part]] for part in parts]
    return Ledger(parts=parts, ns=np.asarray(ns, dtype=np.float64).reshape(len(parts), len(lengths)))


def _charged(gaps: pl.DataFrame, steps: int) -> dict[Part, list[float]]:
    charged: dict[Part, list[float]] = {}
    for row in gaps.iter_rows(named=True):
        charged.setdefault(part_of(row[name] for name in COLUMNS), [0.0] * steps)[row["step"]] += (row["end_ns"] - row["start_ns"]) / 1e6
    return charged


def _replay(lengths: Sequence[float], scenarios: Mapping[str, PerStep | tuple[float, float, float] | Reason]) -> pl.DataFrame:
    rows: list[dict[str, Any]] = []
    for scenario, after in ({UNCHANGED: lengths} | dict(scenarios)).items():
        for step, length in enumerate(lengths):
            row: dict[str, Any] = {"scenario": scenario, "step": step, "observed_ms": length, "unchanged_ms": length}
            if isinstance(after, Reason):
                row |= unjudged_columns(after)
            elif isinstance(after, tuple):
                row |= dict(zip(("expected_ms", "best_ms", "worst_ms"), after, strict=True))
            else:
                row |= dict.fromkeys(("expected_ms", "best_ms", "worst_ms"), _each(after, len(lengths))[step])
            rows.append(row)
    return measured_table("replay", rows)


def _recorded(lengths: Sequence[float], shares: tuple[float, float] | None) -> Iterator[pl.DataFrame]:
    for level, share in zip((LESS_USUAL_COST, LESS_MOST_COST), shares or (), strict=False):
        taken = pl.Series([round(share * length * 1e6) for length in lengths], dtype=pl.Int64)
        yield _replay(lengths, {}).with_columns(pl.lit(level).alias("recording"), taken.alias("taken_ns"))


def _each(per_step: PerStep, steps: int) -> list[float]:
    return [float(per_step)] * steps if isinstance(per_step, int | float) else [float(value) for value in per_step]


def _column(key: str) -> str:
    return f"{key[:-3]}_ns" if key.endswith(("_ms", "_us")) else key


def _whole(key: str, value: Any) -> Any:
    scale = {"_ms": 1e6, "_us": 1e3}.get(key[-3:])
    return value if scale is None or value is None else round(value * scale)
