"""How users of TensorFlow write changes; those of Keras' `fit` stand beside where they differ."""

from __future__ import annotations

from typing import Final

from slowstep.frameworks._remedies import Remedy
from slowstep.frameworks._words import Code, Named, Words

# All but tf.data, which feeds trainings of other frameworks too: waiting for its next element is no computing.
_PACKAGE = r"[/\\](site|dist)-packages[/\\]tensorflow[/\\](?!python[/\\]data[/\\])"

_FIXES: Final[dict[Remedy, str]] = {
    Remedy.BATCH_SIZE: "larger batches",
    Remedy.COMPILE: "tf.function(jit_compile=True)",
    Remedy.GRAPHS: "tf.function(jit_compile=True)",
    Remedy.FLOAT32: "tf.keras.backend.set_floatx('float32'), and batches as tf.float32",
    Remedy.BFLOAT16: "tf.keras.mixed_precision.set_global_policy('mixed_bfloat16')",
    Remedy.FLOAT16: "tf.keras.mixed_precision.set_global_policy('mixed_float16')",
    Remedy.TF32: "tf.config.experimental.enable_tensor_float_32_execution(True)",
    Remedy.ACCUMULATE: "accumulate gradients before apply_gradients",
    Remedy.FUSE_ELEMENTWISE: "tf.function(jit_compile=True), or compile(jit_compile=True) in Keras",
    Remedy.FUSED_VARIANTS: "fused variants: tf.keras.layers.BatchNormalization(fused=True), an optimizer with jit_compile=True",
    Remedy.STEP_AS_GRAPH: "put the whole step into one tf.function; compile(steps_per_execution=10)",
    Remedy.FUSE_STEP: "tf.function(jit_compile=True) fuses kernels",
    Remedy.OVERLAP_COLLECTIVES: "tf.distribute with NcclAllReduce(num_packs=...) so that gradients are sent while others are computed",
    Remedy.SMALLER_COLLECTIVES: "send gradients in 16 bit: cast them before they are reduced",
    Remedy.MERGE_GRADIENTS: "tf.distribute.NcclAllReduce(num_packs=1), or HierarchicalCopyAllReduce: gradients are packed",
    Remedy.MERGE_COLLECTIVES: "metrics reduced once in many steps",
    Remedy.SAME_SHAPES: "the same shapes in every step (drop_remainder=True, padded lengths); tensors as arguments, no numbers",
    Remedy.DECLARE_SHAPES: "declare what changes: tf.function(reduce_retracing=True), input_signature with None for sizes that change",
    Remedy.SAME_TYPES: "the same dtype of {argument} in every call: tf.cast before it",
    Remedy.VALUE_AS_ARRAY: "pass {argument} as a tensor (tf.constant, or a tf.Variable that is assigned): for each other Python value the "
    "function is traced again",
    Remedy.FUNCTION_ONCE: "call tf.function once, before the loop: each new function is traced again ({argument})",
    Remedy.PINNED_BATCHES: "feed the model by tf.data with prefetch, not by NumPy arrays in feed_dict or train_on_batch: "
    "its buffers are pinned",
    Remedy.PINNED_BUFFER: "make tensors that do not change once, as tf.constant or tf.Variable on the device",
    Remedy.COPY_NEXT_BATCH: "end the input with tf.data.experimental.prefetch_to_device('/gpu:0')",
    Remedy.COPY_NARROW: "copy pictures as uint8; tf.cast and tf.one_hot on the device, in the model",
    Remedy.COPY_NEXT_LAYER: "copy the next layer's variables while this one computes",
    Remedy.COPY_ONCE: "make it once: tf.constant or tf.Variable outside of the step",
    Remedy.MADE_ON_DEVICE: "make it from tensors that are on the device already: tf.range, tf.zeros_like inside tf.function",
    Remedy.SMALLER_READBACK: "reduce inside tf.function and return the result, not whole outputs; look at outputs every k steps",
    Remedy.READBACK_ASIDE: "let the next step start before .numpy() of the last one's outputs is called",
    Remedy.READ_SELDOM: "keep metrics in tf.keras.metrics and read them once in {every} steps; compile(steps_per_execution=...)",
    Remedy.READ_LATER: "read the last step's value after this one was started",
    Remedy.SIZES_AHEAD: "compute sizes and lengths that a step needs in the input pipeline, on the host",
    Remedy.NO_SYNC: "take .numpy(), tf.print and tf.py_function out of the step; look at results every k steps",
    Remedy.KNOWN_SIZES: "avoid shapes that only the device knows: tf.where with three arguments in place of tf.boolean_mask",
    Remedy.LAUNCH_FIRST: "compile(steps_per_execution={every}), or run {every} steps inside one tf.function; "
    "set TF_GPU_THREAD_MODE=gpu_private",
    Remedy.ALIGNED_CHANNELS: "channels in multiples of 8, data_format='channels_last'",
    Remedy.CONVOLUTION_LAYOUT: "data_format='channels_last'",
    Remedy.FASTER_CONVOLUTION: "data_format='channels_last', and mixed precision",
    Remedy.FASTER_ATTENTION: "keras.layers.MultiHeadAttention(flash_attention=True), which does attention in one kernel",
    Remedy.FASTER_OPERATION: "another implementation of it: tf.function(jit_compile=True)",
    Remedy.GROWING_MEMORY: "TF_GPU_ALLOCATOR=cuda_malloc_async, or no memory growth: one allocation at the start",
    Remedy.STEADY_MEMORY: "the same shapes in every step: drop_remainder=True, padded lengths",
    Remedy.NO_EMPTYING: "a smaller batch where memory is full",
    Remedy.ON_DEVICE: "bring {operator} into the tf.function, on the device; tf.debugging.set_log_device_placement(True) "
    "says what is where",
    Remedy.DATA_ASIDE: "if it prepares data, do it in tf.data, with prefetch",
    Remedy.FEWER_COPIES: "tf.function(jit_compile=True) drops copies between operations; tf.TensorArray in place of tf.concat in a loop",
    Remedy.SPARED_COPIES: "compare with tf.debugging.set_log_device_placement(True) which operations hand over between devices",
    Remedy.WORKERS: "a tf.data pipeline with map(..., num_parallel_calls=tf.data.AUTOTUNE), files read by "
    "interleave(..., num_parallel_calls=tf.data.AUTOTUNE), and prefetch(tf.data.AUTOTUNE) at its end",
    Remedy.PREFETCH: "prefetch(tf.data.AUTOTUNE) at the end of the tf.data pipeline",
    Remedy.PARALLEL_STAGE: "{stage}(..., num_parallel_calls=tf.data.AUTOTUNE)",
    Remedy.PARALLEL_PYTHON: "{stage}(..., num_parallel_calls=tf.data.AUTOTUNE), "
    "which helps as far as {function} waits or lets go of the GIL",
    Remedy.PARALLEL_READING: "read files by interleave(..., num_parallel_calls=tf.data.AUTOTUNE)",
    Remedy.ONE_PASS: "end the tf.data pipeline with repeat() and call fit(..., steps_per_epoch=N), which keeps its iterator then",
    Remedy.STAGE_AHEAD: "end the tf.data pipeline with prefetch(tf.data.AUTOTUNE)",
    Remedy.STAGE_IN_FRAMEWORK: "do what {function} does in operations of TensorFlow: of Python one call runs at a time",
    Remedy.STAGE_OF_BATCHES: "put batch before {stage}, where {function} can do a whole batch at once",
    Remedy.STAGE_STORED: "cache() after {stage}, where it gives the same in each epoch and all of it fits: {size} for each batch",
    Remedy.STAGE_INTERLEAVED: "interleave(..., num_parallel_calls=tf.data.AUTOTUNE) in place of {stage}, which reads one data set after "
    "the other: elements then come in turns",
    Remedy.STAGE_VECTORIZED: "take tf.map_fn out of {function}: operations on the whole tensor, or tf.vectorized_map",
    Remedy.STAGE_OF_WINDOWS: "windows cut by one map out of whole arrays (tf.signal.frame, tf.gather), or batch(n) where they do not "
    "overlap, in place of window(...).flat_map(...), which makes a data set of each",
    Remedy.SHUFFLED_BEFORE: "shuffle before {stage}, where an element is a name, an index or a record: behind it {size} of each element "
    "lie in the buffer, which is filled before the first batch of an epoch",
    Remedy.GENERATED_BATCHES: "have {function} yield whole batches and leave out batch, or do more of it in stages of tf.data: "
    "a generator makes one element at a time",
    Remedy.MAKE_ASIDE: "make the batches in {workers}",
    Remedy.MOVE_ASIDE: "move what {made} into {workers}",
    Remedy.BATCHES_ASIDE: "{DEEPER_INPUT}",
    Remedy.DEEPER_INPUT: "end the tf.data pipeline with .prefetch(tf.data.AUTOTUNE) and give its maps num_parallel_calls=tf.data.AUTOTUNE",
}

