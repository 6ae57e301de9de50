"""The section `run` of the report of a rank's trace: what was traced, how much of it is shown, and what the reader must know of it."""

from __future__ import annotations

from dataclasses import asdict
from pathlib import Path
from typing import Any, cast

from slowstep.analyses.measurements import Measurements
from slowstep.diagnosis.trace_doubts import has_few_steps
from slowstep.document.run_rows import Run, bare_run
from slowstep.faults import Attempts
from slowstep.reason_words import sentence
from slowstep.units import format_count, format_share

# What two runs of one training differ by anyway need not be said.
RECORDING_MATTERS = 0.05
_NOTHING: tuple[str, ...] = ()


def traced_run(path: Path, m: Measurements, attempt: Attempts) -> Run:
    """What is known of the run of which a rank was traced. What cannot be told is one of the faults of `attempt`."""
    return attempt.otherwise(_bare_run(path, m), _run, path, m, attempt)


def _bare_run(path: Path, m: Measurements) -> Run:
    """What is known of a trace of which nothing was measured."""
    return bare_run(name=path.name, framework=_framework(m), ranks=m.facts.world_size or 1, recording=str(path))


def _framework(m: Measurements) -> str:
    return " · ".join(text for text in (m.facts.framework, m.facts.format) if text)


def _run(path: Path, m: Measurements, attempt: Attempts) -> Run:
    steps = m.marks.table
    mark = steps["mark"][0] if steps.height else None
    row: dict[str, Any] = {
        "name": path.name,
        "command": [],
        "framework": _framework(m),
        "ranks": m.facts.world_size or 1,
        "steps": steps.height,
        "step_boundary": mark,
        "batch_size": attempt.otherwise(None, lambda: m.steps.batch_size),
        "batch_size_from": attempt.otherwise(None, lambda: m.steps.batch_size_from),
        "device": attempt.otherwise(None, _device, m),
        "started": None,
        "duration_s": m.steps.length_ns / 1e9,
        "startup_s": None,
        "warmup_steps": None,
        "provisional": attempt.otherwise(False, has_few_steps, m),
        "recording": str(path),
        "trace": {
            "format": m.facts.format,
            "events": m.facts.events,
            "bytes": m.facts.bytes,
            "coverage": attempt.otherwise(None, lambda: asdict(m.completeness)),
        },
        "notes": [
            *attempt.otherwise(_NOTHING, lambda: (_completeness(m),)),
            *attempt.otherwise(_NOTHING, lambda: tuple(map(sentence, m.marks.notes))),
        ],
    }
    return cast(Run, row)


def _device(m: Measurements) -> str:
    if not m.device.seen:
        # Calls of a device's runtime without its work: the trace was cut off, or the device was not asked for.
        return "cpu" if m.facts.vendor is None else "a device whose work is not in the trace"
    return m.device.name or {"nvidia": "NVIDIA GPU", "amd": "AMD GPU"}.get(m.facts.vendor or "", "device unknown")


def _completeness(m: Measurements) -> str:
    """How much the trace shows, before any verdict."""
    found = m.completeness
    said = [format_count(m.facts.events, "event")]
    if m.device.seen:
        kernels, devices = format_count(found.kernels, "kernel"), format_count(found.devices, "device")
        said.append(f"{kernels} on {devices}, {format_count(found.streams, 'stream')}")
    if found.kernels_with_launch is not None:
        said.append(f"{format_share(found.kernels_with_launch)} of the kernels with their launch")
    if found.inside_steps is not None:
        said.append(f"{format_share(found.inside_steps)} of the trace's time {'in the window' if m.marks.is_window else 'inside steps'}")
    shown = "the trace shows " + ", ".join(said) + ("" if m.facts.complete else "; the file was cut off")
    return shown + _recording(m)


def _recording(m: Measurements) -> str:
    """What of a step is the profiler's own, where that matters: gains are predicted without it, shares are with it."""
    share = m.replay.profiler_share
    if share is None or share[0] < RECORDING_MATTERS:
        return ""
    return f"; recording it took some {format_share(share[0])} to {format_share(share[1])} of the host's time, which gains leave out"
