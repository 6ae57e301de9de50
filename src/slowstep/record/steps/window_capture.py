"""A capture of a few steps by a profiler that any thread can end, in the middle of a recording: what runs on a runtime's own threads.

Never beside another one: where the script has a profiler on there is none, and ours ends before one that the script starts later. Whatever
goes wrong, or takes too long, ends the capture and nothing else.
"""

from __future__ import annotations

import atexit
import os
import shutil
import sys
import threading
from collections.abc import Callable
from contextlib import AbstractContextManager
from typing import TYPE_CHECKING, Any, Final, Protocol

from slowstep.record.patch import Undo
from slowstep.record.recorder import now
from slowstep.record.system.place import find_launcher_rank

if TYPE_CHECKING:
    from slowstep.record.recorder import Recorder

# Updates are looked at one by one from so many before the capture on: more than fit between two rounds of bookkeeping.
_NEAR: Final = 1000
# What a profiler notes stays in memory until it is ended: steps that take longer are not captured to the end.
LONGEST_S: Final = 60.0
# So long it may take to end, before the training goes on without what it has noted.
PATIENCE_S: Final = 30.0
STEP: Final = "slowstep"


class Profiler(Protocol):
    """A framework's own profiler; whatever it raises ends the capture alone. `name` is what its users call it."""

    name: str

    def refusal(self) -> str | None:
        """Why it must not be started here; None where it may."""

    def start(self, scratch: str) -> None:
        """Begin to note what is done. Where it can only write files, it may make the folder `scratch`."""

    def guard(self, make_way: Callable[[], None]) -> Undo:
        """Call `make_way`, which raises nothing, before the script begins a profile."""

    def step(self, number: int) -> AbstractContextManager[Any]:
        """What marks a step of this thread, with its number."""

    def stop(self, *, keep: bool) -> bytes:
        """End, on whichever thread: all that was noted, as an XPlane file has it, where that is wanted."""


