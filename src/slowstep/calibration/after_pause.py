"""How much longer a step is after the training thread has slept, or done anything else."""

from __future__ import annotations

from typing import Final

from slowstep.calibration.calibration import Calibration

AFTER_SHORT_PAUSE: Final = Calibration(
    value=350_000.0,
    low=0.0,
    high=1_400_000.0,
    unit="ns a step",
    meaning="how much longer a step is after 3 ms: 0.1 to 0.4 ms, and 0.5 to 1.4 ms where these were operations on tensors; by processor "
    "time, beside others, none to 0.9 ms of five models, 0.4 ms in the median",
    machine="two cores of an Intel Xeon in a shared virtual machine, quiet and not, torch 2.13 on them",
    measured_by="benchmarks/after_pause.py",
    date="2026-11-29",
)
AFTER_LONG_PAUSE: Final = Calibration(
    value=1_200_000.0,
    low=0.0,
    high=3_000_000.0,
    unit="ns a step",
    meaning="the same after 25 ms: 0.8 to 3.0 ms, whatever was done, the thread asleep too; by processor time, beside others, 0.1 to 1.3 "
    "ms, 0.7 ms in the median. Between the medians of both",
    machine=AFTER_SHORT_PAUSE.machine,
    measured_by=AFTER_SHORT_PAUSE.measured_by,
    date=AFTER_SHORT_PAUSE.date,
)
AFTER_PAUSE_AT_MOST: Final = Calibration(
    value=0.6,
    high=0.67,
    unit="share of the training's own work in such a step",
    meaning="how much of it that can be: a step of half a millisecond takes 2 to 3 times as long",
    machine=AFTER_SHORT_PAUSE.machine,
    measured_by=AFTER_SHORT_PAUSE.measured_by,
    date=AFTER_SHORT_PAUSE.date,
)
