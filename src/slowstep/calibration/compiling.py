"""What a compiled call leaves of operations that are dispatched one by one, and one of several steps of calls."""

from __future__ import annotations

from typing import Final

from slowstep.calibration.calibration import Calibration
from slowstep.calibration.computing import GRAPH_CALL

# By what dispatching one takes, on whichever machine.
COMPILED_CALL: Final = Calibration(
    value=5.0,
    low=2.0,
    high=20.0,
    unit="operations whose dispatching takes as long",
    meaning="one call of a compiled function that trains: 0.3 to 0.7 ms of Keras' fast calls, next batch included, where an eager step "
    "takes 66 to 101 us for each operation; bounds are less than the least, and twice the most",
    machine=GRAPH_CALL.machine,
    measured_by="benchmarks/graph_operations.py, benchmarks/eager_step.py",
    date="2026-11-29",
)
COMPILED_OPERATION: Final = Calibration(
    value=0.02,
    low=0.005,
    high=0.06,
    unit="share of what dispatching an operation takes",
    meaning="what it takes in a compiled function beyond the call: 0.009 to 0.048 in ten small models of 131 to 1820 operations, with SGD "
    "and Adam, on one sample, and 0.009 to 0.037 in four with batches of 1 to 32, by processor time. Two whose variables have a million "
    "elements and more compute, and are left out. Bounds are half of the least, and a third more than the most",
    machine=GRAPH_CALL.machine,
    measured_by="benchmarks/eager_step.py",
    date="2026-11-29",
)
COMPILED_LARGE: Final = Calibration(
    value=1.0,
    low=0.5,
    high=1.8,
    unit="share of what large operations compute that are dispatched one by one",
    meaning="what is left of it in one call of a compiled function: of products of 512 and 1024 columns and of convolutions of 32 channels "
    "0.6 to 1.0 of the processor time that they and their helpers took, who spin for some of it. Small convolutions took up to 1.25 times "
    "as long as the whole eager step where XLA compiled them, on two quiet cores: 1.8 times as long as their kernels. The lower bound is "
    "a sixth below the least",
    machine="two cores of a shared virtual machine, others computing on them too; TensorFlow 2.21, Keras 3.15, JAX 0.10.2",
    measured_by="benchmarks/eager_step.py",
    date="2026-11-29",
)
COMPILED_SMALL: Final = Calibration(
    value=0.55,
    unit="share of what small operations compute that are dispatched one by one",
    meaning="what fusing leaves of it: of ten trainings (perceptrons, convolutions, transformers; batches of 1 to 512) 0.0 to 1.0 of what "
    "operations took beyond four times the shortest, the median 0.55; of JAX updates whose arrays have 65,000 elements and more 0.08 to "
    "0.53",
    machine=COMPILED_LARGE.machine,
    measured_by="benchmarks/eager_step.py, benchmarks/eager_update.py",
    date="2026-11-29",
)
# Of operations that were not counted.
HANDING_OVER_LEFT: Final = Calibration(
    value=0.05,
    low=0.0,
    high=0.20,
    unit="share of what dispatching operations one by one takes",
    meaning="what a call of a compiled function takes for them: 0.01 to 0.12 of optax' updates of 4 to 64 arrays of up to 4096 elements, "
    "of which plain descent leaves most and AdamW behind clipping least; bounds are nothing, and twice the most",
    machine=COMPILED_LARGE.machine,
    measured_by="benchmarks/eager_update.py",
    date="2026-11-29",
)
# Of compiled calls that make a step each.
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
SPARED_OF_CALL: Final = Calibration(
    value=0.80,
    high=0.85,
    unit="share of a call that makes one step",
    meaning="how much of it can be spared: of calls for one step and for 16 of the smallest models 0.16 to 0.31 was left of a step's",
    machine=STEP_IN_A_CALL.machine,
    measured_by=STEP_IN_A_CALL.measured_by,
    date=STEP_IN_A_CALL.date,
)
# Of compiled calls that return before their work is done.
STEP_IN_A_SCAN: Final = Calibration(
    value=45_000.0,
    low=18_000.0,
    high=107_000.0,
    unit="ns a step",
    meaning="what one jax.lax.scan of 16 steps spares of each, beside 16 calls: of perceptrons of two layers of 8, of ten, and of three of "
    "256. Three layers of 512 take up to 2.3 times as long in a scan, where their products are not shared among cores: which steps gain is "
    "not known before it is tried",
    machine="two cores of a shared virtual machine, others computing on all of them; JAX 0.10.2",
    measured_by="benchmarks/steps_in_one_scan.py",
    date="2026-11-29",
)
# Of a function that is traced anew.
FIRST_CALL: Final = Calibration(
    value=0.9,
    low=0.0,
    high=1.5,
    unit="times as long as tracing it",
    meaning="what the first call of a graph takes to optimise and to place it, beside tracing and beside what a later call takes: 0.65 to "
    "1.28 in the median of ten for five models of TensorFlow, single ones 0.2 to 1.5 and once 2.9; with JAX, which tells of all that it "
    "compiles, 0.02 to 0.17, which is not counted",
    machine=COMPILED_LARGE.machine,
    measured_by="benchmarks/first_calls.py",
    date="2026-11-30",
)
