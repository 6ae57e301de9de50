"""How much runs and steps differ that are alike."""

from __future__ import annotations

from typing import Final

from slowstep.calibration.calibration import TWO_CORES, Calibration

BETWEEN_STARTS: Final = Calibration(
    value=0.062,
    unit="standard deviation of ln(samples/s)",
    meaning="how far the speed of one start of a script is from its mean over starts; 95 % of 753 pairs of starts were within it",
    machine="shared virtual machines of 2 cores (AMD EPYC, Intel Xeon) that nothing else used; torch 2.13 on their processors",
    measured_by="benchmarks/between_starts.py, from the stored results of accuracy.py and prove.py",
    date="2026-11-20 to 2026-11-27",
)
RUN_TO_RUN: Final = Calibration(
    value=0.04,
    unit="standard deviation of ln(samples/s)",
    meaning="how much two runs of one training differ even on a quiet machine, by its memory's layout; 0.04 to 0.14 on a shared one",
    machine=TWO_CORES,
    measured_by="benchmarks/pace.py",
    date="2026-11-20",
)
EVEN_STEPS: Final = Calibration(
    value=0.38,
    high=0.5,
    unit="spread of step times, of the median step",
    meaning="of an even training, 1879 steps, while others computed: beyond the bound it is the training",
    machine=TWO_CORES,
    measured_by="a recording of an even training, while others computed",
    date="2026-11-21",
)
