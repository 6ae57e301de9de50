"""What a line of Python, and a small operation that it calls, takes; and how the time of such work varies."""

from __future__ import annotations

from typing import Final

from slowstep.calibration.calibration import TWO_CORES, Calibration

PYTHON_LINE: Final = Calibration(
    value=50.0,
    unit="ns each time",
    meaning="the least that a line of Python takes: 0.05 to 0.3 us",
    machine=TWO_CORES,
    measured_by="lines of loops, counted and timed",
    date="2026-11-27",
)
DISPATCHING_LINE: Final = Calibration(
    value=20_000.0,
    unit="ns each time",
    meaning="the most that dispatching one operation takes: some 3 to 20 us of a tensor's (7 to 28 us a node, forward and backward "
    "together). What takes longer each time is the operation's own work",
    machine=TWO_CORES,
    measured_by="benchmarks/dispatch.py",
    date="2026-11-21",
)
SMALLEST_MODEL: Final = Calibration(
    value=5_000.0,
    unit="ns a call",
    meaning="the least that calling a model takes: one linear layer of one value, without gradients, takes 5.3 us; a loop that leaves a "
    "batch out asks for the next one within less than 1 us",
    machine=TWO_CORES,
    measured_by="one linear layer of one value, and a loop that leaves batches out",
    date="2026-11-26",
)
VECTORISED_SAMPLE: Final = Calibration(
    value=14_000.0,
    high=15_000.0,
    unit="ns a sample",
    meaning="what a function that makes samples takes still, once it is no loop: four operations on a tensor of 128 values",
    machine=TWO_CORES,
    measured_by="four operations on a tensor of 128 values",
    date="2026-11-28",
)
# Of work that takes ever longer.
ENCODED_BYTES: Final = Calibration(
    value=10e6,
    unit="bytes/s",
    meaning="less than anything is written by: text is encoded at 25 to 45 MB/s (repr, csv, json with and without an indent), objects by "
    "pickle at 670",
    machine=TWO_CORES,
    measured_by="lists of numbers, encoded each way",
    date="2026-11-26",
)
POWER_OF_PACE: Final = Calibration(
    value=0.5,
    unit="standard deviation of the power",
    meaning="by which power of the pace of the training's own work that of Python changes: 0.8 to 1.8 of a list written as JSON, six runs, "
    "each in two paces 1.4 apart",
    machine=TWO_CORES,
    measured_by="six runs that write a list as JSON, each in two paces",
    date="2026-11-26",
)
PASSING_JUMP: Final = Calibration(
    value=2.0,
    unit="times as long",
    meaning="more than one function's work is slowed for seconds while the training's own work beside it is not: up to 1.55 times, of a "
    "list written as JSON, ten runs",
    machine=TWO_CORES,
    measured_by="ten runs that write a list as JSON, others computing meanwhile",
    date="2026-11-22",
)
