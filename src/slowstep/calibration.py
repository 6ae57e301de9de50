"""Values that were measured on a machine and stand for others, each with its unit, its machine, what measured it, and when."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final


@dataclass(frozen=True, kw_only=True, slots=True)
class Calibration:
    """A measured value and where it comes from; `measured_by` makes it again, or says how it was measured where no script is kept.

    `low` and `high` are what is assumed at the ends of intervals, where that was measured too.
    """

    value: float
    unit: str
    meaning: str
    machine: str
    measured_by: str
    date: str
    low: float | None = None
    high: float | None = None

    @property
    def bounds(self) -> tuple[float, float]:
        """`low` and `high`, or the value where there is none."""
        return self.value if self.low is None else self.low, self.value if self.high is None else self.high


_TWO_CORES: Final = "two cores of a shared virtual machine (AMD EPYC or Intel Xeon), torch 2.13 on them"


BETWEEN_STARTS: Final = Calibration(
    value=0.062,
    unit="standard deviation of ln(samples/s)",
    meaning="how far the speed of one start of a script is from its mean over starts; 95 % of 753 pairs of starts were within it",
    machine="shared virtual machines of 2 cores (AMD EPYC, Intel Xeon) that nothing else used; torch 2.13 on their processors",
    measured_by="benchmarks/between_starts.py, from the stored results of accuracy.py and prove.py",
    date="2026-11-20 to 2026-11-27",
)
# What of a training's own work changes with what computes beside it.
SIDE_BY_SIDE: Final = Calibration(
    value=0.12,
    unit="share of its time",
    meaning="how much longer compute takes beside a worker that is always busy, on a core of its own: caches, memory, often a physical "
    "core are shared; 30.5 ms a step alone, 31.3 beside a worker busy 60 % of the time, 34.6 beside one always busy",
    machine=_TWO_CORES,
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
    machine=_TWO_CORES,
    measured_by="samples/s of four trainings with one more worker, in turns",
    date="2026-11-25",
)
AFTER_FORK: Final = Calibration(
    value=2.0,
    high=3.5,
    unit="times as long",
    meaning="a step after a fork, in which each page that is written to is copied: 1.3 to 5, 1.9 and 2.2 in the medians of two sittings "
    "with six models of 0.01 to 17 million parameters",
    machine=_TWO_CORES,
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
    machine=f"{_TWO_CORES}, others computing now and then",
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
# What a batch takes on its way from a worker.
RECEIVING: Final = Calibration(
    value=1_000_000.0,
    low=300_000.0,
    high=2_000_000.0,
    unit="ns a batch",
    meaning="receiving a batch from a worker that had it ready: 1 to 2 ms beside a training, 0.3 ms on an idle machine",
    machine=_TWO_CORES,
    measured_by="receipts of batches that lay ready, as recordings have them",
    date="2026-11-20",
)
RECEIVING_TENSOR: Final = Calibration(
    value=450_000.0,
    unit="ns a tensor",
    meaning="what receiving takes for each tensor of a batch: 0.35 to 0.45 ms, of batches of 1 to 200 tensors",
    machine=f"{_TWO_CORES}, both busy",
    measured_by="batches of 1 to 200 tensors and of 1 KB to 64 MB",
    date="2026-11-21",
)
RECEIVING_BYTE: Final = Calibration(
    value=1.5,
    unit="ns a byte",
    meaning="the same for pages that are mapped and given back: 0.4 to 1.5 ns",
    machine=RECEIVING_TENSOR.machine,
    measured_by=RECEIVING_TENSOR.measured_by,
    date="2026-11-21",
)
# What is there however small a batch is.
DISPATCH: Final = Calibration(
    value=14_000.0,
    high=37_000.0,
    unit="ns a node of autograd",
    meaning="forward and backward together: 7 to 28 us, whose geometric mean is usual; the bound is a third more than the most",
    machine="one core of a shared virtual machine, torch 2.13",
    measured_by="benchmarks/dispatch.py",
    date="2026-11-22",
)
LAYING_OUT: Final = Calibration(
    value=2.0,
    high=5.2,
    unit="ns a weight",
    meaning="laid out anew, and its gradient written, once a step: up to 3.9 ns, half of which is usual; the bound is a third more",
    machine=DISPATCH.machine,
    measured_by=DISPATCH.measured_by,
    date="2026-11-22",
)
FUSED_LEFT: Final = Calibration(
    value=0.28,
    low=0.17,
    high=0.56,
    unit="share of an optimizer's time",
    meaning="what is left with fused=True, of 0.1 to 30 million elements in 1 to 60 tensors: 0.17 to 0.40 of Adam's and AdamW's, 0.21 to "
    "0.56 of Adagrad's; in 20 to 1000 tensors of 256 to 10,000 elements 0.17 to 0.29 and 0.22 to 0.45",
    machine="one and two shared cores, torch 2.13",
    measured_by="the optimizers alone, fused and not, in turns",
    date="2026-11-26",
)
SHARED_LIMIT: Final = Calibration(
    value=0.5,
    unit="exponent of how many workers make batches at once",
    meaning="from where on workers share one limit (a server, a disk): 0.71 (0.59 to 0.80) and 0.97 (0.94 to 1.01) were seen of one for "
    "all, -0.01 (-0.16 to 0.13) and -0.02 (-0.09 to 0.04) of one for each",
    machine=_TWO_CORES,
    measured_by="a server of either kind with two and four workers, at ends of epochs",
    date="2026-11-25",
)
