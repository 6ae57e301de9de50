"""What of a training's own work changes with what computes beside it, or did before it."""

from __future__ import annotations

from typing import Final

from slowstep.calibration.calibration import TWO_CORES, Calibration

SIDE_BY_SIDE: Final = Calibration(
    value=0.12,
    unit="share of its time",
    meaning="how much longer compute takes beside a worker that is always busy, on a core of its own: caches, memory, often a physical "
    "core are shared; 30.5 ms a step alone, 31.3 beside a worker busy 60 % of the time, 34.6 beside one always busy",
    machine=TWO_CORES,
    measured_by="examples/case_study with and without workers, in turns",
    date="2026-11-20",
)
ATTAINED: Final = Calibration(
    value=0.85,
    low=0.70,
    high=1.0,
    unit="share",
    meaning="of what all cores would get done where each computed always and as fast as now: one more worker gave four trainings whose "
    "bound were the cores 0.64, 0.72, 0.75 and 0.89 of it; under one that kept them busy for longer at a time they computed for "
    "0.96",
    machine=TWO_CORES,
    measured_by="samples/s of four trainings with one more worker, in turns",
    date="2026-11-25",
)
IDLE_CORE: Final = Calibration(
    value=0.9,
    unit="share of a core",
    meaning="from which on one was idle, for the machine and the recorder take a part of it: one thread that computed all the time left "
    "0.96 to 1.00 of two cores idle, where two threads were 1.7 to 1.9 times as fast",
    machine=TWO_CORES,
    measured_by="one thread that computes, and two",
    date="2026-11-26",
)
AFTER_FORK: Final = Calibration(
    value=2.0,
    high=3.5,
    unit="times as long",
    meaning="a step after a fork, in which each page that is written to is copied: 1.3 to 5, 1.9 and 2.2 in the medians of two sittings "
    "with six models of 0.01 to 17 million parameters",
    machine=TWO_CORES,
    measured_by="benchmarks/after_fork.py",
    date="2026-11-25",
)
WARMED: Final = Calibration(
    value=0.05,
    low=0.0,
    high=0.10,
    unit="share of what is computed less for batches",
    meaning="how much shorter the thread's own work gets, which finds its caches cold and its operations' threads asleep after making a "
    "batch: 0 to 16 % of a loop in Python of 2, 12 and 40 ms, 6 % in the median, more than 10 % in four of 21; a model of 65 ms "
    "with one thread differed no more than by chance",
    machine=f"{TWO_CORES}, others computing now and then",
    measured_by="five models of 0.5 to 37 ms after such loops, in turns, five blocks each",
    date="2026-11-26",
)
WARMED_AT_MOST: Final = Calibration(
    value=0.25,
    high=0.45,
    unit="share of the thread's own work",
    meaning="how much of its work that can be: of models of 3 ms and more up to 0.8 of their own time was seen",
    machine=WARMED.machine,
    measured_by=WARMED.measured_by,
    date="2026-11-26",
)
# Between a training thread and the other threads of its operations, with nothing else about.
WAITS_FOR_OPERATIONS: Final = Calibration(
    value=0.23,
    low=0.08,
    high=0.50,
    unit="of its own CPU time in bodies of steps",
    meaning="how long the training thread is blocked for the other thread of its operations, which does not spin: the median, and where "
    "90 % of 43 trainings lie, up to 0.97 where operations are many and small; nothing with one thread an operation",
    machine=TWO_CORES,
    measured_by="recordings of the trainings of benchmarks/wild that have no Python thread of their own, by the CPU marks around bodies",
    date="2026-11-30",
)
