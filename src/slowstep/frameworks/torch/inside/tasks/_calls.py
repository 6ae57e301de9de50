"""What built-in functions take in the making of samples: reading, waiting for a connection, sleeping, decoding."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from types import CodeType
from typing import Any, Final

from slowstep.record.recorder import now
from slowstep.record.timing.call_times import others_profile

# The first kind with a part of its list in the function's name has it: as in `method 'recv_into' of '_socket.socket' objects`.
_KINDS: Final = (
    ("memory", ("BytesIO", "StringIO")),
    ("sleep", ("time.sleep",)),
    ("network", ("_socket", "_ssl.", "select.")),
    (
        "file",
        ("'_io.", "io.open", *(f"posix.{name}" for name in ("open", "read", "pread", "stat", "fstat", "lseek", "listdir", "scandir"))),
    ),
    ("decode", ("decode", "decompress", "imread", "pickle.load", "scanner", "frombytes")),
)
KINDS: Final = ("network", "file", "sleep", "decode")
MOST_NAMES: Final = 4
_METHOD: Final = re.compile(r"<method '(.+)' of '(.+)' objects>")


def kind_of(function: str) -> str | None:
    """What a built-in function does, by the name that the profiler gives it; None where that tells nothing."""
    found = next((kind for kind, parts in _KINDS if any(part in function for part in parts)), None)
    return found if found in KINDS else None


def short_name(function: str) -> str:
    """`ImagingDecoder.decode` for `<method 'decode' of 'ImagingDecoder' objects>`, `time.sleep` for `<built-in method time.sleep>`."""
    match = _METHOD.fullmatch(function)
    return f"{match[2]}.{match[1]}" if match else function.partition(" at 0x")[0].strip("<>").removeprefix("built-in method ")


# No thread that waits for a core gets one sooner: the kernel gives a core away for milliseconds, and looks no oftener than this.
_LEAST_WAIT_NS: Final = 50_000
# How the cost of a question is measured: the quietest of some trials of some questions each, a few tenths of a millisecond in all.
_TRIALS: Final = 5
_QUESTIONS: Final = 100


class CoreClock:
    """Time without that in which this thread waited for a core, in ns: a profiler's timer, asked at each call and return.

    Asking the kernel takes longer than a short call, so it is asked only where so much time has gone by that there can have been a wait.
    """

    def __init__(self, delay_ns: Callable[[], int]) -> None:
        self._delay_ns = delay_ns
        self._waited_ns, self._last_ns = delay_ns(), now()
        self._told_ns = 0
        self.cost_ns = min(self._cost_ns() for _ in range(_TRIALS))

    def __call__(self) -> int:
        """The time. It never runs backwards."""
        at_ns = now()
        if at_ns - self._last_ns > _LEAST_WAIT_NS:
            self._waited_ns = self._delay_ns()
            at_ns = now()
        self._last_ns = at_ns
        self._told_ns = max(self._told_ns, at_ns - self._waited_ns)
        return self._told_ns

    def _cost_ns(self) -> float:
        """What one question takes: about as much too long does every call look."""
        began_ns = now()
        for _ in range(_QUESTIONS):
            self()
        return (now() - began_ns) / _QUESTIONS


class Segments:
    """Times built-in functions by the part of the work in which they are called: each part has its own profiler, one runs at a time.

    `delay_ns` tells how long this thread has waited for a core so far: such time is in no function's.
    """

    def __init__(self, delay_ns: Callable[[], int] = int) -> None:
        self._clock = CoreClock(delay_ns)
        self._profilers: dict[Any, Any] = {}
        self._inside: list[Any] = []
        self.samples = 0
        self.reason: str | None = None

    @contextmanager
    def inside(self, part: Any) -> Iterator[None]:
        """Count what is called in the block to a part. Where that is impossible nothing is counted, and `reason` says why."""
        self._switch([*self._inside, part])
        try:
            yield
        finally:
            self._switch(self._inside[:-1])

    def _switch(self, to: list[Any]) -> None:
        if self.reason is not None:
            return
        if self._inside:
            self._profilers[self._inside[-1]].disable()
        elif others_profile():
            self.reason = "another profiler is on"
            return
        self._inside = to
        try:
            if to:
                self._profiler(to[-1]).enable()
        except Exception as error:  # another profiler came first: said as the reason
            self.reason = f"{type(error).__name__}: {error}"

    def _profiler(self, part: Any) -> Any:
        if part not in self._profilers:
            from _lsprof import Profiler

            self._profilers[part] = Profiler(self._clock, 1e-9, builtins=True)
        return self._profilers[part]

    def counted(self) -> dict[Any, dict[str, Any]]:
        """For each part the ns of each of KINDS, and `names`: the functions that took most of them."""
        return {part: _kinds(profiler.getstats(), self._clock.cost_ns) for part, profiler in self._profilers.items()}


def _kinds(entries: list[Any], cost_ns: float) -> dict[str, Any]:
    times: dict[str, Any] = dict.fromkeys(KINDS, 0)
    names: list[tuple[int, str, str]] = []
    for entry in entries:
        # Of a function written in C the time of what it calls is that of others.
        kind = None if isinstance(entry.code, CodeType) else kind_of(entry.code)
        if kind is not None:
            ns = max(int(entry.inlinetime * 1e9 - cost_ns * entry.callcount), 0)
            times[kind] += ns
            names.append((ns, kind, short_name(entry.code)))
    names.sort(reverse=True)
    return times | {"names": [[kind, name, ns] for ns, kind, name in names[:MOST_NAMES]]}
