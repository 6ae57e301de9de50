"""What tracing takes while the training runs: at the first call of a tf.function, and again for other shapes and for other values."""

from __future__ import annotations

import functools
import sys
import threading
from typing import TYPE_CHECKING, Any, Final

from slowstep.frameworks.tensorflow.inside.functions import TracedFunctions
from slowstep.record.hook import Hook
from slowstep.record.patch import Undo, find, replace
from slowstep.record.recorder import now
from slowstep.record.steps.named_spans import Label, NamedSpans, place_of
from slowstep.record.timing.tracebacks import hide_own_frames
from slowstep.stages import COMPILATION

if TYPE_CHECKING:
    from slowstep.record.recorder import Recorder

_MODULE: Final = "tensorflow.python.eager.polymorphic_function.tracing_compilation"
_TRACE: Final = "_create_concrete_function"


class Depth(threading.local):
    """How many functions this thread traces just now, one within the other."""

    value = 0


def install(recorder: Recorder) -> Undo:
    """Replace what traces. Raises Unfit where this version has another."""
    module = sys.modules.get(_MODULE)
    original = find(module, _TRACE)
    spans, functions, depth = NamedSpans(recorder), recorder.shared(TracedFunctions), Depth()

    @functools.wraps(original)
    def trace(*args: Any, **kwargs: Any) -> Any:
        began_ns, failed = now(), True
        depth.value += 1
        try:
            result = original(*args, **kwargs)
            failed = False
            # What is traced within it is a part of it.
            if depth.value == 1:
                functions.traced(result)
            return result
        except BaseException:  # passed on, without our frames in the traceback
            hide_own_frames()
            raise
        finally:
            depth.value -= 1
            # A process in which nothing trains gets no files because it traces, as to read its data. What predictions and validation trace,
            # each time anew for their input, is a part of these.
            if recorder.watched and not recorder.local.me.judging:
                _write(recorder, spans, (*args, *kwargs.values()), began_ns, failed=failed)

    return replace(module, _TRACE, trace)


def _write(recorder: Recorder, spans: NamedSpans, given: tuple[Any, ...], began_ns: int, *, failed: bool) -> None:
    try:
        spans.write(_label(given), began_ns, failed=failed)
    except Exception as error:  # the border: counted, and never raised into the training
        recorder.fault(error)


def _label(given: tuple[Any, ...]) -> Label:
    """The name of the function, which the options of a trace have, and where it begins."""
    for each in given:
        name = getattr(each, "name", None)
        if name and hasattr(each, "python_function"):
            return Label(COMPILATION + str(name), "compute", *place_of(each.python_function))
    return Label(COMPILATION + "a function", stage="compute")


HOOK = Hook(name="tensorflow_tracing", module="tensorflow", install=install)
