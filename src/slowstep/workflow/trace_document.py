"""Fills the report document from a trace that was measured and judged."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import asdict
from pathlib import Path
from typing import Any, cast

import numpy as np
import polars as pl

from slowstep.analyses.trace.measured import TraceMeasurements
from slowstep.diagnosis.law import Diagnosis
from slowstep.diagnosis.trace_doubts import is_inference
from slowstep.diagnosis.unseen_stages import unseen_stages
from slowstep.faults import Attempts
from slowstep.health import Health
from slowstep.report.document import SCHEMA, LedgerRow, Part, Report, Run, Throughput
from slowstep.report.words import sentence, verdict_row
from slowstep.stages import STAGES, UNATTRIBUTED
from slowstep.units import format_count, format_share
from slowstep.workflow.document import NO_THROUGHPUT, SMALLEST_SHARE, finding_row, health_row, next_row, not_judged_row
from slowstep.workflow.internal_errors import see_fault
from slowstep.workflow.trace_next import next_after_trace

# Of parts of a stage, those beyond these many are too small to be read.
PARTS_KEPT = 12
# What two runs of one training differ by anyway need not be said.
RECORDING_MATTERS = 0.05
_NOTHING: tuple[str, ...] = ()


def fill_trace(path: Path, m: TraceMeasurements, diagnosis: Diagnosis, health: Iterable[Health], attempt: Attempts | None = None) -> Report:
    """The report of one rank's trace. What of it cannot be made is left out, and is one of the faults of `attempt`."""
    attempt = attempt or Attempts()
    report: dict[str, Any] = {
        "schema": SCHEMA,
        "run": attempt.otherwise(_bare_run(path, m), _run, path, m, diagnosis, attempt),
        "throughput": attempt.otherwise(NO_THROUGHPUT, _throughput, m),
        "ledger": attempt.otherwise([_unknown(stage) for stage in (*STAGES, UNATTRIBUTED)], _ledger, m),
        **_judged(diagnosis),
        "health": [health_row(row) for row in health],
        # What the profiler cost is in the trace's times, and nobody knows how much.
        "overhead": {"us_per_step": None, "share": None},
        "experiments": [],
    }
    return cast(Report, report)


def fill_diagnosis(report: dict[str, Any], diagnosis: Diagnosis, next_command: str | None) -> None:
    """Put another diagnosis of a training into the report of its trace, and what to type after it."""
    report.update(_judged(diagnosis))
    report["run"].pop("next_command", None)
    if next_command is not None:
        report["run"]["next_command"] = next_command


def _judged(diagnosis: Diagnosis) -> dict[str, Any]:
    return {
        "verdict": verdict_row(diagnosis.verdict, diagnosis.findings),
        "findings": [finding_row(finding) for finding in diagnosis.findings],
        "next": next_row(diagnosis),
        "not_judged": [not_judged_row(row, diagnosis.verdict) for row in diagnosis.not_judged],
    }


def _bare_run(path: Path, m: TraceMeasurements) -> Run:
    """What is known of a trace of which nothing was measured."""
    unknown = ("step_boundary", "batch_size", "batch_size_from", "device", "started", "duration_s", "startup_s", "warmup_steps")
    known = {
        "name": path.name,
        "command": [],
        "framework": " · ".join(text for text in (m.facts.framework, m.facts.format) if text),
        "ranks": m.facts.world_size or 1,
        "steps": 0,
        "recording": str(path),
        "next_command": see_fault(path),
    }
    return cast(Run, dict.fromkeys(unknown) | known)


def _run(path: Path, m: TraceMeasurements, diagnosis: Diagnosis, attempt: Attempts) -> Run:
    steps = m.table("steps")
    mark = steps["mark"][0] if steps.height else None
    row: dict[str, Any] = {
        "name": path.name,
        "command": [],
        "framework": " · ".join(text for text in (m.facts.framework, m.facts.format) if text),
        "ranks": m.facts.world_size or 1,
        "steps": steps.height,
        "step_boundary": mark,
        "batch_size": attempt.otherwise(None, lambda: m.batch_size),
        "batch_size_from": attempt.otherwise(None, lambda: m.batch_size_from),
        "device": attempt.otherwise(None, _device, m),
        "started": None,
        "duration_s": m.window_ns / 1e9,
        "startup_s": None,
        "warmup_steps": None,
        "recording": str(path),
        "trace": {
            "format": m.facts.format,
            "events": m.facts.events,
            "bytes": m.facts.bytes,
            "coverage": attempt.otherwise(None, lambda: asdict(m.coverage)),
        },
        "notes": [
            *attempt.otherwise(_NOTHING, lambda: (_coverage(m),)),
            *attempt.otherwise(_NOTHING, lambda: tuple(map(sentence, m.notes))),
        ],
    }
    command = see_fault(path) if diagnosis.by_fault else attempt.otherwise(None, _next_command, path, m, diagnosis)
    return cast(Run, row if command is None else row | {"next_command": command})


