"""Times the calls of a few requests for input that no loader's hook looks into: which function makes what `next()` gives, where this
thread does.

Not of requests that a hooked loader answers, which looks itself, nor of short ones, and never beside somebody's profiler.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from slowstep.record.timing.call_times import PASSED, CallTimes
from slowstep.record.writing.fastpath import TINY_NS

if TYPE_CHECKING:
    from slowstep.record.recorder import Recorder


class RequestCalls:
    """Of all iterators of a process whose requests are recorded as waits."""

    def __init__(self, recorder: Recorder) -> None:
        self._recorder = recorder
        self._calls = CallTimes("request", recorder.note, passed=PASSED)
        recorder.forgetters.append(self._calls.forget)

    def begin(self, at_ns: int, last_ns: int) -> bool:
        """Begin to time calls, where the request before took `last_ns` and it is this one's turn; whether it has. Raises nothing."""
        if last_ns < TINY_NS or not self._recorder.level:
            return False
        try:
            return self._calls.begin(at_ns)
        except Exception as error:  # the border: counted, and never raised into the training
            self._recorder.fault(error)
            return False

    def end(self, at_ns: int, *, keep: bool) -> None:
        """End it; `keep` what was timed of a request that brought a batch of its own. Raises nothing."""
        try:
            self._calls.end(at_ns, keep=keep)
        except Exception as error:  # the border: counted, and never raised into the training
            self._recorder.fault(error)