class WindowCapture:
    """Profiles the updates that a recorder wants captured, once, in the process of rank 0."""

    def __init__(self, recorder: Recorder, profiler: Profiler, first: int, last: int) -> None:
        self._recorder, self._profiler, self._first, self._last = recorder, profiler, first, last
        self._on = self._over = self._asked = False
        self._guard: Undo = _nothing
        self._mark: AbstractContextManager[Any] | None = None
        self._timer: threading.Timer | None = None
        self._lock, self._ended = threading.Lock(), threading.Event()
        self._thread = self._begin_ns = self._begun_after = self._done = 0
        recorder.forgetters.append(self._forget)
        recorder.undos.append(self.abandon)

    def _forget(self) -> None:
        # A forked child: the profiler is its parent's, and so are the locks.
        self._on, self._over, self._mark = False, True, None
        self._lock, self._ended = threading.Lock(), threading.Event()
        self._guard()
        self._guard = _nothing

    def ask(self) -> None:
        """Note once that a capture is wanted: the last word of a recording that ends before it."""
        if not (self._asked or self._over):
            self._asked = True
            self._note("asked", reason=f"the training ended before step {self._first}: choose earlier ones, --capture=FIRST-LAST")

    def near(self, updates: int) -> bool:
        """Whether every update must be told from now on."""
        return not self._over and updates + _NEAR >= self._first

    def updated(self, updates: int) -> None:
        """So many updates have ended, the last of them just now, on this thread. Raises nothing."""
        if self._mark is not None and self._thread == threading.get_ident():
            self._close_mark()
        if self._over or (not self._on and updates < self._first - 1):
            return
        try:
            if not self._on:
                self._begin(updates)
            elif self._thread != threading.get_ident():
                return
            elif updates >= self._last:
                self._finish(updates)
            else:
                self._done = updates
                self._open_mark(updates + 1)
        except Exception as error:  # the profiler is not ours: whatever it raises ends the capture alone
            self._give_up(f"{type(error).__name__}: {error}")

    def abandon(self) -> None:
        """End the capture and keep nothing of it, for the recording has ended; a no-op where none is on. Raises nothing."""
        first = self._begun_after + 1
        done = self._done + 1 - first
        self._give_up(f"the recording ended within it, when {done} of its steps {first} to {self._last} were done", only_if_on=True)

    def _begin(self, updates: int) -> None:
        reason = _refusal(self._profiler)
        if reason is not None:
            self._over = True
            self._note("refused", reason=reason)
            return
        self._begin_ns, self._begun_after, self._done, self._thread = now(), updates, updates, threading.get_ident()
        self._profiler.start(self._scratch())
        self._on = True
        self._guard = self._profiler.guard(self._make_way)
        atexit.register(self.abandon)
        self._timer = threading.Timer(LONGEST_S, self._took_too_long)
        self._timer.daemon = True
        self._timer.start()
        self._open_mark(updates + 1)

    def _make_way(self) -> None:
        self._give_up("the script started a profiler of its own", only_if_on=True)
        # Another thread may be ending ours just now.
        self._ended.wait(PATIENCE_S)

    def _took_too_long(self) -> None:
        self._give_up(f"its steps took more than {LONGEST_S:g} s: choose fewer, --capture=FIRST-LAST", only_if_on=True)

    def _finish(self, updates: int) -> None:
        if not self._take():
            return
        name = f"capture-{os.getpid()}.xplane.pb"
        noted, reason = self._stop(keep=True)
        stopped_ns = now()
        if noted is None:
            self._note("failed", reason=reason)
            return
        _write(os.path.join(self._recorder.folder, name), noted)
        self._note("taken", file=name, first=self._begun_after + 1, last=updates, stopped_ns=stopped_ns)

    def _give_up(self, reason: str, *, only_if_on: bool = False) -> None:
        try:
            was_on = self._take()
            if was_on:
                _, wrong = self._stop(keep=False)
                reason = f"{reason}; it could not be ended ({wrong})" if wrong else reason
            elif only_if_on:
                return
            self._note("failed", reason=reason)
        except Exception as error:  # the border: counted, and never raised into the training
            self._recorder.fault(error)

    def _take(self) -> bool:
        """Whether the profiler was on, and is the caller's to end."""
        with self._lock:
            was_on, self._on, self._over = self._on, False, True
        if was_on:
            atexit.unregister(self.abandon)
            if self._timer is not None:
                self._timer.cancel()
        return was_on

    def _scratch(self) -> str:
        return os.path.join(self._recorder.folder, f"capture-{os.getpid()}")

    def _stop(self, *, keep: bool) -> tuple[bytes | None, str | None]:
        """What was noted, or why nothing is to be had. Our guard is taken away once no profiler of ours is on any more."""
        found: list[bytes] = []
        wrong: list[str] = [f"it did not end within {PATIENCE_S:g} s"]

        def stop() -> None:
            try:
                found.append(self._profiler.stop(keep=keep))
            except Exception as error:  # the profiler is not ours
                wrong.append(f"{type(error).__name__}: {error}")
            shutil.rmtree(self._scratch(), ignore_errors=True)

        ending = threading.Thread(target=stop, name="slowstep capture", daemon=True)
        try:
            ending.start()
        except RuntimeError:
            # No thread may be started any more: the interpreter is ending.
            stop()
        else:
            ending.join(PATIENCE_S)
        self._guard()
        self._guard = _nothing
        self._ended.set()
        return (found[0], None) if found else (None, wrong[-1])

    def _open_mark(self, number: int) -> None:
        mark = self._profiler.step(number)
        mark.__enter__()
        self._mark = mark

    def _close_mark(self) -> None:
        try:
            mark, self._mark = self._mark, None
            if mark is not None:
                mark.__exit__(None, None, None)
        except Exception as error:  # the profiler is not ours: whatever it raises ends the capture alone
            self._give_up(f"{type(error).__name__}: {error}")

    def _note(self, state: str, **more: Any) -> None:
        end_ns = now()
        of = {"state": state, "profiler": self._profiler.name}
        self._recorder.note({"kind": "capture", **of, "begin_ns": self._begin_ns or end_ns, "end_ns": end_ns, **more})


def _refusal(profiler: Profiler) -> str | None:
    place = find_launcher_rank(os.environ)
    if place is not None and place.rank != 0:
        return "only rank 0 is captured"
    if sys.getprofile() is not None:
        return "a profiler of Python is on already"
    return profiler.refusal()


def _write(path: str, noted: bytes) -> None:
    """All of it or nothing. Raises OSError."""
    try:
        with open(path, "wb") as file:
            file.write(noted)
    except OSError:
        if os.path.exists(path):
            os.unlink(path)
        raise


def beside_accelerator(profiler: str, device: str) -> str:
    """Why a profiler is not started beside an accelerator, where to end it may end the process."""
    return f"on {device} ending {profiler} has ended trainings: take a trace with it yourself, and give it to slowstep analyze"


def _nothing() -> None:
    pass


def window_capture(recorder: Recorder, profiler: Callable[[], Profiler]) -> WindowCapture | None:
    """The capture that a recorder wants; None where it wants none."""
    return WindowCapture(recorder, profiler(), *recorder.capture) if recorder.capture else None
