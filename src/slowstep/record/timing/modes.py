"""What makes every operation slower while it is on: anomaly detection, deterministic algorithms, profilers, debuggers, coverage."""

from __future__ import annotations

import sys
from typing import Final

ANOMALY: Final = 1
DETERMINISTIC: Final = 2
TORCH_PROFILER: Final = 4
TRACED: Final = 8
PROFILED: Final = 16

# Which of them a look at torch, and one on the training thread, can see.
TORCH_MODES: Final = ANOMALY | DETERMINISTIC | TORCH_PROFILER
PYTHON_MODES: Final = TRACED | PROFILED


def torch_modes() -> int | None:
    """Which of torch's modes are on, seen from any thread; None where torch does not say."""
    torch = sys.modules.get("torch")
    profiler = sys.modules.get("torch.autograd.profiler")
    try:
        return (
            ANOMALY * bool(torch.is_anomaly_enabled())  # type: ignore[union-attr]
            | DETERMINISTIC * bool(torch.are_deterministic_algorithms_enabled())  # type: ignore[union-attr]
            | TORCH_PROFILER * bool(getattr(profiler, "_is_profiler_enabled", False))
        )
    except AttributeError:
        return None


def python_modes(*, traced: bool, profiled: bool) -> int:
    """Whether a trace function or a profiler that is not ours runs on the calling thread, or, from Python 3.12 on, a monitoring tool."""
    monitoring = getattr(sys, "monitoring", None)
    if monitoring is not None:
        tools = [
            number for number in (monitoring.DEBUGGER_ID, monitoring.COVERAGE_ID, monitoring.PROFILER_ID) if monitoring.get_tool(number)
        ]
        traced = traced or monitoring.DEBUGGER_ID in tools or monitoring.COVERAGE_ID in tools
        profiled = profiled or monitoring.PROFILER_ID in tools
    return TRACED * traced | PROFILED * profiled