_RECORDING: Final[dict[Remedy, str]] = {
    Remedy.RECORD_DEVICE: "record it with tf.profiler.experimental.ProfilerOptions(device_tracer_level=1)",
    Remedy.RECORD_HOST: "trace the host too, with ProfilerOptions(host_tracer_level=2)",
    Remedy.RECORD_BOTH: "record with ProfilerOptions(host_tracer_level=2, device_tracer_level=1)",
    Remedy.RECORD_OPERATORS: "record with ProfilerOptions(host_tracer_level=2)",
    Remedy.RECORD_PLACES: "record with ProfilerOptions(host_tracer_level=2), and tf.debugging.set_log_device_placement(True) "
    "prints the places",
    Remedy.RECORD_SHAPES: "look at the shapes in the model's summary",
    Remedy.RECORD_SHAPES_AND_FUNCTIONS: "record with ProfilerOptions(python_tracer_level=1)",
    Remedy.RECORD_FUNCTIONS: "record with ProfilerOptions(python_tracer_level=1)",
    Remedy.RECORD_COMPILING: "record with ProfilerOptions(host_tracer_level=2)",
    Remedy.RECORD_COLLECTIVES: "XProf's collective view has them on TPU only",
    Remedy.RECORD_REQUESTS: "profile on the host too: ProfilerOptions(host_tracer_level=2)",
    Remedy.RECORD_LATER: "TensorBoard(profile_batch=(50, 60))",
    Remedy.RECORD_STEPS: "TensorBoard(profile_batch=(50, 60))",
    Remedy.MARK_STEPS: "put tf.profiler.experimental.Trace('train', step_num=step, _r=1) around each step",
    Remedy.NAME_RANGE: 'with tf.profiler.experimental.Trace("{name}")',
    Remedy.NAME_PRECISION: "name the precision by tf.keras.mixed_precision.global_policy().name",
}

