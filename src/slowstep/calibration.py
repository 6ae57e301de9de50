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
    meaning="receiving a batch from a worker that had it ready: 1 to 2 ms beside a training, 0.3 ms where cores are idle. Of traces from "
    "servers with many cores the shortest receipts of batches that a thread had pinned took 0.07 to 0.09 ms (A100, V100)",
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
# Of updates that are made by one call of a traced graph.
GRAPH_CALL: Final = Calibration(
    value=500_000.0,
    low=150_000.0,
    high=2_000_000.0,
    unit="ns a call",
    meaning="a call that trains, beyond what its operations take: Keras, what TensorFlow does to run a graph, and the next batch. 0.3 to "
    "0.7 ms of fast calls; bounds are half of the least, for faster processors, and what with those of operations and elements is more "
    "than the processor time of all calls, of 83 to 1355 operations, was while others computed",
    machine="two cores of a shared virtual machine, others computing on them too; TensorFlow 2.21, Keras 3.15",
    measured_by="benchmarks/graph_operations.py",
    date="2026-11-28",
)
GRAPH_OPERATION: Final = Calibration(
    value=4_000.0,
    low=1_200.0,
    high=20_000.0,
    unit="ns an operation of a graph, as it was traced",
    meaning="on one sample, of all models with SGD and Adam, whether XLA compiles them or not: 2.4 to 7 us of fast calls, up to 15 us of "
    "processor time; bounds are half of the least, and a third more than the most",
    machine=GRAPH_CALL.machine,
    measured_by=GRAPH_CALL.measured_by,
    date=GRAPH_CALL.date,
)
GRAPH_ELEMENT: Final = Calibration(
    value=2.0,
    high=6.0,
    unit="ns an element of the variables that a graph reads",
    meaning="read and written, and gradients of them written, once a call: up to 4.5 ns of processor time; the bound is a third more",
    machine=GRAPH_CALL.machine,
    measured_by=GRAPH_CALL.measured_by,
    date=GRAPH_CALL.date,
)
STEP_IN_A_CALL: Final = Calibration(
    value=650_000.0,
    low=200_000.0,
    high=2_400_000.0,
    unit="ns a step",
    meaning="what a call of 16 steps spares of each, beside 16 calls: 0.65 to 1.2 ms of fast calls, 0.7 to 2.3 ms of processor time. The "
    "usual value is that of the smallest model, the most is that of its largest; the least is a third of the least, for faster processors "
    "that nobody else uses",
    machine="two cores of a shared virtual machine, others computing on all of them; TensorFlow 2.21, Keras 3.15",
    measured_by="benchmarks/steps_in_one_call.py",
    date="2026-11-29",
)
OPERATION_IN_GRAPH: Final = Calibration(
    value=1_800.0,
    low=400.0,
    high=5_200.0,
    unit="ns of processor time an operation that an eager step hands over",
    meaning="what a traced function takes for it beyond a call (GRAPH_CALL): 0.75 to 3.9 us in ten small models of 131 to 1820 operations, "
    "with SGD and Adam, on one sample; the eager step takes 66 to 101 us for each. Two whose variables have a million elements and more "
    "compute, and are left out. Bounds are half of the least, for faster processors, and a third more than the most",
    machine=GRAPH_CALL.machine,
    measured_by="benchmarks/eager_step.py",
    date="2026-11-29",
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
# What an update costs that touches only the rows of a batch, and what a dense gradient costs beside the optimizer's call.
SPARSE_TABLE: Final = Calibration(
    value=150_000.0,
    low=40_000.0,
    high=400_000.0,
    unit="ns a table",
    meaning="a sparse gradient and its update however few rows it has: 0.04 ms of SGD to 0.27 ms of SparseAdam with 64 ids",
    machine=f"{_TWO_CORES}, others computing, CPU time of one thread",
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
AFTER_SWEEP_AT_MOST: Final = Calibration(
    value=0.2,
    high=0.5,
    unit="share of the rest of a step",
    meaning="how much of that rest it can be: 0.01 to 0.50, the less the longer it is",
    machine=SPARSE_TABLE.machine,
    measured_by=SPARSE_TABLE.measured_by,
    date=SPARSE_TABLE.date,
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
# What becomes of a step whose batches no worker makes any more.
COLLATED_HERE: Final = Calibration(
    value=0.25,
    low=0.125,
    high=1.0,
    unit="share of what torch's own collating takes in a worker",
    meaning="what is left of it on the training thread, where it does not fill shared memory: 0.23 to 0.72 ms in a worker and 0.03 to 0.17 "
    "ms without, of samples in memory, 4 to 128 a batch",
    machine=_TWO_CORES,
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
    machine=_TWO_CORES,
    measured_by=COLLATED_HERE.measured_by,
    date="2026-11-25",
)
GIVEN_BACK: Final = Calibration(
    value=19_000.0,
    low=0.0,
    high=30_000.0,
    unit="ns for each tensor of a batch beyond two",
    meaning="what giving that memory back takes: from 1 to 300 tensors of 80 bytes 0.06 to 6 ms",
    machine=_TWO_CORES,
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
    machine=_TWO_CORES,
    measured_by=COLLATED_HERE.measured_by,
    date="2026-11-25",
)
# What goes on in a loader.
KEPT_WORKERS_START: Final = Calibration(
    value=300_000.0,
    high=1_000_000.0,
    unit="ns a start",
    meaning="what an iterator over workers that stay takes to begin; the bound is three times that, which is left of each start of workers",
    machine=_TWO_CORES,
    measured_by="starts of iterators with persistent_workers=True, as recordings have them",
    date="2026-11-21",
)
LISTED: Final = Calibration(
    value=6.0,
    unit="ns an index, at most",
    meaning="how much longer the training's own work takes after a shuffled pass has begun with a list of all indices, which fills the "
    "caches: 1 to 6 ns for each of 100,000 or 400,000",
    machine=_TWO_CORES,
    measured_by="benchmarks/index_lists.py, five models",
    date="2026-11-25",
)
LISTED_AT_MOST: Final = Calibration(
    value=0.7,
    unit="share of the training's own work",
    meaning="the most that this took of it",
    machine=LISTED.machine,
    measured_by=LISTED.measured_by,
    date="2026-11-25",
)
SHARED_FILE: Final = Calibration(
    value=500_000.0,
    unit="ns a batch",
    meaning="what a worker's collating may take more than the same on the training thread, because its tensors go to new files in shared "
    "memory: 0.2 ms a batch of two tensors; with room for more of them",
    machine=_TWO_CORES,
    measured_by="collating alone, in a worker and in the process that trains",
    date="2026-11-26",
)
SHARED_FILE_BYTE: Final = Calibration(
    value=2.0,
    unit="ns a byte",
    meaning="the same for what is in them: 0.5 to 0.7 ns in batches of 1 to 50 MB; with room for slower memory",
    machine=_TWO_CORES,
    measured_by=SHARED_FILE.measured_by,
    date="2026-11-26",
)
SPUN: Final = Calibration(
    value=1.0,
    low=0.5,
    unit="share of the helpers' CPU time",
    meaning="what threads that help a worker's thread spin away where they share its core: two processes of two threads on two busy cores "
    "took 4 to 50 times the CPU time of one thread for the same products (OpenBLAS), 27 to 40 times for the same operations (PyTorch)",
    machine=_TWO_CORES,
    measured_by="the same products and operations with one thread a process and with two",
    date="2026-11-22",
)
SPUN_ITSELF: Final = Calibration(
    value=0.0,
    high=0.5,
    unit="share of the producing thread's CPU time",
    meaning="the same of the thread that makes the batch: of PyTorch's operations half was spun on each thread",
    machine=_TWO_CORES,
    measured_by=SPUN.measured_by,
    date="2026-11-22",
)
STAGE_AT_WORK: Final = Calibration(
    value=0.6,
    unit="share of the time between two batches",
    meaning="what is counted at least, in all its stages, of a thread of a tf.data pipeline that holds up the training: 0.93 to 1.0 where "
    "a function was slow, 0.68 where a filter came after it; with room for more that is in no stage, such as handing over",
    machine="two busy cores of a shared virtual machine, TensorFlow 2.21",
    measured_by="twelve pipelines with functions that sleep 1 to 5 ms an element",
    date="2026-11-28",
)
# What computing takes.
LARGER_BATCH: Final = Calibration(
    value=-0.1,
    low=-0.6,
    high=0.05,
    unit="change of the time per sample, as a share",
    meaning="beyond the batch sizes seen: its slope from 4 to 32 samples over that from 1 to 4 was 0.3 to 1.03 on six of seven models "
    "(median 0.89: small products do not fill the vector units)",
    machine=DISPATCH.machine,
    measured_by="benchmarks/dispatch.py",
    date="2026-11-20",
)
DOUBLE_CONVOLUTIONS: Final = Calibration(
    value=3.4,
    low=1.7,
    high=4.5,
    unit="times as long in float64 as in float32",
    meaning="convolutions, by model and batch size; the middle is usual",
    machine="one core each of two shared virtual machines, torch 2.13",
    measured_by="benchmarks/double_precision.py",
    date="2026-11-22",
)
DOUBLE_OTHERS: Final = Calibration(
    value=1.8,
    low=1.1,
    high=2.4,
    unit=DOUBLE_CONVOLUTIONS.unit,
    meaning="everything else",
    machine=DOUBLE_CONVOLUTIONS.machine,
    measured_by=DOUBLE_CONVOLUTIONS.measured_by,
    date="2026-11-22",
)
LOOPS_BACKWARD: Final = Calibration(
    value=2.0,
    unit="times the forward",
    meaning="the least that is expected of the backward of a Python loop of small operations (a recurrence, a cell, pairs of rows, masks, "
    "columns written, scalars): 1.6 to 5.2 at three sizes, 2.4 in the median, for gradients of slices are as large as what was sliced; "
    "that loops of other kinds have somewhat less is assumed",
    machine=DISPATCH.machine,
    measured_by="six loops, forward and backward timed apart",
    date="2026-11-26",
)
# How much what is alike differs.
EVEN_STEPS: Final = Calibration(
    value=0.38,
    high=0.5,
    unit="spread of step times, of the median step",
    meaning="of an even training, 1879 steps, while others computed: beyond the bound it is the training",
    machine=_TWO_CORES,
    measured_by="a recording of it",
    date="2026-11-21",
)
RUN_TO_RUN: Final = Calibration(
    value=0.04,
    unit="standard deviation of ln(samples/s)",
    meaning="how much two runs of one training differ even on a quiet machine, by its memory's layout; 0.04 to 0.14 on a shared one",
    machine=_TWO_CORES,
    measured_by="benchmarks/pace.py",
    date="2026-11-20",
)
# What seeing takes, and what that leaves open.
TIMED_PART: Final = Calibration(
    value=0.15,
    unit="share of what is seen, either way",
    meaning="how far the time of a part is known from calls that were timed in a few gaps: timing slows Python code, and what that costs "
    "is taken out by estimate",
    machine=_TWO_CORES,
    measured_by="benchmarks/gap_lines.py",
    date="2026-11-21",
)
TIMED_LINE: Final = Calibration(
    value=0.5,
    unit=TIMED_PART.unit,
    meaning="the same of lines in a loop without a loader that hold next to nothing of what was timed: of ten loops parts of less than "
    "half of it were seen at 0.7 to 1.5 times of what they take, and larger ones at 0.84 to 1.1 times",
    machine=_TWO_CORES,
    measured_by=TIMED_PART.measured_by,
    date="2026-11-23",
)
CALLS_APART: Final = Calibration(
    value=0.4,
    unit="share of what counting calls takes",
    meaning="how much of it is left out of the time of a line: a call costs timing 0.2 us and tracing 1 to 2 us; parts of ten loops were "
    "off by 3.3 times at most with 0, by 1.8 with 0.25, by 1.5 with 0.37 as with 0.5, and always by 1.10 to 1.12 in the median",
    machine=_TWO_CORES,
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

# What forward and backward of a graph take, by what its operations give.
GIVEN_ELEMENT: Final = Calibration(
    value=1.5,
    low=0.5,
    high=4.0,
    unit="ns an element that an operation gives",
    meaning="forward and backward together: with this and the next value half of a length was told to save, of nine models, what it saved "
    "within 0.11 of all; with the bounds of both, 0.05 beyond them at most",
    machine="one core of a shared virtual machine, torch 2.13",
    measured_by="benchmarks/padded_lengths.py",
    date="2026-11-29",
)
WEIGHT_PRODUCT: Final = Calibration(
    value=0.03,
    low=0.01,
    high=0.1,
    unit="ns a product of an element with a weight",
    meaning="forward and backward together: 0.01 to 0.05 fit the nine models as well",
    machine=GIVEN_ELEMENT.machine,
    measured_by=GIVEN_ELEMENT.measured_by,
    date=GIVEN_ELEMENT.date,
)
