"""What rules advise, whichever framework trains: each framework's words say it as its users write it."""

from __future__ import annotations

from enum import Enum
from typing import Final


class Remedy(Enum):
    """What rules ask to be changed, or to be recorded; each framework has an argument or a phrase of its own for it, or none.

    The value is what is said to users of a framework that has none.
    """

    WORKERS = "give the loader more worker processes"
    PERSISTENT_WORKERS = "keep the loader's workers from epoch to epoch"
    PREFETCH = "let the loader make more batches ahead"
    DIVIDE_STREAM = "have each worker give its part of {stream}"
    ANY_ORDER = "take batches in the order in which they are ready"
    PIN_MEMORY = "have batches made in pinned memory"
    COPY_AHEAD = "copy to the device without waiting"
    KEEP_LOADER = "keep one loader for all epochs"
    ONE_PASS = "make epochs longer, so that fewer passes over the input are begun"
    BATCH_SIZE = "take larger batches"
    PAD_TO_LONGEST = "pad each batch up to its longest sequence only"
    BUCKET = "put sequences of like length into one batch, and pad it up to its longest"
    ACCUMULATE = "accumulate the gradients of several batches"
    SHARE_ONCE = "share gradients in the last backward pass of a step only"
    FUSED = "use an optimizer with one pass over its parameters"
    FUSED_ADAMW = "use an AdamW with one pass over its parameters"
    FUSED_OPTIMIZER = "an optimizer with one pass over its parameters"
    SPARSE_GRADIENT = "have the tables' gradients hold the touched rows alone"
    SPARSE_UPDATE = "an optimizer for the tables that updates those rows alone"
    SPARSE_PLAIN = "{kind} without momentum and decay of weights for the tables"
    COMPILE = "compile the model"
    GRAPHS = "compile the model so that its kernels are launched together"
    BFLOAT16 = "use mixed precision with bfloat16"
    FLOAT16 = "use mixed precision with float16"
    NO_NARROW = "compute in float32 on this processor"
    NATIVE_NARROW = "mixed precision with bfloat16, for which this processor has instructions"
    FLOAT32 = "make the model and its batches in float32"
    TF32 = "let products of float32 run on Tensor Cores"
    DEVICE = "put the model and its batches on the accelerator"
    WHOLE_BATCHES = "take whole batches from data in memory"
    VALIDATION_BY_STEPS = "validate by steps, not by epochs"
    VALIDATION_STEPS = "validate after more steps"
    VALIDATION_BATCHES = "validate after more batches"
    VALIDATION_EPOCHS = "validate after more epochs"
    VALIDATION_LENGTH = "validate on fewer batches"
    VALIDATION_BATCH_SIZE = "validate with larger batches"
    CHECKPOINT_BY_STEPS = "write checkpoints by steps, not by epochs"
    CHECKPOINT_STEPS = "write a checkpoint after more steps"
    CHECKPOINT_WEIGHTS = "write checkpoints of the weights alone"
    CHECKPOINT_ASIDE = "write checkpoints from a background thread"
    MAKE_ASIDE = "make the batches in a background thread or process"
    MOVE_ASIDE = "move what {made} into a background thread or process"
    LOGGING_STEPS = "log after more steps"
    PROGRESS_BAR = "leave out the progress bar"
    PREDICTED_DIRECTLY = "call the model itself for the batch that is predicted"
    FAST_KERNELS = "let the framework use its fast kernels for processors"
    ANOMALY = "turn off the detection of anomalies"
    DETERMINISM = "allow algorithms that are not deterministic"
    NO_GRADIENTS = "compute no gradients in a validation"
    NO_GRAPH = "ask {network} for no gradients"
    FREEZE = "have {network} pass gradients on, and make none of its own"
    PACKED_BATCH = "pack the batch into one array per type"
    COLLATED_TENSORS = "hand over batches in shared memory"
    ONLY_STACK = "only stack arrays"
    SMALLER_STATE = "keep what can be made again out of the data set's state"
    SNAPSHOT_SELDOM = "have workers send their state more seldom"
    HAND_OVER = "hand over batches so that they need no help of their worker"
    THREAD_PER_WORKER = "cv2.setNumThreads(0) where it begins"
    INDICES_AT_ONCE = "numpy.random.choice with size="
    WEIGHTED_INDICES = "draw them all at the start where the weights are fixed"
    THREADS = "{threads} threads by the framework's own setting"
    FEWER_THREADS = "OMP_NUM_THREADS={threads}"
    LAUNCHING_THREADS = "keep threads for launching work on the device apart from those that compute on the host"
    INPUT_THREADS = "give the input pipeline no more than {threads} threads of its own"
    FLUSH_DENORMALS = "have the processor take nearly zero numbers for zero"
    AVERAGE_AT_ONCE = "one operation on all of them"
    AVERAGED_BY_FRAMEWORK = "an operation that takes them all"
    STEP_IN_ONE_CALL = "compile the whole step, so that Python calls it once"
    STEPS_TOGETHER = "train on {value} batches in one call"
    NO_EAGER = "let the framework compile its step"
    COMPILE_FUNCTION = "a compiler"
    CONVOLUTION_LAYOUT = "the channel dimension last"
    KEPT_LOSSES = "losses kept on the device in place of their numbers"
    KEPT_GRAPHS = "keep of earlier steps (a loss, a state) the values alone"
    READBACKS = "read-backs of results"
    LOG_SELDOM = "log once in {every} steps, or fewer metrics"
    LOG_BY_EPOCH = "keep values in one array, and log what is made of it at the end of an epoch"
    METRICS_AT_END = "gather predictions and let one vectorised call judge them at the end"
    KEEP_COMPILED = "keep the compiler's cache between runs; compile fewer shapes"
    NOT_COMPILED = "record once without compiling, which has them timed"
    NAMED_UPDATE = "make the update a function"
    BUILT_FOR_DEVICE = "install the framework in a build for it: this one has no support for accelerators"
    TOLD_BY_HAND = "Mark the steps by slowstep.steps()."
    PROFILE_STEPS = "with its profiler, into a folder logs"
    PROFILER = "a profiler"
    PROFILE_FEW = "profile a few steps only"
    EXCHANGE_AHEAD = (
        "exchange the next batch's embeddings or experts' tokens while this batch is computed (a prefetching pipeline), "
        "or cut them into pieces that overlap with the dense layers"
    )
    MORE_MICRO_BATCHES = "more micro-batches a step, or an interleaved schedule: the pipeline's stages then wait less for each other"
    # What the steps that a profiler traced ask for.
    SCALED_UPDATE = "a fused optimizer that takes the scaler's answer"
    UNSCALED = "bfloat16, and no loss scaling"
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
    SAME_TYPES = "the same type of {argument} in every call"
    VALUE_AS_ARRAY = "pass {argument} as an array: a Python value is a part of what is compiled"
    SAME_OBJECT = "the same object as {argument} in every call, or its arrays alone"
    SAME_STRUCTURE = "the same parts in {argument} in every call"
    FUNCTION_ONCE = "make {argument}, and compile it, once, before the loop"
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
    LAUNCH_FIRST = "launch the next step before the last one's results are looked at"
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
    # Of a pipeline of stages that a framework runs.
    PARALLEL_STAGE = "make several of the calls of {stage} at once"
    PARALLEL_PYTHON = "make several of the calls of {stage} at once, which helps as far as {function} waits or lets go of the GIL"
    PARALLEL_READING = "read several files at once"
    STAGE_AHEAD = "make batches ahead of the training, at the end of the pipeline"
    STAGE_IN_FRAMEWORK = "do what {function} does without Python, which runs one call of it at a time"
    STAGE_OF_BATCHES = "make batches before {stage}, where {function} can do all of one at once"
    STAGE_INTERLEAVED = "read several of the data sets of {stage} at once"
    STAGE_VECTORIZED = "do what {function} does for one part after the other on all of them at once"
    STAGE_OF_WINDOWS = "cut windows out of whole batches"
    SHUFFLED_BEFORE = "shuffle before {stage}, names or indices: a buffer of {size} for each element lies behind it"
    STAGE_STORED = "store what {stage} gives, where it is the same in each epoch and all of it fits: {size} for each batch"
    GENERATED_BATCHES = "have {function} yield whole batches, or make less in it: it makes one element at a time"
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
    RECORD_SIZES = "nsys profile --trace=cuda records it"
    RECORD_PINNED = "nsys profile --trace=cuda records it on NVIDIA devices"
    RECORD_REQUESTS = "record the requests for batches"
    RECORD_LATER = "after some 20 of them"
    RECORD_STEPS = "five are enough"
    RECORD_LESS = "record it again, without shapes and functions"
    MARK_STEPS = "mark the steps"
    NAME_RANGE = 'by a range "{name}"'
    NAME_PRECISION = "look at the precision of the model"


