"""What forward and backward take: what is there however small a batch is, and what grows with it."""

from __future__ import annotations

from typing import Final

from slowstep.calibration.calibration import Calibration

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
# What backward takes at most of what grows with the samples; its forward is told by it.
BACKWARD_ELEMENT: Final = Calibration(
    value=0.4,
    high=1.2,
    unit="ns an element that an operation of backward reads or writes",
    meaning="of values of up to 128 KiB. With the next three values no pass of 39 models grew from size to size by more than 0.6 of what "
    "is told at most, in four runs of 78 such pairs; the rest is for slower processors",
    machine="two cores of a shared virtual machine, others computing on them too, torch 2.13",
    measured_by="benchmarks/graph_work.py",
    date="2026-11-29",
)
BACKWARD_DEAR: Final = Calibration(
    value=1.5,
    high=5.0,
    unit=BACKWARD_ELEMENT.unit,
    meaning="of larger values, and of powers, pools, rows of less than 16 places and matrices of less than 400 products",
    machine=BACKWARD_ELEMENT.machine,
    measured_by=BACKWARD_ELEMENT.measured_by,
    date=BACKWARD_ELEMENT.date,
)
BACKWARD_SCATTERED: Final = Calibration(
    value=8.0,
    high=25.0,
    unit="ns an element that is found by an index; a row of a table is four",
    meaning=BACKWARD_ELEMENT.meaning,
    machine=BACKWARD_ELEMENT.machine,
    measured_by=BACKWARD_ELEMENT.measured_by,
    date=BACKWARD_ELEMENT.date,
)
BACKWARD_PRODUCT: Final = Calibration(
    value=0.03,
    high=0.06,
    unit="ns a product in the forward of what backward goes through",
    meaning=BACKWARD_ELEMENT.meaning,
    machine=BACKWARD_ELEMENT.machine,
    measured_by=BACKWARD_ELEMENT.measured_by,
    date=BACKWARD_ELEMENT.date,
)
FORWARD_OF_BACKWARD: Final = Calibration(
    value=0.7,
    low=0.12,
    unit="times what its backward takes, of what is there for any batch size",
    meaning="the smallest batches of 39 models: 0.13 (small matrices), 0.16 (wide weights) to 1.7",
    machine=BACKWARD_ELEMENT.machine,
    measured_by=BACKWARD_ELEMENT.measured_by,
    date=BACKWARD_ELEMENT.date,
)
# What anomaly detection takes.
WRITING_STACKS: Final = Calibration(
    value=1.85,
    low=1.3,
    high=2.7,
    unit="times what stacks show of it",
    meaning="what forward takes longer, of what stands in `traceback`: 1.5 to 2.7. Stacks are taken where the GIL is let go; none shows "
    "what C++ does with the lines that it gets",
    machine="two cores of a shared virtual machine (AMD EPYC), quiet, torch 2.13",
    measured_by="benchmarks/anomaly.py",
    date="2026-11-30",
)
CHECKED_NODE: Final = Calibration(
    value=6_500.0,
    low=3_000.0,
    high=15_000.0,
    unit="ns a node of autograd",
    meaning="its gradients are checked for NaN: 6.5 us where they are small; bounds are a factor of two for other processors",
    machine=WRITING_STACKS.machine,
    measured_by=WRITING_STACKS.measured_by,
    date=WRITING_STACKS.date,
)
CHECKED_ELEMENT: Final = Calibration(
    value=0.7,
    low=0.3,
    high=1.5,
    unit="ns an element that the operations of forward gave, or of a parameter",
    meaning="its gradient is read once more: 0.6 to 1.1 ns where most are large; bounds are half of the least, a third more than the most",
    machine=WRITING_STACKS.machine,
    measured_by=WRITING_STACKS.measured_by,
    date=WRITING_STACKS.date,
)
PYTHON_CALL: Final = Calibration(
    value=3_000.0,
    unit="ns a call of a function in Python, and what it does itself",
    meaning="at most: thrice what calls took in forwards of three models of Keras on PyTorch, 0.7 to 1.0 us, their operations with them",
    machine="one core of a shared virtual machine (Intel Xeon), torch 2.13, Keras 3.15, others computing beside it, processor time",
    measured_by="benchmarks/python_calls.py",
    date="2026-11-29",
)
# Of a loop in Python, by how many operations its lines may do.
LOOP_OPERATION: Final = Calibration(
    value=4_000.0,
    low=2_000.0,
    unit="ns an operation that a line of a loop may do",
    meaning="what whole tensors spare: loops of 3.1 to 5.7 us an operation left 0.01 to 0.37, 0.05 in the median, of 9 us (eigenvalues) "
    "0.42, of 27 us (products of 160 x 160) 0.78; told by the value 0.05 to 0.33, 0.59 and 0.86. The low end is half of it",
    machine="one core of a shared virtual machine (Intel Xeon), torch 2.13, others computing beside it",
    measured_by="benchmarks/loop_operations.py",
    date="2026-11-29",
)
# What grows with it.
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
LAYERS_BACKWARD: Final = Calibration(
    value=1.5,
    low=0.3,
    high=3.2,
    unit="times the forward",
    meaning="the backward of layers that are no loops: 0.34 (pooling) to 2.43 (wide matrix products), 1.5 in the median of thirteen "
    "models; the bounds are a little less than the least, and a third more than the most",
    machine=f"{DISPATCH.machine}, others computing beside it, processor time",
    measured_by="benchmarks/layer_backward.py",
    date="2026-11-29",
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
# Of a convolution with a kernel of 3 in place of a larger one.
SMALL_KERNEL: Final = Calibration(
    value=1.6,
    low=0.5,
    high=4.0,
    unit="times as long for a product of a kernel of 3 as for one of a larger kernel",
    meaning="with its backward, of seven shapes and kernels of 5 to 15: 0.5 to 2.2 times on one thread, 1.6 in the median; on two threads "
    "beside other work up to 4 for three of four",
    machine=DISPATCH.machine,
    measured_by="benchmarks/smaller_kernel.py",
    date="2026-11-30",
)
# Of calls that are compiled as a whole.
FUSED_CALL: Final = Calibration(
    value=40_000.0,
    low=0.0,
    high=1_000_000.0,
    unit="ns a call",
    meaning="a call that trains, beyond what its operations take: at most what the smallest took in all; the bound is for the host's part "
    "on slower processors, and assumed",
    machine="two cores of a shared virtual machine, others computing on them too; JAX 0.10.2",
    measured_by="benchmarks/jaxpr_operations.py",
    date="2026-11-30",
)
FUSED_OPERATION: Final = Calibration(
    value=700.0,
    low=0.0,
    high=4_000.0,
    unit="ns an operation, as it was traced",
    meaning="on one sample, of five small models with SGD and Adam, whose weights are few: 0.25 to 0.95 us; the bound is four times "
    "the most",
    machine=FUSED_CALL.machine,
    measured_by=FUSED_CALL.measured_by,
    date=FUSED_CALL.date,
)
# Of single operations of such calls that multiply nothing.
SORTED_ELEMENT: Final = Calibration(
    value=300.0,
    high=2_000.0,
    unit="ns an element that is sorted, or added up along a length",
    meaning="sums 4 to 16, the largest few 5 to 88, sorting 160 to 910; the bound is twice the most",
    machine=FUSED_CALL.machine,
    measured_by=FUSED_CALL.measured_by,
    date=FUSED_CALL.date,
)
SCATTERED_ELEMENT: Final = Calibration(
    value=5.0,
    high=20.0,
    unit="ns an element that is found, put or drawn by itself",
    meaning="found 0.2 to 0.3, added 4.2, drawn 5.6 to 8.9; the bound is twice the most",
    machine=FUSED_CALL.machine,
    measured_by=FUSED_CALL.measured_by,
    date=FUSED_CALL.date,
)
FUSED_ELEMENT: Final = Calibration(
    value=1.0,
    high=11.0,
    unit="ns an element that any other operation gives",
    meaning="0.3 to 1.1, powers 5.5; the bound is twice the most",
    machine=FUSED_CALL.machine,
    measured_by=FUSED_CALL.measured_by,
    date=FUSED_CALL.date,
)
# Of gradients that nobody uses.
UNUSED_BACKWARD: Final = Calibration(
    value=1.08,
    low=0.7,
    high=1.25,
    unit="of what hooks tell of operations of backward, once their gradients are not made",
    meaning="with what the forward saves by keeping nothing: of eleven trainings, by the thread's own clock, 0.83 to 1.18 and 1.09 in the "
    "median, and 0.53 of a small network that is a loss; bounds are somewhat wider",
    machine=DISPATCH.machine,
    measured_by="benchmarks/unused_gradients.py",
    date="2026-11-30",
)
# Of forward and backward in 16 bits on a processor that has no instructions for them.
FLOAT16_EMULATED: Final = Calibration(
    value=17.0,
    low=8.0,
    high=31.0,
    unit="times as long as in float32",
    meaning="autocast of forward and backward on a processor with AVX-512 and no arithmetic of float16: convolutions 17 and 31, linear "
    "layers 8 and 19, encoders 10 and 18",
    machine=DISPATCH.machine,
    measured_by="benchmarks/half_precision.py",
    date="2026-11-30",
)
BFLOAT16_EMULATED: Final = Calibration(
    value=2.1,
    low=1.4,
    high=14.0,
    unit="times as long as in float32",
    meaning="the same of bfloat16 with its instructions turned off (ONEDNN_MAX_CPU_ISA=AVX512_CORE): 1.45 to 2.4; with AVX2 alone 14 of a "
    "convolution. With them 0.55 to 1.22",
    machine=DISPATCH.machine,
    measured_by="benchmarks/half_precision.py",
    date="2026-11-30",
)
PLAIN_CONVOLUTIONS: Final = Calibration(
    value=1.4,
    low=1.3,
    high=1.55,
    unit="times as long without oneDNN as with it",
    meaning="forward and backward of convolutions of 16 and 64 channels: 1.33 to 1.51; of linear layers and encoders 0.93 to 1.03, and "
    "1.23 once",
    machine=DISPATCH.machine,
    measured_by="benchmarks/half_precision.py",
    date="2026-11-30",
)
