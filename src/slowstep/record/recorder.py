"""The recorder of one process: what hooks speak to. It never raises into the training."""

from __future__ import annotations

import errno
import functools
import os
import threading
import time
from collections.abc import Callable
from typing import Any, Final, TypeVar
from weakref import WeakSet

from slowstep.health import HealthKind
from slowstep.reasons import Value
from slowstep.record.device.last_loss import LastLoss
from slowstep.record.framework import NO_FRAMEWORK, Framework
from slowstep.record.listeners import Listeners
from slowstep.record.patch import Undo
from slowstep.record.system import facts
from slowstep.record.system.multiprocessing_child import before_child_ends
from slowstep.record.timing.callers import is_updating
from slowstep.record.timing.other_threads import running
from slowstep.record.timing.schedule import Schedule
from slowstep.record.timing.stacks import Sampler
from slowstep.record.timing.startup_stacks import StartupStacks
from slowstep.record.timing.thread_watch import ThreadWatch
from slowstep.record.timing.tracebacks import innermost_frame, is_from_signal_handler, uncaught
from slowstep.record.writing.cost import EventCost
from slowstep.record.writing.format import CLOCK, CONTROL_REASON, LIMIT_BYTES, STOPPED_BY_LAUNCHER, STOPPED_BY_STEPS, STOPPED_BY_TIME
from slowstep.record.writing.health_kinds import DISK_FULL, LATE_STACKS, LOST_EVENTS, RECORDER_FAULT
from slowstep.record.writing.notes import NoteWriter, health_line
from slowstep.record.writing.page import Page
from slowstep.record.writing.storage import AppendFile, MappedFile, Reserve, is_mappable
from slowstep.record.writing.threads import PerThread, ThreadState
from slowstep.record.writing.writer import Writer

Kept = TypeVar("Kept")

now: Final = time.monotonic_ns

COST_EVERY_NS: Final = 5_000_000_000
CLOCK_EVERY_NS: Final = 60_000_000_000
FLUSH_EVERY_NS: Final = 500_000_000
MOST_WATCHED: Final = 8
_REASONS: Final = {STOPPED_BY_STEPS: "steps", STOPPED_BY_TIME: "time", STOPPED_BY_LAUNCHER: "launcher"}
_TRAINER: Final[dict[str, Any]] = {"role": "trainer"}


