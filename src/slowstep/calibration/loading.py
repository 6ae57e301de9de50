"""What goes on in a loader, and what a batch takes on its way from a worker."""

from __future__ import annotations

from typing import Final

from slowstep.calibration.calibration import TWO_CORES, Calibration

# What a batch takes on its way from a worker.
RECEIVING: Final = Calibration(
    value=1_000_000.0,
    low=300_000.0,
    high=2_000_000.0,
    unit="ns a batch",
    meaning="receiving a batch from a worker that had it ready: 1 to 2 ms beside a training, 0.3 ms where cores are idle. Of traces from "
    "servers with many cores the shortest receipts of batches that a thread had pinned took 0.07 to 0.09 ms (A100, V100)",
    machine=TWO_CORES,
    measured_by="receipts of batches that lay ready, as recordings have them",
    date="2026-11-20",
)
RECEIVING_TENSOR: Final = Calibration(
    value=450_000.0,
    unit="ns a tensor",
    meaning="what receiving takes for each tensor of a batch: 0.35 to 0.45 ms, of batches of 1 to 200 tensors",
    machine=f"{TWO_CORES}, both busy",
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
SHARED_FILE: Final = Calibration(
    value=500_000.0,
    unit="ns a batch",
    meaning="what a worker's collating may take more than the same on the training thread, because its tensors go to new files in shared "
    "memory: 0.2 ms a batch of two tensors; with room for more of them",
    machine=TWO_CORES,
    measured_by="collating alone, in a worker and in the process that trains",
    date="2026-11-26",
)
SHARED_FILE_BYTE: Final = Calibration(
    value=2.0,
    unit="ns a byte",
    meaning="the same for what is in them: 0.5 to 0.7 ns in batches of 1 to 50 MB; with room for slower memory",
    machine=TWO_CORES,
    measured_by=SHARED_FILE.measured_by,
    date="2026-11-26",
)
SHARED_LIMIT: Final = Calibration(
    value=0.5,
    unit="exponent of how many workers make batches at once",
    meaning="from where on workers share one limit (a server, a disk): 0.71 (0.59 to 0.80) and 0.97 (0.94 to 1.01) were seen of one for "
    "all, -0.01 (-0.16 to 0.13) and -0.02 (-0.09 to 0.04) of one for each",
    machine=TWO_CORES,
    measured_by="a server of either kind with two and four workers, at ends of epochs",
    date="2026-11-25",
)
# What goes on in a loader.
KEPT_WORKERS_START: Final = Calibration(
    value=300_000.0,
    high=1_000_000.0,
    unit="ns a start",
    meaning="what an iterator over workers that stay takes to begin; the bound is three times that, which is left of each start of workers",
    machine=TWO_CORES,
    measured_by="starts of iterators with persistent_workers=True, as recordings have them",
    date="2026-11-21",
)
LISTED: Final = Calibration(
    value=6.0,
    unit="ns an index, at most",
    meaning="how much longer the training's own work takes after a shuffled pass has begun with a list of all indices, which fills the "
    "caches: 1 to 6 ns for each of 100,000 or 400,000",
    machine=TWO_CORES,
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
SPUN: Final = Calibration(
    value=1.0,
    low=0.5,
    unit="share of the helpers' CPU time",
    meaning="what threads that help a worker's thread spin away where they share its core: two processes of two threads on two busy cores "
    "took 4 to 50 times the CPU time of one thread for the same products (OpenBLAS), 27 to 40 times for the same operations (PyTorch)",
    machine=TWO_CORES,
    measured_by="the same products and operations with one thread a process and with two",
    date="2026-11-22",
)
SPUN_ITSELF: Final = Calibration(
    value=0.0,
    high=0.5,
    unit="share of the producing thread's CPU time",
    meaning="the same of the thread that makes the batch: of PyTorch's operations half was spun on each thread",
    machine=TWO_CORES,
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
