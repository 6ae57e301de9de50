"""A trace becomes measurements: every analysis once, in the order in which they need one another."""

from __future__ import annotations

from typing import Any, Literal

import polars as pl

from slowstep.analyses.trace.callers import Callers
from slowstep.analyses.trace.clocks import find_clocks
from slowstep.analyses.trace.collectives import find_collectives
from slowstep.analyses.trace.compilations import find_compilations
from slowstep.analyses.trace.copies import find_copies
from slowstep.analyses.trace.coverage import find_coverage
from slowstep.analyses.trace.device_ledger import build_ledger
from slowstep.analyses.trace.device_work import busiest_device
from slowstep.analyses.trace.kernels import find_kernels
from slowstep.analyses.trace.launches import find_launches
from slowstep.analyses.trace.loader import find_loader
from slowstep.analyses.trace.loss_scaling import find_loss_scaling
from slowstep.analyses.trace.measured import TraceMeasurements
from slowstep.analyses.trace.memory import find_memory
from slowstep.analyses.trace.named_work import find_named_work
from slowstep.analyses.trace.operators import find_operators
from slowstep.analyses.trace.placement import find_placement
from slowstep.analyses.trace.replay import find_replay
from slowstep.analyses.trace.steps import find_steps
from slowstep.analyses.trace.synchronizations import find_synchronizations
from slowstep.analyses.trace.training import batch_size as batch_size_of
from slowstep.analyses.trace.training import is_training
from slowstep.analyses.trace.trains_with import find_words
from slowstep.errors import BadUsage
from slowstep.timeline.timeline import Timeline

Chosen = int | Literal["slowest", "median"] | None


def measure_trace(timeline: Timeline, *, batch_size: int | None = None, step: Chosen = None) -> TraceMeasurements:
    """Measure one rank's trace; of one step only where one is chosen, by its number in the trace or by its length.

    Raises BadUsage for a step that is not in the trace, ValueError for a timeline that is of no trace.
    """
    if timeline.trace is None:
        raise ValueError("the timeline is of a recording, not of a trace")
    whole, notes = find_steps(timeline)
    steps = _chosen(whole, step)
    if steps.height < whole.height:
        which = "" if isinstance(step, int) else f", the {step} one"
        notes += (f"of {whole.height} whole steps you chose step {steps['number'][0]}{which}: all that is said here is of it alone",)
    # Who called what is looked up by nearly all of them.
    callers = Callers(timeline)
    ledger, gaps = build_ledger(timeline, steps, callers)
    tables = {
        "steps": steps,
        "ledger": ledger,
        "gaps": gaps,
        "kernels": find_kernels(timeline, steps, callers),
        "operators": find_operators(timeline, steps, callers),
        "launches": find_launches(timeline, steps, gaps, callers),
        "copies": find_copies(timeline, steps, callers),
        "synchronizations": find_synchronizations(timeline, steps, gaps, callers),
        "collectives": find_collectives(timeline, steps, callers),
        "memory": find_memory(timeline, steps),
        "loader": find_loader(timeline, steps, gaps),
        "placement": find_placement(timeline, steps, callers),
        "compilations": find_compilations(timeline, steps, gaps, callers),
        "named_work": find_named_work(timeline, steps),
        "loss_scaling": find_loss_scaling(timeline, steps, gaps, callers),
    }
    clocks = find_clocks(timeline, callers)
    tables["replay"] = find_replay(timeline, steps, tables, callers, clocks)
    found_size = None if batch_size else batch_size_of(timeline, steps)
    device = _judged_device(timeline)
    window_ns = int((steps["end_ns"] - steps["start_ns"]).sum())
    return TraceMeasurements(
        facts=timeline.trace,
        coverage=find_coverage(timeline, whole, clocks),
        tables=tables,
        training=is_training(timeline),
        batch_size=batch_size or found_size,
        batch_size_from="given by --batch-size" if batch_size else "first dimension of the input" if found_size else None,
        device_name=device.get("name"),
        compute_capability=device.get("compute_capability"),
        device_busy_share=1 - int((gaps["end_ns"] - gaps["start_ns"]).sum()) / window_ns if device and window_ns else None,
        has_device=bool(device),
        chosen_of=None if step is None else whole.height,
        words=find_words(timeline),
        notes=notes,
    )


def _chosen(steps: pl.DataFrame, step: Chosen) -> pl.DataFrame:
    if step is None:
        return steps
    length = pl.col("end_ns") - pl.col("start_ns")
    if step == "slowest":
        kept = steps.sort(length, descending=True).head(1)
    elif step == "median":
        kept = steps.sort(length).slice((steps.height - 1) // 2, 1)
    else:
        kept = steps.filter(pl.col("number") == step)
        if kept.is_empty():
            known = ", ".join(map(str, steps["number"].to_list()))
            raise BadUsage(f"--step {step}: the trace holds the whole steps {known or 'none'}.")
    return kept.with_columns(pl.lit(0, pl.Int32).alias("step"))


def _judged_device(timeline: Timeline) -> dict[str, Any]:
    """The device that is judged, as its row in `trace_devices`; empty without device events."""
    number = busiest_device(timeline)
    if number is None:
        return {}
    rows = timeline.table("trace_devices").filter(pl.col("device") == number).to_dicts()
    return rows[0] if rows else {"device": number}
