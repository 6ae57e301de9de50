"""What becomes of a step whose batches no worker makes any more."""

from __future__ import annotations

from typing import Final

from slowstep.calibration.calibration import TWO_CORES, Calibration

COLLATED_HERE: Final = Calibration(
    value=0.25,
    low=0.125,
    high=1.0,
    unit="share of what torch's own collating takes in a worker",
    meaning="what is left of it on the training thread, where it does not fill shared memory: 0.23 to 0.72 ms in a worker and 0.03 to 0.17 "
    "ms without, of samples in memory, 4 to 128 a batch",
    machine=TWO_CORES,
    measured_by="samples in memory with one and two workers and with none, in turns",
    date="2026-11-25",
)
NEWLY_MAPPED: Final = Calibration(
    value=200_000.0,
    low=0.0,
    high=400_000.0,
    unit="ns a step",
    meaning="what the training thread's own work takes longer beside memory that it has just mapped: steps of 0.5 to 1 ms of work had 0.1 "
    "to 0.4 ms less of it without workers",
    machine=TWO_CORES,
    measured_by=COLLATED_HERE.measured_by,
    date="2026-11-25",
)
GIVEN_BACK: Final = Calibration(
    value=19_000.0,
    low=0.0,
    high=30_000.0,
    unit="ns for each tensor of a batch beyond two",
    meaning="what giving that memory back takes: from 1 to 300 tensors of 80 bytes 0.06 to 6 ms",
    machine=TWO_CORES,
    measured_by="batches of 1 to 300 tensors of 80 bytes, from a worker and without",
    date="2026-11-25",
)
MADE_BETWEEN: Final = Calibration(
    value=0.125,
    low=0.0,
    high=0.25,
    unit="share of its time",
    meaning="how much longer the training's own work takes where its thread makes the batches too: they pass through its caches; steps of "
    "5 to 8 ms up to a fifth longer",
    machine=TWO_CORES,
    measured_by=COLLATED_HERE.measured_by,
    date="2026-11-25",
)
