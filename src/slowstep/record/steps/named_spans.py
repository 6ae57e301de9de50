"""Writes spans that a framework named: callbacks, loggers, validation, checkpoints.

Where the code of one is the user's own, its file and line go along.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from dataclasses import dataclass
from types import CodeType
from typing import TYPE_CHECKING, Any, Final

from slowstep.record.attributes import code_of, innermost
from slowstep.record.recorder import now
from slowstep.record.timing.tracebacks import hide_own_frames
from slowstep.record.writing.format import FAILED, SPAN
from slowstep.stages import STAGES

if TYPE_CHECKING:
    from slowstep.record.recorder import Recorder

# Most callbacks do nothing: a call of an empty hook takes 1 to 3 us, and thirty of them a step would fill the recording.
SHORTEST_NS: Final = 20_000


@dataclass(frozen=True, slots=True)
class Label:
    """What a span is called, its stage, and where its code begins if that is the user's own; an empty name is not recorded."""

    name: str
    stage: str = "output"
    file: str | None = None
    line: int = 0


NOT_RECORDED: Final = Label("")


class NamedSpans:
    """Writes spans of one hook; each name's place is noted once."""

    def __init__(self, recorder: Recorder) -> None:
        self._recorder = recorder
        self._known: dict[Label, int] = {}
        recorder.forgetters.append(self._known.clear)

    def write(self, label: Label, begin_ns: int, *, failed: bool = False, shortest_ns: int = SHORTEST_NS) -> None:
        """Record a span that ends now, unless it is too short to matter. Never raises."""
        try:
            end_ns = now()
            if not label.name or end_ns - begin_ns < shortest_ns or not self._recorder.live[0]:
                return
            number = self._known.get(label) or self._introduce(label)
            self._recorder.event(SPAN, begin_ns, end_ns, number, STAGES.index(label.stage), 0, FAILED if failed else 0)
        except Exception as error:  # the border: counted, and never raised into the training
            self._recorder.fault(error)

    def _introduce(self, label: Label) -> int:
        recorder = self._recorder
        number = recorder.text_id(label.name)
        if number:
            self._known[label] = number
            if label.file is not None:
                recorder.note({"kind": "place", "text": number, "file": label.file, "line": label.line})
        return number


def place_of(function: Any) -> tuple[str | None, int]:
    """File and first line of the user's own function or method; (None, 0) for what is installed, built in or not known. It asks nothing."""
    code = code_of(innermost(function))
    return (None, 0) if code is None else place_of_code(code)


def place_of_method(owner: Any, name: str) -> tuple[str | None, int]:
    """The same of what an object of the user's has by a name; (None, 0) too where it fails when it is asked."""
    try:
        return place_of(getattr(owner, name, None))
    except Exception:  # whatever the user's own attributes raise
        return None, 0


def place_of_code(code: CodeType) -> tuple[str | None, int]:
    """The same of a function's code."""
    if "-packages" in code.co_filename or code.co_filename.startswith("<"):
        return None, 0
    return code.co_filename, code.co_firstlineno


def timed(recorder: Recorder, original: Any, label: Callable[[Any], Label]) -> Any:
    """`original`, a method, recorded as a span; `label` is asked with its instance, before each call."""
    spans = NamedSpans(recorder)

    @functools.wraps(original)
    def method(self: Any, /, *args: Any, **kwargs: Any) -> Any:
        began_ns, failed = now(), True
        try:
            result = original(self, *args, **kwargs)
            failed = False
            return result
        except BaseException:  # passed on, without our frames in the traceback
            hide_own_frames()
            raise
        finally:
            try:
                spans.write(label(self), began_ns, failed=failed)
            except Exception as error:  # the border: counted, and never raised into the training
                recorder.fault(error)

    return method
