"""What makes every operation slower while it is on: anomaly detection, deterministic algorithms, profilers, debuggers, coverage, and
computing without the fast kernels that a framework has for processors.
"""

from __future__ import annotations

import sys
from typing import Final

ANOMALY: Final = 1
DETERMINISTIC: Final = 2
FRAMEWORK_PROFILER: Final = 4
TRACED: Final = 8
PROFILED: Final = 16
PLAIN_KERNELS: Final = 32

# Which of them a look at the framework, and one on the training thread, can see.
FRAMEWORK_MODES: Final = ANOMALY | DETERMINISTIC | FRAMEWORK_PROFILER | PLAIN_KERNELS
PYTHON_MODES: Final = TRACED | PROFILED


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
