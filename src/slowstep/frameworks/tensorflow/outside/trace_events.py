"""The names that events of TensorFlow have in traces of its profiler."""

from __future__ import annotations

from slowstep.frameworks._events import Event, TraceEvents

TRACE_EVENTS = TraceEvents(
    name="tensorflow",
    patterns={
        # Gradient functions, kernels of gradients and training operators
        # (`StatefulPartitionedCall/gradient_tape/model/dense/MatMul:MatMul`, `...:ReluGrad` in the trace of Keras' fit in
        # tests/data/xplane). `Conv2DBackpropInput` alone is none: the forward of Conv2DTranspose is computed with it.
        Event.TRAINS: r"(^|/)gradient_tape/|(^|/)gradients?/|:\w+(Grad|BackpropFilter)(V\d)?$"
        r"|^(Resource)?(Sparse)?Apply(Adam|Gradient|Momentum|Adagrad|RMS|Ftrl)",
        # tf.data (`Iterator::Prefetch`, `IteratorGetNext`).
        Event.INPUT_WAIT: r"^Iterator(GetNext|::)|^EagerIterator",
        # The executor takes the next element on a thread of its own, in the name of the step that waits for it.
        Event.INPUT_ELSEWHERE: r"^IteratorGetNext",
        # Calls of its runtime, and the conversion of what they are given.
        Event.RUNTIME: r"^(TFE_\w+|Eager\w+(: .*)?|KernelAndDeviceFunc::Run|FunctionRun|ValidateInputTypeAndPlacement|convert_to_tensor)$",
        Event.COMPILATION: r"^Xla(Compile|Compiler::Compile)",
        # XLA, and grappler.
        Event.FUSED: r"(?i:fusion|fused|^wrapped_)",
        # The tracing of a tf.function.
        Event.COMPILATION_FUNCTION: r"tracing_compilation\.py\S* _create_concrete_function$",
    },
)
