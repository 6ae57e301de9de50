"""How a script that trains with JAX writes changes. It has no loader of its own: of those that feed it torch's is recorded."""

from __future__ import annotations

from typing import Final

from slowstep.frameworks._remedies import OF_LOADER, Remedy
from slowstep.frameworks._words import Code, Named, Words
from slowstep.frameworks.torch.outside.words import WORDS as TORCH

_PACKAGE = r"[/\\](site|dist)-packages[/\\](jax|jaxlib|flax|optax|equinox|haiku|chex)[/\\]"

# Of optax a stack shows nothing where it is compiled.
_OPERATIONS = r"[/\\](site|dist)-packages[/\\](optax[/\\]|jax[/\\]_src[/\\](image|lax|nn|numpy|ops|random\.py|scipy)([/\\]|$))"

_FIXES: Final[dict[Remedy, str]] = {
    Remedy.BATCH_SIZE: "larger batches",
    Remedy.COMPILE: "jax.jit around the whole step",
    Remedy.GRAPHS: "jax.jit around the whole step",
    Remedy.FLOAT32: "leave jax_enable_x64 off: arrays are float32 then",
    Remedy.BFLOAT16: "jnp.bfloat16 for the inputs and a copy of the parameters in the loss function (flax: dtype=jnp.bfloat16)",
    Remedy.FLOAT16: "jnp.float16 for the inputs and a copy of the parameters in the loss function (flax: dtype=jnp.float16)",
    Remedy.TF32: "jax.config.update('jax_default_matmul_precision', 'tensorfloat32')",
    Remedy.ACCUMULATE: "optax.MultiSteps",
    Remedy.FUSE_ELEMENTWISE: "put what runs step by step into one jax.jit",
    Remedy.FUSED_VARIANTS: "optax updates inside the jitted step",
    Remedy.STEP_AS_GRAPH: "run several steps in one jax.lax.scan",
    Remedy.FUSE_STEP: "put the whole step, optimizer included, into one jax.jit, so that its kernels are fused",
    Remedy.STEP_IN_ONE_CALL: "put the whole step, gradients and update, into one jax.jit",
    Remedy.OVERLAP_COLLECTIVES: "XLA_FLAGS=--xla_gpu_enable_latency_hiding_scheduler=true",
    Remedy.SMALLER_COLLECTIVES: "send gradients in bfloat16: cast them before psum",
    Remedy.MERGE_GRADIENTS: "XLA_FLAGS=--xla_gpu_all_reduce_combine_threshold_bytes=134217728",
    Remedy.MERGE_COLLECTIVES: "psum over a whole pytree in one call; metrics once in many steps",
    Remedy.SAME_SHAPES: "the same shapes in every step (padded lengths); few values for static_argnums; jax_log_compiles says why",
    Remedy.DECLARE_SHAPES: "compile before the loop, jax.jit(step).lower(...).compile(), and keep it: "
    "jax.config.update('jax_compilation_cache_dir', ...)",
    Remedy.SAME_TYPES: "the same type of {argument} in every call (jnp.asarray(..., dtype)): that of a Python number is another one",
    Remedy.VALUE_AS_ARRAY: "pass {argument} as an array, not by static_argnums or static_argnames: for each other value the function is "
    "compiled again",
    Remedy.FUNCTION_ONCE: "call jax.jit once, before the loop: each new function, a lambda or partial too, is compiled again ({argument})",
    Remedy.PINNED_BATCHES: "jax.device_put the next batch while this step runs: it stages copies without keeping the step",
    Remedy.PINNED_BUFFER: "keep arrays that do not change on the device, and pass them as arguments",
    Remedy.COPY_NEXT_BATCH: "call jax.device_put for the next batch before this step's result is waited for",
    Remedy.COPY_NARROW: "copy pictures as uint8 and widen them inside jax.jit",
    Remedy.COPY_NEXT_LAYER: "call jax.device_put for the next layer's parameters before this one's result is waited for",
    Remedy.COPY_ONCE: "jax.device_put it once before the loop, and pass it to the step as an argument",
    Remedy.MADE_ON_DEVICE: "make it inside jax.jit: jnp.arange, jnp.zeros_like",
    Remedy.SMALLER_READBACK: "reduce inside jax.jit and return the result; jax.device_get of whole arrays every k steps only",
    Remedy.READBACK_ASIDE: "call x.copy_to_host_async() and read it a step later",
    Remedy.READ_SELDOM: "keep results as device arrays and call float() or jax.device_get once in {every} steps",
    Remedy.READ_LATER: "call copy_to_host_async() and read the value a step later",
    Remedy.SIZES_AHEAD: "compute sizes and lengths that a step needs on the host, with the batch",
    Remedy.NO_SYNC: "take block_until_ready() and np.asarray() out of the step; look at results a step later",
    Remedy.KNOWN_SIZES: "keep branches on the device: jax.lax.cond in place of if",
    Remedy.LAUNCH_FIRST: "run {every} steps inside one jax.jit with jax.lax.scan, or look at a step's results one step later",
    Remedy.ALIGNED_CHANNELS: "channels in multiples of 8, in the layout NHWC",
    Remedy.CONVOLUTION_LAYOUT: "the layout NHWC",
    Remedy.FASTER_CONVOLUTION: "the layout NHWC, and XLA's autotuning (--xla_gpu_autotune_level=4)",
    Remedy.FASTER_ATTENTION: "jax.nn.dot_product_attention(implementation='cudnn'), which does attention in one kernel",
    Remedy.FASTER_OPERATION: "another implementation of it: a fused kernel, jax.lax in place of Python loops",
    Remedy.GROWING_MEMORY: "leave XLA_PYTHON_CLIENT_PREALLOCATE on and XLA_PYTHON_CLIENT_ALLOCATOR unset: one allocation at the start",
    Remedy.STEADY_MEMORY: "donate arguments that are not needed after the step: jax.jit(step, donate_argnums=...)",
    Remedy.NO_EMPTYING: "a smaller batch where memory is full",
    Remedy.ON_DEVICE: "bring {operator} into the jitted step: jnp in place of np",
    Remedy.DATA_ASIDE: "if it prepares data, do it in the input pipeline, a batch ahead",
    Remedy.FEWER_COPIES: "donate arguments that are not needed after the step: jax.jit(step, donate_argnums=...)",
    Remedy.SPARED_COPIES: "look for copies of loop state in lax.scan and while_loop, and make their carry smaller",
    Remedy.BATCHES_ASIDE: "{DEEPER_INPUT}",
    Remedy.DEEPER_INPUT: "make batches in other processes or threads (grain, tf.data, DataLoader) and copy the next one to the device "
    "ahead of time",
}

