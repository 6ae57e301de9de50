"""The changes with which steps are replayed: the scenario names of the table `replay`."""

from __future__ import annotations

from typing import Final

UNCHANGED: Final = "unchanged"
NO_INPUT_WAIT: Final = "no-input-wait"
LAUNCHES_FREE: Final = "launches-free"  # one launch for a step's kernels, as by a CUDA graph
NO_SYNCHRONIZATION: Final = "no-synchronizing-call"  # those of losses and metrics go; what a step needs to go on stays
HALF_PRECISION: Final = "matmuls-in-16-bit"  # eligible full-precision kernels at their 16-bit time
ALIGNED_SHAPES: Final = "aligned-shapes"  # eligible 16-bit kernels that miss the Tensor Cores for their shapes
FUSED_ELEMENTWISE: Final = "elementwise-fused"  # runs of elementwise kernels as one pass over memory
COPIES_PINNED: Final = "copies-from-pinned-memory"  # pageable copies at link speed, asynchronous
COPIES_OVERLAPPED: Final = "copies-overlapped"  # host-to-device copies during the kernels before
NO_REPEATED_COPIES: Final = "repeated-copies-once"
NO_READBACKS: Final = "no-read-backs"  # copies to the host and the waits for them go
NO_DEVICE_COPIES: Final = "no-device-to-device-copies"
COMMUNICATION_OVERLAPPED: Final = "communication-overlapped"  # collectives during the backward, as far as it reaches
COLLECTIVES_MERGED: Final = "collectives-merged"  # small collectives as few large ones
HOST_OPERATIONS_ON_DEVICE: Final = "host-operations-on-the-device"
NO_ALLOCATOR_CALLS: Final = "no-allocator-calls"
NO_COMPILATION: Final = "no-recompilation"
NO_LOSS_SCALING: Final = "no-loss-scaling-read-back"
NO_CALLBACKS: Final = "no-callbacks"  # named callbacks, validation and logging: stage output
NO_WRITES: Final = "no-writes"  # named writes, as of checkpoints: stage store
SINGLE_PRECISION: Final = "float64-kernels-in-float32"
NO_WORK_BETWEEN_STEPS: Final = "no-work-between-steps"  # host work between the last launch of a step and the first of the next
LARGER_BATCH: Final = "twice-the-batch"  # `expected_ns` is half of a step with twice the samples: launches and gaps do not grow

SCENARIOS: Final = (
    UNCHANGED,
    NO_INPUT_WAIT,
    LAUNCHES_FREE,
    NO_SYNCHRONIZATION,
    HALF_PRECISION,
    ALIGNED_SHAPES,
    FUSED_ELEMENTWISE,
    COPIES_PINNED,
    COPIES_OVERLAPPED,
    NO_REPEATED_COPIES,
    NO_READBACKS,
    NO_DEVICE_COPIES,
    COMMUNICATION_OVERLAPPED,
    COLLECTIVES_MERGED,
    HOST_OPERATIONS_ON_DEVICE,
    NO_ALLOCATOR_CALLS,
    NO_COMPILATION,
    NO_LOSS_SCALING,
    NO_CALLBACKS,
    NO_WRITES,
    SINGLE_PRECISION,
    NO_WORK_BETWEEN_STEPS,
    LARGER_BATCH,
)