# What of them is the loader's, whichever framework trains.
OF_LOADER: Final = frozenset(
    {
        *(
            Remedy.WORKERS,
            Remedy.PERSISTENT_WORKERS,
            Remedy.DIVIDE_STREAM,
            Remedy.PREFETCH,
            Remedy.ANY_ORDER,
            Remedy.PIN_MEMORY,
            Remedy.KEEP_LOADER,
            Remedy.ONE_PASS,
        ),
        *(Remedy.BATCH_SIZE, Remedy.WHOLE_BATCHES),
        *(Remedy.PARALLEL_STAGE, Remedy.PARALLEL_PYTHON, Remedy.PARALLEL_READING, Remedy.STAGE_AHEAD, Remedy.STAGE_IN_FRAMEWORK),
        *(Remedy.STAGE_OF_BATCHES, Remedy.STAGE_STORED, Remedy.GENERATED_BATCHES, Remedy.DEEPER_INPUT),
        *(Remedy.STAGE_INTERLEAVED, Remedy.STAGE_VECTORIZED, Remedy.STAGE_OF_WINDOWS, Remedy.SHUFFLED_BEFORE),
        *(Remedy.PACKED_BATCH, Remedy.COLLATED_TENSORS, Remedy.ONLY_STACK, Remedy.HAND_OVER, Remedy.SNAPSHOT_SELDOM),
        *(Remedy.SMALLER_STATE, Remedy.INPUT_THREADS),
        *(Remedy.THREAD_PER_WORKER, Remedy.INDICES_AT_ONCE, Remedy.WEIGHTED_INDICES),
    }
)
