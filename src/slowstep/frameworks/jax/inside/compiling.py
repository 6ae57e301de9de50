"""What compiling takes while the training runs: at the first call of a function, and again for other shapes. JAX tells of it itself."""

from __future__ import annotations

import sys
from contextlib import suppress
from typing import TYPE_CHECKING, Any, Final

from slowstep.record.hook import Hook
from slowstep.record.patch import Undo, Unfit, find
from slowstep.record.recorder import now
from slowstep.record.steps.named_spans import Label, NamedSpans
from slowstep.stages import COMPILATION

if TYPE_CHECKING:
    from slowstep.record.recorder import Recorder

# Ends of the events' names: what stands before them has changed with versions.
_EVENTS: Final = ("/jaxpr_trace_duration", "/jaxpr_to_mlir_module_duration", "/backend_compile_duration")


def install(recorder: Recorder) -> Undo:
    """Have it told. Raises Unfit where this version of JAX does not tell."""
    monitoring = sys.modules.get("jax.monitoring")
    if monitoring is None:
        raise Unfit("jax.monitoring is not imported with jax")
    register = find(monitoring, "register_event_duration_secs_listener")
    spans = NamedSpans(recorder)

    def compiled(event: str, seconds: float, /, **more: Any) -> None:
        try:
            # A process in which nothing trains gets no files because it compiles; what a framework's predictions do is a part of these.
            if event.endswith(_EVENTS) and recorder.page.recording and recorder.watched and not recorder.local.me.judging:
                name = str(more.get("fun_name") or "a function")
                # Of its last part it says that it was jitted.
                name = name[len("jit(") : -1] if name.startswith("jit(") and name.endswith(")") else name
                spans.write(Label(COMPILATION + name, stage="compute"), now() - int(seconds * 1e9))
        except Exception as error:  # the border: counted, and never raised into the training
            recorder.fault(error)

    register(compiled)

    def undo() -> None:
        unregister = getattr(monitoring, "unregister_event_duration_listener", None) or getattr(
            sys.modules.get("jax._src.monitoring"), "_unregister_event_duration_listener_by_callback", None
        )
        # The script may have cleared the list.
        with suppress(AssertionError, ValueError):
            if unregister is not None:
                unregister(compiled)

    return undo


HOOK = Hook(name="jax_compiling", module="jax", install=install)