def _next_command(path: Path, m: TraceMeasurements, diagnosis: Diagnosis) -> str | None:
    return next_after_trace(diagnosis, m.facts, path, is_inference=is_inference(m), is_chosen=m.is_chosen)


def _device(m: TraceMeasurements) -> str:
    if not m.has_device:
        # Calls of a device's runtime without its work: the trace was cut off, or the device was not asked for.
        return "cpu" if m.facts.vendor is None else "a device whose work is not in the trace"
    return m.device_name or {"nvidia": "NVIDIA GPU", "amd": "AMD GPU"}.get(m.facts.vendor or "", "device unknown")


def _coverage(m: TraceMeasurements) -> str:
    """How much the trace shows, before any verdict."""
    coverage = m.coverage
    said = [format_count(m.facts.events, "event")]
    if m.has_device:
        kernels, devices = format_count(coverage.kernels, "kernel"), format_count(coverage.devices, "device")
        said.append(f"{kernels} on {devices}, {format_count(coverage.streams, 'stream')}")
    if coverage.kernels_with_launch is not None:
        said.append(f"{format_share(coverage.kernels_with_launch)} of the kernels with their launch")
    if coverage.inside_steps is not None:
        said.append(f"{format_share(coverage.inside_steps)} of the trace's time {'in the window' if m.is_window else 'inside steps'}")
    shown = "the trace shows " + ", ".join(said) + ("" if m.facts.complete else "; the file was cut off")
    return shown + _recording(m)


def _recording(m: TraceMeasurements) -> str:
    """What of a step is the profiler's own, where that matters: gains are predicted without it, shares are with it."""
    share = m.recording_share
    if share is None or share[0] < RECORDING_MATTERS:
        return ""
    return f"; recording it took some {format_share(share[0])} to {format_share(share[1])} of the host's time, which gains leave out"


def _throughput(m: TraceMeasurements) -> Throughput:
    lengths = np.array(m.step_ns, dtype=np.float64) / 1e6
    seconds = m.window_ns / 1e9
    if not len(lengths) or seconds <= 0:
        return NO_THROUGHPUT
    p05, median, p95 = (float(value) for value in np.percentile(lengths, [5, 50, 95]))
    size = Attempts().otherwise(None, lambda: m.batch_size)
    return {
        "samples_per_s": size * len(lengths) / seconds if size and not m.is_window else None,
        "steps_per_s": len(lengths) / seconds if not m.is_window else None,
        "step_ms": {"median": median, "p05": p05, "p95": p95},
    }


def _ledger(m: TraceMeasurements) -> list[LedgerRow]:
    if not m.window_ns:
        return [_unknown(stage) for stage in (*STAGES, UNATTRIBUTED)]
    steps = max(len(m.step_ns), 1)
    whole = m.window_ns
    unseen = unseen_stages(m)
    spent = m.table("ledger").group_by("stage", "part").agg(pl.col("ns").sum()).sort("ns", "part", descending=[True, False])
    rows: list[LedgerRow] = []
    for stage in (*STAGES, UNATTRIBUTED):
        own = spent.filter(pl.col("stage") == stage)
        if stage in unseen:
            rows.append(_unknown(stage))
            continue
        ns = int(own["ns"].sum())
        parts: list[Part] = [
            {"name": part, "share": part_ns / whole, "ms_per_step": part_ns / steps / 1e6}
            for part, part_ns in own.select("part", "ns").iter_rows()
            if stage != UNATTRIBUTED and part_ns / whole >= SMALLEST_SHARE
        ]
        rows.append({"stage": stage, "share": ns / whole, "ms_per_step": ns / steps / 1e6, "parts": parts[:PARTS_KEPT]})
    return rows


def _unknown(stage: str) -> LedgerRow:
    return {"stage": stage, "share": None, "ms_per_step": None, "parts": []}
