"""A trace becomes measurements: every analysis once, in the order in which they need one another."""

from __future__ import annotations

from typing import Any, Literal

import polars as pl

from slowstep.analyses.coverage import find_coverage
from slowstep.analyses.device.allocations import find_memory
from slowstep.analyses.device.clocks import find_clocks
from slowstep.analyses.device.compilations import find_compilations
from slowstep.analyses.device.copies import find_copies
from slowstep.analyses.device.kernels import find_kernels
from slowstep.analyses.device.launches import find_launches
from slowstep.analyses.device.loss_scaling import find_loss_scaling
from slowstep.analyses.device.operators import find_operators
from slowstep.analyses.device.placement import find_placement
from slowstep.analyses.device.synchronizations import find_synchronizations
from slowstep.analyses.events.device_work import busiest_device
from slowstep.analyses.events.trains_with import find_words
from slowstep.analyses.input.loader_requests import find_loader
from slowstep.analyses.ledger.named_work import find_named_work
from slowstep.analyses.ledger.trace_ledger import build_ledger
from slowstep.analyses.python.callers import Callers
from slowstep.analyses.replay.replay import find_replay
from slowstep.analyses.sharing.collectives import find_collectives
from slowstep.analyses.steps.trace_steps import find_steps
from slowstep.analyses.steps.traced_training import batch_size as batch_size_of
from slowstep.analyses.steps.traced_training import is_training
from slowstep.analyses.trace_measurements import TraceMeasurements
from slowstep.errors import BadUsage
from slowstep.faults import Attempts, Results
from slowstep.reasons import Reason, Wording
from slowstep.timeline.timeline import Timeline

Chosen = int | Literal["slowest", "median"] | None
STEP_CHOSEN = Wording("step-chosen", "of {steps} whole steps you chose step {number}{which}: all that is said here is of it alone")
CHOSEN_BY = Wording("chosen-by", ", the {which} one")


def measure_trace(timeline: Timeline, *, batch_size: int | None = None, step: Chosen = None) -> TraceMeasurements:
    """Measure one rank's trace; of one step only where one is chosen, by its number in the trace or by its length.

    An analysis that fails by a fault of its own takes only what needs it with it. Raises BadUsage for a step that is not in the trace,
    ValueError for a timeline that is of no trace.
    """
    if timeline.trace is None:
        raise ValueError("the timeline is of a recording, not of a trace")
    attempt = Attempts()
    whole, notes = attempt.several(2, find_steps, timeline)
    steps = attempt(_chosen, whole, step)
    # Who called what is looked up by nearly all of them.
    callers = Callers(timeline)
    ledger, gaps = attempt.several(2, build_ledger, timeline, steps, callers)
    tables: dict[str, pl.DataFrame] = {
        "steps": steps,
        "gaps": gaps,
        "kernels": attempt(find_kernels, timeline, steps, callers),
        "operators": attempt(find_operators, timeline, steps, callers),
        "launches": attempt(find_launches, timeline, steps, gaps, callers),
        "copies": attempt(find_copies, timeline, steps, callers),
        "synchronizations": attempt(find_synchronizations, timeline, steps, gaps, callers),
        "collectives": attempt(find_collectives, timeline, steps, callers),
        "memory": attempt(find_memory, timeline, steps),
        "loader": attempt(find_loader, timeline, steps, gaps),
        "placement": attempt(find_placement, timeline, steps, callers),
        "compilations": attempt(find_compilations, timeline, steps, gaps, callers),
        "named_work": attempt(find_named_work, timeline, steps),
        "loss_scaling": attempt(find_loss_scaling, timeline, steps, gaps, callers),
    }
    clocks = attempt(find_clocks, timeline, callers)
    tables["replay"] = attempt(find_replay, timeline, steps, Results(tables), callers, clocks)
    size, size_from = attempt.several(2, _batch_size, timeline, steps, batch_size)
    device = attempt(_judged_device, timeline)
    found = TraceMeasurements(
        facts=timeline.trace,
        coverage=attempt(find_coverage, timeline, whole, clocks),
        ledger=ledger,
        tables=Results(tables),
        training=attempt(is_training, timeline),
        batch_size=size,
        batch_size_from=size_from,
        device_name=attempt.named("device_name", lambda: device.get("name")),
        compute_capability=attempt.named("compute_capability", lambda: device.get("compute_capability")),
        device_busy_share=attempt(_busy_share, device, steps, gaps),
        has_device=attempt(bool, device),
        chosen_of=None if step is None else attempt(len, whole),
        words=attempt(find_words, timeline),
        notes=attempt(_notes, notes, whole, steps, step),
    )
    return found.changed(faults=tuple(attempt.faults))


def _batch_size(timeline: Timeline, steps: pl.DataFrame, given: int | None) -> tuple[int | None, str | None]:
    """Samples in a step, and by what that is known."""
    if given:
        return given, "given by --batch-size"
    found = batch_size_of(timeline, steps)
    return found, "first dimension of the input" if found else None


def _busy_share(device: dict[str, Any], steps: pl.DataFrame, gaps: pl.DataFrame) -> float | None:
    window_ns = int((steps["end_ns"] - steps["start_ns"]).sum())
    return 1 - int((gaps["end_ns"] - gaps["start_ns"]).sum()) / window_ns if device and window_ns else None


def _notes(notes: tuple[Reason, ...], whole: pl.DataFrame, steps: pl.DataFrame, step: Chosen) -> tuple[Reason, ...]:
    """What is to be read of the steps, and which of them was chosen."""
    if steps.height == whole.height:
        return notes
    which = None if isinstance(step, int) else CHOSEN_BY(which=step)
    return (*notes, STEP_CHOSEN(steps=whole.height, number=steps["number"][0], which=which))


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
