"""What an optimizer's call takes: fused, and where it touches only the rows of a batch."""

from __future__ import annotations

from typing import Final

from slowstep.calibration.calibration import TWO_CORES, Calibration

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
# What is written for all tensors at once, beside a loop over them: by operations on lists of tensors, or on those of one shape stacked.
AT_ONCE: Final = Calibration(
    value=0.43,
    low=0.28,
    high=0.76,
    unit="share of a loop's time",
    meaning="what is left of signs, moments, norms, products and noise, in 24 to 160 tensors of 64 to 1024 elements of one shape, each "
    "of which took the loop 10 to 21 us; of 9,216 elements it is 0.6 to 2",
    machine=f"{TWO_CORES}, others computing, one thread, torch 2.13, the fastest of thirty rounds in turns",
    measured_by="benchmarks/update_at_once.py",
    date="2026-11-29",
)
LONG_AT_ONCE: Final = Calibration(
    value=0.10,
    low=0.01,
    high=0.33,
    unit=AT_ONCE.unit,
    meaning="the same of matrices made orthogonal, of roots, and of chains of some thirty operations, which took the loop 99 us and more",
    machine=AT_ONCE.machine,
    measured_by=AT_ONCE.measured_by,
    date=AT_ONCE.date,
)
# Of which updates those two were measured.
AT_ONCE_ELEMENTS: Final = Calibration(
    value=1024.0,
    unit="elements of a tensor",
    meaning="the largest tensors of which a loop was measured beside what does it at once",
    machine=AT_ONCE.machine,
    measured_by=AT_ONCE.measured_by,
    date=AT_ONCE.date,
)
AT_ONCE_TENSOR: Final = Calibration(
    value=21_000.0,
    unit="ns a tensor",
    meaning="the longest that a loop took of those that AT_ONCE is of",
    machine=AT_ONCE.machine,
    measured_by=AT_ONCE.measured_by,
    date=AT_ONCE.date,
)
LONG_AT_ONCE_TENSOR: Final = Calibration(
    value=99_000.0,
    unit="ns a tensor",
    meaning="the shortest that a loop took of those that LONG_AT_ONCE is of; between the two nothing was measured",
    machine=AT_ONCE.machine,
    measured_by=AT_ONCE.measured_by,
    date=AT_ONCE.date,
)
# Of averages, clipping and noise, on lists of tensors.
SMALL_TENSOR: Final = Calibration(
    value=16_384.0,
    unit="elements of a tensor",
    meaning="up to which written at once gains: an average took 0.12 to 0.4 of the time of a loop over them, clipping 0.4 to 1.3, noise "
    "0.5 to 2.1; of larger ones not much less than the loop at best",
    machine="a shared virtual machine, one thread, torch 2.13",
    measured_by="loops and torch._foreach_* of the same, in turns",
    date="2026-11-28",
)
BY_TENSOR: Final = Calibration(
    value=0.5,
    unit="share of an update's time",
    meaning="from which on lines that run for each tensor make it a loop: of Lion, in 40 tensors, they took all of the time where it is "
    "one, 0.26 where it calls torch._foreach_* for all",
    machine=SMALL_TENSOR.machine,
    measured_by="a recording of Lion on 40 tensors, of either kind",
    date=SMALL_TENSOR.date,
)
# What an update costs that touches only the rows of a batch, and what a dense gradient costs beside the optimizer's call.
SPARSE_TABLE: Final = Calibration(
    value=150_000.0,
    low=40_000.0,
    high=400_000.0,
    unit="ns a table",
    meaning="a sparse gradient and its update however few rows it has: 0.04 ms of SGD to 0.27 ms of SparseAdam with 64 ids",
    machine=f"{TWO_CORES}, others computing, CPU time of one thread",
    measured_by="benchmarks/sparse_update.py",
    date="2026-11-29",
)
SPARSE_ADAM_ROW: Final = Calibration(
    value=1_100.0,
    low=700.0,
    high=2_200.0,
    unit="ns a row that a batch takes",
    meaning="the same of SparseAdam for each row of up to 32 elements, and as much more as it has more of them",
    machine=SPARSE_TABLE.machine,
    measured_by=SPARSE_TABLE.measured_by,
    date=SPARSE_TABLE.date,
)
SPARSE_ADAGRAD_ROW: Final = Calibration(
    value=550.0,
    low=400.0,
    high=1_100.0,
    unit=SPARSE_ADAM_ROW.unit,
    meaning="the same of Adagrad",
    machine=SPARSE_TABLE.machine,
    measured_by=SPARSE_TABLE.measured_by,
    date=SPARSE_TABLE.date,
)
SPARSE_SGD_ROW: Final = Calibration(
    value=80.0,
    low=60.0,
    high=200.0,
    unit=SPARSE_ADAM_ROW.unit,
    meaning="the same of SGD",
    machine=SPARSE_TABLE.machine,
    measured_by=SPARSE_TABLE.measured_by,
    date=SPARSE_TABLE.date,
)
SPARSE_ROW_ELEMENTS: Final = Calibration(
    value=32.0,
    unit="elements of a row",
    meaning="up to how many the cost of a row was measured; of more it goes with their number",
    machine=SPARSE_TABLE.machine,
    measured_by=SPARSE_TABLE.measured_by,
    date=SPARSE_TABLE.date,
)
FREED_GRADIENT: Final = Calibration(
    value=0.15,
    low=0.0,
    high=0.6,
    unit="ns an element",
    meaning="a dense gradient of 32 MiB and more that is given back to the system: 0.12 to 0.18 ns, 0.36 to 0.56 by the wall on a busy "
    "machine; none where the script keeps it and fills it with zeros",
    machine=SPARSE_TABLE.machine,
    measured_by=SPARSE_TABLE.measured_by,
    date=SPARSE_TABLE.date,
)
ADDED_GRADIENT: Final = Calibration(
    value=0.6,
    low=0.3,
    high=1.2,
    unit="ns an element",
    meaning="a dense gradient that is added to another one of the same table: 0.58 to 0.63 ns; half and twice that are assumed at the ends",
    machine=SPARSE_TABLE.machine,
    measured_by=SPARSE_TABLE.measured_by,
    date=SPARSE_TABLE.date,
)
CACHED_UPDATE: Final = Calibration(
    value=0.75,
    low=0.4,
    high=1.0,
    unit="of an element's time in an optimizer's call",
    meaning="an element of a tensor of 16384 by one of 8 million: 0.56 to 1.03 of six optimizers",
    machine=SPARSE_TABLE.machine,
    measured_by=SPARSE_TABLE.measured_by,
    date=SPARSE_TABLE.date,
)
UPDATED_TENSOR: Final = Calibration(
    value=10_000.0,
    low=2_000.0,
    high=31_000.0,
    unit="ns a tensor",
    meaning="an optimizer's call for a tensor of 16 elements, not fused: 2 us of SGD to 31 us of AdamW",
    machine=SPARSE_TABLE.machine,
    measured_by=SPARSE_TABLE.measured_by,
    date=SPARSE_TABLE.date,
)
AFTER_SWEEP: Final = Calibration(
    value=300_000.0,
    low=0.0,
    high=1_700_000.0,
    unit="ns a step",
    meaning="how much shorter the rest of a step gets where the optimizer no longer goes over 16 MiB and more, after which all else has to "
    "be read into the caches again: 0.2 to 1.3 ms of steps of 0.7 to 22 ms; the bound is a third more than the most",
    machine=SPARSE_TABLE.machine,
    measured_by=SPARSE_TABLE.measured_by,
    date=SPARSE_TABLE.date,
)
SWEPT_BYTES: Final = Calibration(
    value=float(16 << 20),
    unit="bytes",
    meaning="from which on what is gone over leaves nothing else in the caches: it was measured of this and of more",
    machine=SPARSE_TABLE.machine,
    measured_by=SPARSE_TABLE.measured_by,
    date=SPARSE_TABLE.date,
)
AFTER_SWEEP_AT_MOST: Final = Calibration(
    value=0.2,
    high=0.5,
    unit="share of the rest of a step",
    meaning="how much of that rest it can be: 0.01 to 0.50, the less the longer it is",
    machine=SPARSE_TABLE.machine,
    measured_by=SPARSE_TABLE.measured_by,
    date=SPARSE_TABLE.date,
)
