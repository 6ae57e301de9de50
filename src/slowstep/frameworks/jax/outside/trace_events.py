"""The names that events of JAX have in traces of its profiler."""

from __future__ import annotations

from slowstep.frameworks._events import Event, TraceEvents

TRACE_EVENTS = TraceEvents(
    name="jax",
    patterns={
        # Transposes of differentiation, in the names of operations.
        Event.TRAINS: r"transpose\(jvp",
        # jax/_src/compiler.py.
        Event.COMPILATION: r"^backend_compile(_and_load)?$",
        # XLA (loop_add_fusion, wrapped_add).
        Event.FUSED: r"(?i:fusion|^wrapped_)",
        Event.COMPILATION_FUNCTION: r"(^\$|jax/_src/)compiler\.py\S* backend_compile(_and_load)?$",
    },
)