_RUNS: Final[dict[Remedy, str]] = {
    Remedy.COMPILE_FUNCTION: "jax.jit",
    # Tried with jaxlib 0.10.2: OMP_NUM_THREADS and XLA_FLAGS=--xla_cpu_multi_thread_eigen=false leave XLA's pool as it is.
    Remedy.FEWER_THREADS: "PJRT_NPROC={threads} in the environment (NPROC where jaxlib is older), or start it by taskset -c with so many "
    "cores: XLA computes in a pool of its own, with a thread for each core, to which OMP_NUM_THREADS says nothing",
    Remedy.KEPT_LOSSES: "losses appended as arrays, without float()",
    Remedy.READBACKS: "read-backs (float(), np.asarray())",
    Remedy.KEEP_COMPILED: "keep compiled functions between runs (jax_compilation_cache_dir); compile fewer shapes",
    Remedy.NOT_COMPILED: "record once with JAX_DISABLE_JIT=1 in the environment, which has them timed",
    Remedy.PROFILER: "jax.profiler",
    Remedy.PROFILE_STEPS: 'inside `with jax.profiler.trace("logs"):`',
}

_RECORDING: Final[dict[Remedy, str]] = {
    Remedy.RECORD_DEVICE: "record it with jax.profiler.ProfileOptions().device_tracer_level = 1",
    Remedy.RECORD_HOST: "trace the host too, with host_tracer_level=2",
    Remedy.RECORD_BOTH: "record with host_tracer_level=2 and device_tracer_level=1",
    Remedy.RECORD_OPERATORS: "record with host_tracer_level=2",
    Remedy.RECORD_PLACES: "record with host_tracer_level=2",
    Remedy.RECORD_SHAPES: "look at the shapes by jax.make_jaxpr",
    Remedy.RECORD_SHAPES_AND_FUNCTIONS: "record with python_tracer_level=1",
    Remedy.RECORD_FUNCTIONS: "record with python_tracer_level=1",
    Remedy.RECORD_COMPILING: "record with host_tracer_level=2; jax.config.update('jax_log_compiles', True) prints each",
    Remedy.RECORD_COLLECTIVES: "look for them in the program's HLO (XLA_FLAGS=--xla_dump_to=...)",
    Remedy.RECORD_REQUESTS: 'name the wait: with jax.profiler.TraceAnnotation("get_batch")',
    Remedy.RECORD_LATER: "jax.profiler.start_trace after some 20 steps",
    Remedy.RECORD_STEPS: "jax.profiler.stop_trace after five of them",
    Remedy.MARK_STEPS: "put jax.profiler.StepTraceAnnotation('train', step_num=step) around each step",
    Remedy.NAME_RANGE: 'with jax.profiler.TraceAnnotation("{name}")',
    Remedy.NAME_PRECISION: "name the precision by jax.config.jax_default_matmul_precision",
}
_OWN = _FIXES | _RUNS | _RECORDING

WORDS = Words(
    name="jax",
    title="JAX",
    packages=frozenset({"jax", "jaxlib", "flax", "optax"}),
    unseen="no jitted function was called with the parameters that its call before gave, nor were any updated outside of what is jitted",
    no_losses="they are computed inside of functions that JAX compiles",
    code={Code.TRAINS: _PACKAGE, Code.COMPUTES: _PACKAGE, Code.STEPS: _PACKAGE, Code.SINGLE_OPERATIONS: _OPERATIONS},
    # What waits for the value and copies it is read by all of them.
    names={Named.READS_BACK: r"^ArrayImpl\.(_value|tolist|__(array|bool|complex|float|format|index|int)__)$|^_?device_get$|^_item$"},
    # It warns when it is forked. Started anew each worker imports the script.
    unforked="started by multiprocessing.set_start_method('spawn') under if __name__ == '__main__': JAX has threads, with which "
    "processes that are forked may hang",
    arguments=_OWN,
    lacks=frozenset(Remedy) - (OF_LOADER - {Remedy.PIN_MEMORY}) - _OWN.keys(),
    rests_on=TORCH,
)
