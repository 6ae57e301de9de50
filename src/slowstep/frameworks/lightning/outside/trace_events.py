"""The names of Lightning's profiler actions (`lightning/pytorch/loops`, `strategies`, `core`, 2.6); before 1.6 without `[pl][profile]`."""

from __future__ import annotations

from slowstep.frameworks._events import Event, TraceEvents

TRACE_EVENTS = TraceEvents(
    name="lightning",
    patterns={
        Event.UPDATE: r"\[Strategy\].*optimizer_step",
        Event.STEP: r"^(\[pl\]\[profile\])?(\[\w+\]\w+\.)?"
        r"(run_training_(epoch|batch)|training_step|backward|optimizer_step|batch_to_device|transfer_batch_to_device)$",
        Event.FORWARD: r"^(\[pl\]\[profile\])?\[Strategy\]\w+\.training_step$",
        # As `[Callback]GradientNorm.on_after_backward`.
        Event.CALLBACK: r"\[(Lightning)?Callback\]",
        Event.INPUT_WAIT: r"(?i:(^|[^a-z])(train_)?data_?loader_next([^a-z]|$))",
    },
)
