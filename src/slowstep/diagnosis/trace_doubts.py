"""Why nothing can be said of a training as a whole by its trace, whatever the findings are."""

from __future__ import annotations

from typing import Final

from slowstep.analyses.trace.clocks import REMEDY as CLOCKS_REMEDY
from slowstep.analyses.trace.measured import TraceMeasurements
from slowstep.analyses.trace.whole_steps import COPY_AGAIN, FEWER_STEPS
from slowstep.diagnosis.law import HEALTHY_UNATTRIBUTED
from slowstep.diagnosis.trace_side import to_mark_steps
from slowstep.stages import UNATTRIBUTED
from slowstep.units import format_count, format_share

# A run needs 30 steps for its verdict; profilers are told to keep three to ten. Of two, one confirms the other.
STEPS_AT_LEAST: Final = 2
# The framework whose backward passes are always to be seen, by their names.
TORCH: Final = "pytorch"
# What a trace does not show must be less than what a verdict is about.
COVERED_AT_LEAST: Final = 0.90


def doubt(m: TraceMeasurements, *, found: bool) -> str | None:
    """Why the verdict stays open; None where the trace is enough for one. `found`: findings are listed below it."""
    if not m.training:
        return _no_training(m) + ("; the findings below are about what ran" if found else "")
    return _no_steps(m) or _no_common_clock(m) or _no_launches(m)


def is_inference(m: TraceMeasurements) -> bool:
    """Whether the trace would show a backward pass, and shows none; of a file that was cut off, or without a step, nobody can tell."""
    seen = m.facts.complete and m.whole_steps > 0
    return seen and not m.training and (m.facts.framework == TORCH or m.facts.gradients is False)


def _no_training(m: TraceMeasurements) -> str:
    if not m.facts.complete:
        return f"the file is cut off, so it cannot be told whether it trains: {COPY_AGAIN}"
    if not m.whole_steps:
        return "the trace holds no whole step, so it cannot be told whether it trains: see what was left out, and why"
    seen = "it is of an inference, or of a part of a training" if is_inference(m) else "whether it trains is not seen"
    return f"this trace shows no backward pass: {seen}"


def _no_steps(m: TraceMeasurements) -> str | None:
    """Which steps the trace has; that one of them was chosen is no lack of steps."""
    if m.is_window and not m.facts.complete:
        return f"the file is cut off, and no whole step of it is left: {COPY_AGAIN}"
    if m.is_window:
        return f"the trace marks no steps and none could be made out: {to_mark_steps(m)}, and trace it again"
    if m.whole_steps < STEPS_AT_LEAST:
        more = f"trace at least {STEPS_AT_LEAST + 1} (active=5 in torch.profiler.schedule)"
        # A first or last step that was traced in part is usual; where records are lost, more steps would lose more.
        is_lost = any(remedy in note for note in m.notes for remedy in (COPY_AGAIN, FEWER_STEPS))
        return f"the trace holds {format_count(m.whole_steps, 'whole step')}: {'see what was left out, and why' if is_lost else more}"
    return None


def _no_common_clock(m: TraceMeasurements) -> str | None:
    return None if m.coverage.clocks_differ is None else f"{m.coverage.clocks_differ}; {CLOCKS_REMEDY}"


def _no_launches(m: TraceMeasurements) -> str | None:
    launched, unattributed = m.coverage.kernels_with_launch, m.share(UNATTRIBUTED)
    if not m.has_device or launched is None or launched >= COVERED_AT_LEAST or unattributed < HEALTHY_UNATTRIBUTED:
        return None
    return (
        f"{format_share(1 - launched)} of the kernels have no launch in the trace: {format_share(unattributed)} of the time has no "
        "known cause; "
        "trace with activities=[CPU, CUDA]"
    )
