"""What rules advise, whichever framework trains: each framework's words say it as its users write it."""

from __future__ import annotations

from enum import Enum
from typing import Final


class Remedy(Enum):
    """What rules ask to be changed, or to be recorded; each framework has an argument or a phrase of its own for it, or none."""

    WORKERS = "worker processes of the loader"
    PERSISTENT_WORKERS = "whether they outlive an epoch"
    PREFETCH = "batches that each makes ahead"
    ANY_ORDER = "whether batches may come in another order"
    PIN_MEMORY = "batches in pinned memory"
    COPY_AHEAD = "copies to the device that nobody waits for"
    KEEP_LOADER = "one loader for all epochs"
    BATCH_SIZE = "samples in a batch"
    ACCUMULATE = "several batches in an update"
    FUSED = "an optimizer with one pass over its parameters"
    FUSED_ADAMW = "the same of the AdamW that the framework makes by itself"
    COMPILE = "a compiled model"
    GRAPHS = "a compiled model whose kernels are launched together"
    BFLOAT16 = "mixed precision with bfloat16"
    FLOAT16 = "mixed precision with float16"
    TF32 = "products of float32 on Tensor Cores"
    DEVICE = "an accelerator"
    WHOLE_BATCHES = "batches that are taken whole from data in memory"
    VALIDATION_BY_STEPS = "validations by steps, not by epochs"
    VALIDATION_STEPS = "steps between validations"
    VALIDATION_BATCHES = "batches between validations"
    VALIDATION_EPOCHS = "epochs between validations"
    VALIDATION_LENGTH = "batches in a validation"
    VALIDATION_BATCH_SIZE = "samples in a batch of a validation"
    CHECKPOINT_BY_STEPS = "checkpoints by steps, not by epochs"
    CHECKPOINT_STEPS = "steps between checkpoints"
    CHECKPOINT_WEIGHTS = "checkpoints of the weights alone"
    CHECKPOINT_ASIDE = "checkpoints that a background thread writes"
    LOGGING_STEPS = "steps between log entries"
    PROGRESS_BAR = "the progress bar"
    ANOMALY = "anomaly detection"
    DETERMINISM = "deterministic algorithms"
    # What the steps that a profiler traced ask for. Of these what stands here is said to users of a framework that has no phrase for it.
    FUSE_ELEMENTWISE = "compile what runs element by element, so that it is fused"
    FUSED_VARIANTS = "fused variants of layers and of the optimizer"
    STEP_AS_GRAPH = "launch the kernels of a step, or of several, by one call"
    FUSE_STEP = "compile the whole step, so that its kernels are fused"
    OVERLAP_COLLECTIVES = "send gradients while others are computed"
    SMALLER_COLLECTIVES = "send gradients in 16 bit"
    MERGE_GRADIENTS = "send gradients in few large pieces"
    MERGE_COLLECTIVES = "merge collectives of your own; metrics once in many steps"
    SAME_SHAPES = "the same shapes in every step (no shorter last batch, padded lengths)"
    DECLARE_SHAPES = "declare what changes, and compile before the loop"
    PINNED_BATCHES = "copy batches from pinned memory, without waiting"
    PINNED_BUFFER = "copy other tensors from one pinned buffer that is used again, or keep them on the device"
    COPY_NEXT_BATCH = "copy the next batch while this step runs"
    COPY_NARROW = "copy pictures as uint8 and classes as they are; widen them on the device"
    COPY_NEXT_LAYER = "copy the next layer's parameters while this one computes"
    COPY_ONCE = "make it once, on the device, before the loop"
    MADE_ON_DEVICE = "make it on the device"
    SMALLER_READBACK = "reduce on the device and copy the result, or copy every k steps"
    READBACK_ASIDE = "copy it while the next step runs, and read it a step later"
    READ_SELDOM = "keep results on the device and read them once in {every} steps"
    READ_LATER = "read a value a step later"
    SIZES_AHEAD = "compute sizes and lengths that a step needs on the host, with the batch"
    NO_SYNC = "wait for the device nowhere in the step; look at results a step later"
    KNOWN_SIZES = "avoid sizes and branches that only the device knows"
    LAUNCH_FIRST = "launch the next step first, and look at the last step's results while the device works on it"
    ALIGNED_CHANNELS = "channels in multiples of 8, the channel dimension last"
    FASTER_CONVOLUTION = "the channel dimension last, and mixed precision"
    FASTER_ATTENTION = "an attention that is done in one kernel"
    FASTER_OPERATION = "another implementation of it: a fused kernel"
    GROWING_MEMORY = "let the allocator keep its memory and grow it"
    STEADY_MEMORY = "the same shapes in every step, the largest batch first"
    NO_EMPTYING = "free no memory of the device in the loop; a smaller batch where memory is full"
    ON_DEVICE = "bring {operator} to the device"
    DATA_ASIDE = "if it prepares data, do it in the input pipeline, a batch ahead"
    FEWER_COPIES = "write where the result belongs, and copy nothing that is used up"
    SPARED_COPIES = "look for copies of gradients and of a loop's state"
    BATCHES_ASIDE = "make batches in other processes or threads"
    DEEPER_INPUT = "more workers in the input pipeline, and more batches ahead"
    # What a next trace should show.
    RECORD_DEVICE = "record the device"
    RECORD_HOST = "record the host"
    RECORD_BOTH = "record host and device"
    RECORD_OPERATORS = "record the operators"
    RECORD_PLACES = "record operators of host and device"
    RECORD_SHAPES = "record the operators' shapes"
    RECORD_SHAPES_AND_FUNCTIONS = "record the operators' shapes and Python functions"
    RECORD_FUNCTIONS = "record Python functions"
    RECORD_COMPILING = "record what is compiled"
    RECORD_COLLECTIVES = "record the collectives' sizes"
    RECORD_REQUESTS = "record the requests for batches"
    RECORD_LATER = "after some 20 of them"
    RECORD_STEPS = "five are enough"
    MARK_STEPS = "mark the steps"
    NAME_RANGE = 'by a range "{name}"'
    NAME_PRECISION = "look at the precision of the model"


# What of them is the loader's, whichever framework trains.
OF_LOADER: Final = frozenset(
    {
        *(Remedy.WORKERS, Remedy.PERSISTENT_WORKERS, Remedy.PREFETCH, Remedy.ANY_ORDER, Remedy.PIN_MEMORY, Remedy.KEEP_LOADER),
        *(Remedy.BATCH_SIZE, Remedy.WHOLE_BATCHES),
    }
)