class Recorder(Listeners):
    """Writes what this process does into a recording's folder; files appear with the first event. Raises OSError or ValueError
    when the folder has no control page; afterwards nothing is raised, faults are counted in the recording's health.

    `steps` and `seconds` end the recording of all processes after so many updates, or so long after the first one.
    """

    # The writer's own functions (`writing/writer.py`, `writing/fastpath.py`): a hook's call goes through nothing else.
    event: Callable[..., None]
    step: Callable[..., None]
    write_ended: Callable[..., None]
    release: Callable[..., None]

    def __init__(
        self,
        folder: str,
        *,
        level: int = 1,
        steps: int | None = None,
        seconds: float | None = None,
        limit_bytes: int = LIMIT_BYTES,
        reserve: Reserve | None = None,
    ) -> None:
        super().__init__()
        self.folder, self.level = folder, level
        self.steps, self._seconds_ns = steps, None if seconds is None else int(seconds * 1e9)
        self._limit_bytes, self._reserve = limit_bytes, reserve or os.posix_fallocate
        self.page = Page(folder)
        # Looked at by hooks together with the page's first byte: is there anything to record for?
        self.live: list[bool] = [True]
        self.local = PerThread(WeakSet())
        # What hooks took that write nothing each time they are called.
        self.spent_ns = 0
        # And what they took to set up something, which is not spent again.
        self.once_ns = 0
        self._introductions: list[dict[str, Any]] = []
        self._shared: dict[Callable[[Recorder], Any], Any] = {}
        # The one that trains, once an update of it was seen.
        self.framework: Framework = NO_FRAMEWORK
        # The loss of a step that somebody asked for.
        self.last_loss = LastLoss()
        # Of the time before the first event, in a process that may train.
        self.startup: StartupStacks | None = None
        self._ask_nothing()
        self._build_writer()
        self._forget()

    def _ask_nothing(self) -> None:
        """What the command asks for beyond a recording, and sets before the first update: nothing, at first."""
        # First and last update that a profiler is to capture.
        self.capture: tuple[int, int] | None = None
        # Whether this training is one under experiment, in a sandbox.
        self.experiment = False
        # Levers that are on from the first step on, as fields of lever.Spec.
        self.levers: list[dict[str, Any]] = []
        # Where the script builds the loader that they change there; None: they are switched on between two steps.
        self.loader_place: int | None = None

    def _build_writer(self) -> None:
        """The writer, whose own functions are the recorder's."""
        self._writer = Writer(self.local, self.fault, limit_bytes=self._limit_bytes)
        self._writer.open_files, self._writer.when_closed = self._open, self.leave
        self.event, self.write_ended, self.release = self._writer.event, self._writer.write_ended, self._writer.release
        self.step = self._writer.step

    def _forget(self) -> None:
        self.role: dict[str, Any] = _TRAINER
        self.watched: dict[int, int] = {}
        self._beside: ThreadWatch | None = None
        # Threads that called an optimizer, by ident: its hooks may be taken away only by the one that does.
        self.updaters: dict[int, ThreadState] = {}
        self._notes: NoteWriter | None = None
        self._sampler: Sampler | None = None
        self._event_cost: EventCost | None = None
        self._schedule = Schedule((FLUSH_EVERY_NS, self._writer.flush), (CLOCK_EVERY_NS, self.clock), (COST_EVERY_NS, self._account))
        self._stop_lock = threading.Lock()

    def forget(self) -> None:
        """Start anew in a forked child: nothing of the parent's recording is touched, and files appear with the child's first event."""
        notes = self._notes
        self.startup = None
        self._forget()
        if notes is not None:
            notes.close()
        self._writer.forget()
        self.local.forget()
        for forgetter in self.forgetters:
            forgetter()

    def shared(self, kind: Callable[[Recorder], Kept]) -> Kept:
        """What several hooks keep together: made when the first of them asks for it."""
        if kind not in self._shared:
            self._shared[kind] = kind(self)
        kept: Kept = self._shared[kind]
        return kept

    def note(self, note: dict[str, Any]) -> None:
        """Write one JSON line, once something is being recorded."""
        try:
            if self._notes is not None:
                self._notes.write(note)
        except Exception as error:  # the border: counted, and never raised into the training
            self.fault(error)

    def introduce(self, note: dict[str, Any]) -> None:
        """Write a line that every process of this recording begins with, also those forked from it later."""
        self._introductions.append(note)
        self.note(note)

    def text_id(self, text: str) -> int:
        """A number that stands for a text in this process's records; 0 when nothing is being recorded."""
        try:
            if self.ensure_open() and self._notes is not None:
                return self._notes.text_id(text)
        except Exception as error:  # the border: counted, and never raised into the training
            self.fault(error)
        return 0

    def health(self, kind: HealthKind, count: int = 1, **values: Value) -> None:
        """Count something lost or doubtful; `values` are those that the kind's template names."""
        try:
            if self._notes is not None:
                self._notes.count(kind(count, **values))
        except OSError as error:
            self.fault(error)

    def stop_timing_calls(self) -> None:
        """Time no calls of the script from now on: an experiment compares steps, and must not slow some of them."""
        self.level = 0
        for end in self.call_timers:
            end()

    def watch(self) -> None:
        """Take stacks of the calling thread from now on."""
        ident = threading.get_ident()
        me = self.local.me
        me.watched = True
        # An ident may be that of a thread that has ended.
        if self.watched.get(ident) != me.thread and (ident in self.watched or len(self.watched) < MOST_WATCHED):
            self.watched[ident] = me.thread

    def trains(self, me: ThreadState) -> None:
        """The calling thread, whose state this is, calls an optimizer."""
        ident = threading.get_ident()
        before = self.updaters.get(ident)
        if before is not None and before is not me:
            # That of a thread that has ended, and may have left steps unwritten.
            self.write_ended(before)
        self.updaters[ident] = me

    def updated(self, updates: int, ended_ns: int) -> None:
        """An optimizer has made so many updates: tell the launcher, and end the recording when it was to last so long."""
        self.page.publish(updates, ended_ns)
        if self.steps is not None and updates >= self.steps:
            self.end_all(STOPPED_BY_STEPS)
        elif self._seconds_ns is not None and ended_ns - self.page.first_update_ns >= self._seconds_ns:
            self.end_all(STOPPED_BY_TIME)

    def end_all(self, reason: int) -> None:
        """End the recording of every process, for one of format.STOPPED_BY_..."""
        self.page.stop(reason)
        self.stop(_REASONS.get(reason, "end"))

    def leave(self) -> None:
        """Called when the recording has ended, by a hook that did not know: end it here too, and take the hooks away if this thread may."""
        self.stop(_REASONS.get(self.page.bytes[CONTROL_REASON], "launcher"))
        others = running(self.updaters.keys() - {threading.get_ident()})
        # An optimizer's hooks must not be taken away while their list is being walked, which only its own thread can know.
        # The other hooks stay as long: one of them brings that thread here.
        if not others and not is_updating():
            self._undo(self.undos)
            self._undo(self.optimizer_undos)

    def hand_over(self, to: Recorder) -> None:
        """Take the hooks away before those of a next recorder come on top of them; what this thread may not undo is `to`'s to undo."""
        self._undo(self.undos)
        to.optimizer_undos, self.optimizer_undos = self.optimizer_undos + to.optimizer_undos, []

    def _undo(self, undos: list[Undo]) -> None:
        # Backwards, and each by one thread only.
        while undos:
            try:
                undos.pop()()
            except Exception as error:  # each hook is taken away, whatever became of the others
                self.fault(error)

    def stop(self, reason: str) -> None:
        """End the recording of this process; its files are complete afterwards."""
        with self._stop_lock:
            if not self.live[0]:
                return
            self.live[0] = False
        if self.startup is not None:
            self.startup.end()
        if self._sampler is not None:
            self._sampler.stop()
        try:
            self._say_losses()
            for updater in list(self.updaters.values()):
                self.write_ended(updater)
            self.release(self.local.me)
            self.write_cost()
            self._writer.close()
            if self._notes is not None:
                self._notes.flush_health()
                raised = uncaught() if reason == "exit" else None
                self._notes.write({"kind": "end", "reason": reason, "ended_ns": now(), **({"raised": raised} if raised else {})})
        except Exception as error:  # a full disk, or whatever else: said in the last words
            self._last_words(error)
        if self._notes is not None:
            self._notes.close()

    def close(self) -> None:
        """Give back the files that are kept open for the whole recording, where the process goes on after it."""
        # The threads last: one that meets a hook for the first time just now changes the set that they are in.
        self.page.close()
        self.local.close()

    def fault(self, error: Exception) -> None:
        """Count a fault of our own; a full disk ends the recording. Raises only what a signal handler of the user's raised inside us."""
        innermost = innermost_frame(error)
        if is_from_signal_handler(error):
            raise error
        if not self.live[0]:
            return
        if isinstance(error, OSError):
            self._last_words(error)
            return
        where = "" if innermost is None else f"{os.path.basename(innermost.tb_frame.f_code.co_filename)}:{innermost.tb_lineno}"
        self.health(RECORDER_FAULT, error=type(error).__name__, where=where)

    def _open(self) -> bool:
        """Open this process's files; False, for good, where that fails or nothing is to be recorded."""
        if not self.live[0] or not self.page.recording:
            return False
        started_ns = now()
        stem = os.path.join(self.folder, f"{os.getpid()}-{started_ns:x}")
        notes = self._notes = NoteWriter(stem + ".jsonl")
        notes.write(facts.process_line(self.role, level=self.level, started_ns=started_ns))
        for line in self._introductions:
            notes.write(line)
        self._open_records(stem + ".rec")
        self._event_cost = EventCost(self.local)
        # Not of workers: their calls are timed instead, see call_times.py.
        takes_stacks = self.level >= 1 and self.role is _TRAINER
        if takes_stacks:
            # Room is left for threads that train later.
            self._beside = ThreadWatch(self.event, self.note, self.watched, self.updaters, most_watched=MOST_WATCHED // 2)
        self._sampler = Sampler(
            event=self.event,
            note=self.note,
            watched=self.watched,
            chores=self._chores,
            fault=self.fault,
            takes_stacks=takes_stacks,
            probes=self.device_probes,
            before=None if self.startup is None else self.startup.end(),
        )
        self._sampler.start()
        before_child_ends(functools.partial(self.stop, "exit"))
        return True

    def _open_records(self, path: str) -> None:
        if is_mappable(self.folder):
            try:
                self._writer.use_mapped(MappedFile(path, limit_bytes=self._limit_bytes, reserve=self._reserve))
                return
            except OSError as error:
                if error.errno == errno.ENOSPC:
                    raise
        self._writer.use_appended(AppendFile(path))

    def ensure_open(self) -> bool:
        """Open this process's files now, and not with the first event. Returns whether they are open."""
        if self._notes is None:
            # The first event opens the files; a text that comes before it must not be lost.
            self.clock()
        return self._notes is not None

    def clock(self) -> None:
        """Record what the clock of the day says now."""
        at_ns = now()
        self.event(CLOCK, at_ns, at_ns, time.time_ns())

    def _chores(self) -> None:
        """What is due now and then, on the sampler's thread."""
        if not self.page.recording:
            self.leave()
            return
        at_ns = now()
        for chore in list(self.chores):
            chore()
        self._schedule.look(at_ns)
        self._look_at_threads(at_ns)

    def _look_at_threads(self, at_ns: int) -> None:
        """Given up at its first fault: a script's own kind of thread may raise whatever it likes."""
        if self._beside is None:
            return
        try:
            self._beside.look(at_ns)
        except Exception as error:  # the border: counted, and never raised into the training
            self._beside = None
            self.fault(error)

    def _account(self) -> None:
        """Write down what recording costs and has lost so far."""
        if self._event_cost is not None and self._sampler is not None:
            self._sampler.once_ns += self._event_cost.measure_again()
        self.write_cost()
        if self._notes is not None:
            self._notes.flush_health()

    def write_cost(self) -> None:
        """Write down what recording has cost so far."""
        if self._notes is not None:
            sampler = self._sampler
            once_ns = self.once_ns
            used = {} if sampler is None else {"sampler_cpu_ns": sampler.cpu_ns + once_ns, "once_cpu_ns": sampler.once_ns + once_ns}
            line = {
                "at_ns": now(),
                "event_ns": None if self._event_cost is None else self._event_cost.ns,
                "sampler_cpu_ns": 0,
                "events": self._writer.events,
                "spent_ns": self.spent_ns,
                "records": self._writer.records,
                **used,
            }
            self._notes.write({"kind": "cost", **line})

    def _say_losses(self) -> None:
        writer, sampler = self._writer, self._sampler
        if sampler is not None and sampler.late:
            self.health(LATE_STACKS, sampler.late)
        if writer.lost:
            self.health(LOST_EVENTS, writer.lost)

    def _last_words(self, error: Exception) -> None:
        """The disk is full, or the folder is gone: give back what was reserved, and say so in the space that this frees."""
        self.live[0] = False
        try:
            self._writer.close()
        except Exception:  # the disk is full: there is nobody left to tell
            pass
        if self._notes is not None:
            self._notes.last_words(health_line(DISK_FULL(1, error=str(error))))
            self._notes.last_words({"kind": "end", "reason": "disk full", "ended_ns": now()})
        if self._sampler is not None:
            self._sampler.stop()