_RUNS: Final[dict[Remedy, str]] = {
    Remedy.THREADS: "tf.config.threading.set_intra_op_parallelism_threads({threads})",
    Remedy.FEWER_THREADS: "tf.config.threading.set_intra_op_parallelism_threads({threads}) and set_inter_op_parallelism_threads({threads}) "
    "before the first operation: TensorFlow computes in pools of its own, to which OMP_NUM_THREADS says nothing",
    Remedy.LAUNCHING_THREADS: "TF_GPU_THREAD_MODE=gpu_private: what launches kernels then has threads of its own",
    Remedy.INPUT_THREADS: "tf.data.Options() with threading.private_threadpool_size = {threads}, given to dataset.with_options()",
    Remedy.KEPT_LOSSES: "losses appended as tensors, without .numpy()",
    Remedy.READBACKS: "read-backs (.numpy())",
    Remedy.COMPILE_FUNCTION: "tf.function",
    Remedy.STEP_IN_ONE_CALL: "put the whole step, gradients and update, into one tf.function, "
    "without tf.config.run_functions_eagerly(True)",
    Remedy.NOT_COMPILED: "record once with tf.config.run_functions_eagerly(True), which has them timed",
    Remedy.PROFILER: "tf.profiler",
    Remedy.PROFILE_STEPS: 'tf.profiler.experimental.start("logs") before them, .stop() after them',
}

WORDS = Words(
    name="tensorflow",
    title="TensorFlow",
    loader="tf.data.Dataset",
    packages=frozenset({"tensorflow"}),
    unseen="no tf.function was called that computes gradients, or its first call, in which it is compiled, had not ended",
    no_losses="they are computed inside of functions that TensorFlow compiles",
    code={Code.TRAINS: _PACKAGE, Code.COMPUTES: _PACKAGE, Code.STEPS: _PACKAGE},
    # Beneath them all is the last of these, a built-in method.
    names={
        Named.READS_BACK: r"^_EagerTensorBase\.(_?numpy|tolist|__(array|bool|complex|float|format|index|int)__)$"
        r"|'_numpy_internal' of 'tensorflow",
    },
    arguments={**_FIXES, **_RUNS, **_RECORDING},
)
