"""The section `throughput` of a report: samples and steps per second over the window, and how long a usual step takes."""

from __future__ import annotations

import math

import numpy as np

from slowstep.analyses.measurements import Measurements
from slowstep.diagnosis.few_steps import is_provisional
from slowstep.diagnosis.gain import speed_interval
from slowstep.document.throughput_rows import NO_THROUGHPUT, Throughput
from slowstep.faults import Attempts


def throughput_section(m: Measurements, attempt: Attempts) -> Throughput:
    """How fast the training is. Where no steps are known, and all that was traced is taken as one, it has no speed."""
    seconds = m.steps.length_ns / 1e9
    if seconds <= 0:
        return NO_THROUGHPUT
    usual = m.step_ns[~m.steps.eventful]
    p05, median, p95 = np.percentile((usual if len(usual) else m.step_ns) / 1e6, [5, 50, 95])
    samples, has_steps = _samples(m), not (m.are_steps_marked and m.marks.is_window)
    speed: Throughput = {
        "samples_per_s": samples / seconds if samples and has_steps else None,
        "steps_per_s": m.steps.count / seconds if has_steps else None,
        "step_ms": {"median": float(median), "p05": float(p05), "p95": float(p95)},
    }
    if (ends := attempt.otherwise(None, _interval, m)) is not None:
        fastest_ns, slowest_ns = ends
        speed["steps_per_s_interval"] = {"low": 1e9 / slowest_ns, "high": 1e9 / fastest_ns}
    return speed


def _samples(m: Measurements) -> float | None:
    """In all steps; None where that is unknown. All steps that a profiler marks are taken to have as many."""
    if m.are_steps_marked:
        return m.steps.batch_size * m.steps.count if m.steps.batch_size else None
    samples = float(m.steps.samples.sum())
    return samples if math.isfinite(samples) and samples > 0 else None


def _interval(m: Measurements) -> tuple[float, float] | None:
    """Of the mean step. Of too few steps for a verdict, too few for an interval: they say nothing of how much steps differ."""
    return None if m.are_steps_marked or is_provisional(m) else speed_interval(m)
