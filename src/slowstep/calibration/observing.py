"""What timing and profiling take, and what that leaves open."""

from __future__ import annotations

from typing import Final

from slowstep.calibration.calibration import TWO_CORES, Calibration

TIMED_PART: Final = Calibration(
    value=0.15,
    unit="share of what is seen, either way",
    meaning="how far the time of a part is known from calls that were timed in a few gaps: timing slows Python code, and what that costs "
    "is taken out by estimate",
    machine=TWO_CORES,
    measured_by="benchmarks/gap_lines.py",
    date="2026-11-21",
)
TIMED_LINE: Final = Calibration(
    value=0.5,
    unit=TIMED_PART.unit,
    meaning="the same of lines in a loop without a loader that hold next to nothing of what was timed: of ten loops parts of less than "
    "half of it were seen at 0.7 to 1.5 times of what they take, and larger ones at 0.84 to 1.1 times",
    machine=TWO_CORES,
    measured_by=TIMED_PART.measured_by,
    date="2026-11-23",
)
CALLS_APART: Final = Calibration(
    value=0.4,
    unit="share of what counting calls takes",
    meaning="how much of it is left out of the time of a line: a call costs timing 0.2 us and tracing 1 to 2 us; parts of ten loops were "
    "off by 3.3 times at most with 0, by 1.8 with 0.25, by 1.5 with 0.37 as with 0.5, and always by 1.10 to 1.12 in the median",
    machine=TWO_CORES,
    measured_by=TIMED_PART.measured_by,
    date="2026-11-23",
)
PROFILED_OPERATOR: Final = Calibration(
    value=500.0,
    high=1000.0,
    unit="ns an operator or a range",
    meaning="what torch.profiler takes to record it: medians of eight workloads were 210 to 650, 500 in the middle; twice that at most, as "
    "on slower processors",
    machine="one core of a shared virtual machine (AMD EPYC), torch 2.13",
    measured_by="benchmarks/profiler_cost.py",
    date="2026-11-26",
)
PROFILED_SHAPES: Final = Calibration(
    value=400.0,
    high=800.0,
    unit="ns an operator",
    meaning="what its shapes add: 70 to 1,080, 400 in the middle",
    machine=PROFILED_OPERATOR.machine,
    measured_by=PROFILED_OPERATOR.measured_by,
    date="2026-11-26",
)
PROFILED_FUNCTION: Final = Calibration(
    value=400.0,
    high=800.0,
    unit="ns a Python function",
    meaning="120 to 2,040, 370 in the middle",
    machine=PROFILED_OPERATOR.machine,
    measured_by=PROFILED_OPERATOR.measured_by,
    date="2026-11-26",
)
