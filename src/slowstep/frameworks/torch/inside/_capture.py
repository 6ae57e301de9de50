"""A capture of a few steps by torch.profiler in the middle of a recording: what runs inside operators and on devices.

Only where nobody else profiles: a second profiler inside the script's own empties the script's trace (measured). Everything is done by the
thread that updates, between the end of one update and the next; whatever goes wrong ends the capture and nothing else.
"""

from __future__ import annotations

import atexit
import functools
import os
import sys
import threading
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, Final

from slowstep.frameworks.torch.inside._answers.script_profilers import ScriptProfilers
from slowstep.record.patch import Undo, all_of, replace
from slowstep.record.recorder import now
from slowstep.record.system.place import find_launcher_rank

if TYPE_CHECKING:
    from collections.abc import Iterator

    from slowstep.record.recorder import Recorder

# Updates are looked at one by one from so many before the capture on: more than fit between two rounds of bookkeeping.
_NEAR: Final = 1000
# Modules of the user's that are looked at for a profiler.
_MOST_MODULES: Final = 500
# So long a thread of the script's that starts a profiler waits for the training thread to end ours: a step, as a rule.
PATIENCE_S: Final = 10.0
# Kineto's own variable, and the first level at which torch 2.13 writes nothing (tried: 5 writes, 6 does not).
_LOG_LEVEL: Final = "KINETO_LOG_LEVEL"
_SILENT: Final = "6"
_PROFILERS: Final = ("torch.profiler", "torch.autograd.profiler", "cProfile", "profile", "line_profiler", "pyinstrument", "viztracer")


class UpdateProfiler:
    """Profiles the updates `first` to `last` (counted from 1, both included), once, in the process of rank 0."""

    def __init__(self, recorder: Recorder, first: int, last: int) -> None:
        self._recorder, self._first, self._last = recorder, first, last
        self._profiler: Any = None
        self._guards: Undo | None = None
        self._over = False
        self._unwanted: str | None = None
        self._lock, self._stopped = threading.Lock(), threading.Event()
        self._left_on: Any = None
        self._thread = self._begin_ns = self._begun_after = self._done = 0
        self._scripts = ScriptProfilers(sys.modules["torch"], recorder.fault)
        self.unwatch = self._scripts.undo
        recorder.forgetters.append(self._forget)

    def _forget(self) -> None:
        # A forked child: the profiler is its parent's.
        self._over, self._profiler = True, None

    def ask(self) -> None:
        """Note that a capture is wanted: the last word of a recording that ends before it."""
        self._note("asked", reason=f"the training ended before step {self._first}: choose earlier ones, --capture=FIRST-LAST")

    def near(self, updates: int) -> bool:
        """Whether every update must be told from now on."""
        return not self._over and updates + _NEAR >= self._first

    def updated(self, updates: int) -> None:
        """So many updates have ended, the last of them just now, on this thread. Raises nothing."""
        if self._over or (self._profiler is None and updates < self._first - 1):
            return
        try:
            if self._profiler is None:
                self._begin(updates)
            elif self._thread == threading.get_ident():
                if self._unwanted is not None:
                    self._give_up(self._unwanted)
                elif updates >= self._last:
                    self._finish(updates)
                else:
                    self._done = updates
                    self._profiler.step()
        except Exception as error:  # the profiler is not ours: whatever it raises ends the capture alone
            self._give_up(f"{type(error).__name__}: {error}")

    def abandon(self, reason: str | None = None) -> None:
        """End the capture and keep nothing of it; a no-op where none is on. Without a reason the recording has ended. Raises nothing."""
        if self._profiler is not None and self._thread == threading.get_ident():
            self._give_up(reason or self._interrupted())

    def _interrupted(self) -> str:
        first = self._begun_after + 1
        return f"the recording ended within it, when {self._done + 1 - first} of its steps {first} to {self._last} were done"

    def _begin(self, updates: int) -> None:
        reason = _refusal(self._scripts)
        if reason is not None:
            self._give_up(reason, state="refused")
            return
        torch = sys.modules["torch"]
        activity = torch.profiler.ProfilerActivity
        wanted = [activity.CPU] + ([activity.CUDA] if torch.cuda.is_available() and torch.cuda.is_initialized() else [])
        self._begin_ns, self._begun_after, self._thread = now(), updates, threading.get_ident()
        self._done = updates
        record = torch.profiler.ProfilerAction.RECORD
        # With a schedule, though of one kind only, the trace marks its steps.
        # Ours from before it starts: one that fails half-way is stopped too.
        self._profiler = torch.profiler.profile(activities=wanted, record_shapes=True, schedule=lambda _: record)
        with _quietly():
            self._profiler.start()
        self._guards = self._guard(torch)
        atexit.register(self.abandon)

    def _guard(self, torch: Any) -> Undo:
        """End ours at once where the script starts a profiler."""

        def first_ending_ours(original: Any) -> Any:
            @functools.wraps(original)
            def start(*args: Any, **kwargs: Any) -> Any:
                self._make_way()
                return original(*args, **kwargs)

            return start

        owners = ((torch.profiler.profile, "start"), (torch.autograd.profiler.profile, "__enter__"))
        return all_of([replace(owner, name, first_ending_ours(getattr(owner, name))) for owner, name in owners])

    def _make_way(self) -> None:
        """The script starts a profiler, on this thread. Ours can be ended by its own thread only, and before theirs begins: ended after
        that it takes the process with it (SIGSEGV, torch 2.13). Where its thread does not come by in time, it is therefore left on.
        """
        reason = "the script started a profiler of its own"
        if self._thread == threading.get_ident():
            self.abandon(reason)
            return
        self._unwanted = f"{reason}, on another thread"
        if self._stopped.wait(PATIENCE_S):
            return
        self._left_on = self._take()
        if self._left_on is None:
            # Its thread is just stopping it.
            self._stopped.wait(PATIENCE_S)
            return
        late = f"no update came within {PATIENCE_S:g} s to end ours first, so that it stays on and makes steps longer"
        self._note("failed", reason=f"{self._unwanted}; {late}")

    def _finish(self, updates: int) -> None:
        profiler = self._take()
        profiler.stop()
        self._stopped.set()
        stopped_ns = now()
        name = f"capture-{os.getpid()}.json"
        profiler.export_chrome_trace(os.path.join(self._recorder.folder, name))
        self._note("taken", file=name, first=self._begun_after + 1, last=updates, stopped_ns=stopped_ns)

    def _give_up(self, reason: str, *, state: str = "failed") -> None:
        profiler = self._take()
        if profiler is not None:
            try:
                profiler.stop()
            except Exception as error:  # the profiler is not ours: whatever it raises ends the capture alone
                reason = f"{reason}; it could not be stopped ({type(error).__name__}: {error})"
            self._stopped.set()
        self._note(state, reason=reason)

    def _take(self) -> Any:
        """The profiler, which is nobody's from now on."""
        with self._lock:
            profiler, self._profiler, self._over = self._profiler, None, True
        guards, self._guards = self._guards, None
        if guards is not None:
            guards()
            atexit.unregister(self.abandon)
        return profiler

    def _note(self, state: str, **more: Any) -> None:
        end_ns = now()
        self._recorder.note({"kind": "capture", "state": state, "begin_ns": self._begin_ns or end_ns, "end_ns": end_ns, **more})


