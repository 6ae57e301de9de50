"""What tracing takes while the training runs: at the first call of a tf.function, and again for other shapes and for other values."""

from __future__ import annotations

import functools
import sys
import threading
from typing import TYPE_CHECKING, Any, Final

from slowstep.frameworks.tensorflow.inside._framework import FRAMEWORK
from slowstep.frameworks.tensorflow.inside._retraced import arguments_of, type_of_trace
from slowstep.frameworks.tensorflow.inside.functions import TracedFunctions
from slowstep.record.attributes import code_of, innermost
from slowstep.record.hook import Hook
from slowstep.record.patch import Undo, find, replace
from slowstep.record.recorder import now
from slowstep.record.steps.named_spans import Label, NamedSpans, place_of, place_of_code
from slowstep.record.steps.retraces import Retraces
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
    retraces = Retraces(recorder, FRAMEWORK.name)

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
                _note(recorder, retraces, functions.called_just_now, (*args, *kwargs.values()))
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


def _note(recorder: Recorder, retraces: Retraces, called: Any, given: tuple[Any, ...]) -> None:
    """What changed where a function is traced again: the tf.function that is called just now, unless another is traced for it."""
    try:
        options, kind = _options(given), type_of_trace(given)
        if options is None or kind is None:
            return
        traced = innermost(options.python_function)
        function = called if called is not None and innermost(called.python_function) is traced else traced
        code = code_of(traced)
        if code is None and function is traced:
            return
        own = code if code is not None and place_of_code(code)[0] is not None else None
        retraces.traced(function, str(options.name), own, lambda: arguments_of(kind))
    except Exception as error:  # the border: counted, and never raised into the training
        recorder.fault(error)


def _label(given: tuple[Any, ...]) -> Label:
    """The name of the function, which the options of a trace have, and where it begins."""
    options = _options(given)
    if options is None:
        return Label(COMPILATION + "a function", stage="compute")
    return Label(COMPILATION + str(options.name), "compute", *place_of(options.python_function))


def _options(given: tuple[Any, ...]) -> Any:
    """Those of a trace, which have the function and its name; None where none are given."""
    return next((each for each in given if getattr(each, "name", None) and hasattr(each, "python_function")), None)


HOOK = Hook(name="tensorflow_tracing", module="tensorflow", install=install)