def torch_capture(recorder: Recorder) -> UpdateProfiler | None:
    """The one of this process: to be asked for by `recorder.shared`. None where none is wanted."""
    return UpdateProfiler(recorder, *recorder.capture) if recorder.capture else None


@contextmanager
def _quietly() -> Iterator[None]:
    """Keep Kineto from telling the training's standard error that it starts and stops; it asks once, at its first start."""
    mine = _LOG_LEVEL not in os.environ
    if mine:
        os.environ[_LOG_LEVEL] = _SILENT
    try:
        yield
    finally:
        if mine:
            os.environ.pop(_LOG_LEVEL, None)


def _refusal(scripts: ScriptProfilers) -> str | None:
    """Why nothing may be captured here; None where it may."""
    torch = sys.modules["torch"]
    place = find_launcher_rank(os.environ)
    if place is not None and place.rank != 0:
        return "only rank 0 is captured"
    # One that waits for its turn is not on yet. When that comes while ours is on, the process dies by SIGSEGV (torch 2.13).
    waits = scripts.are_there()
    if torch._C._autograd._profiler_enabled() or waits:
        return "a profiler of torch is on already, or waits for its turn"
    if waits is None:
        return "whether a profiler of torch waits for its turn cannot be known: take a trace with one, and give it to slowstep analyze"
    if sys.getprofile() is not None:
        return "a profiler of Python is on already"
    importer = _importer()
    return None if importer is None else f"{importer} imports a profiler: take the trace with that one, and give it to slowstep analyze"


def _importer() -> str | None:
    """The file of the script's own that holds a profiler among its names."""
    main = sys.modules.get("__main__")
    script = getattr(main, "__file__", None)
    if script is None:
        return None
    own = os.path.dirname(os.path.abspath(script)) + os.sep
    for module in [*list(sys.modules.values())[-_MOST_MODULES:], main]:
        file = getattr(module, "__file__", None)
        if not isinstance(file, str) or not os.path.abspath(file).startswith(own) or "site-packages" in file:
            continue
        if any(map(_is_of_a_profiler, list(vars(module).values()))):
            return os.path.basename(file)
    return None


def _is_of_a_profiler(value: Any) -> bool:
    """Whether a name of a module is a profiler, or a part of one."""
    name = getattr(value, "__name__" if isinstance(value, type(sys)) else "__module__", None)
    return isinstance(name, str) and (name in _PROFILERS or name.startswith(("torch.profiler.", "torch.autograd.profiler.")))
