"""Records the process that asks for it, in the middle of its life: a notebook, an interactive session, a script.

What the launcher of `slowstep run` does from outside is done here by one thread of this process, and taken away again at the end:
hooks, thread, environment variables and the injected folder.
"""

from __future__ import annotations

import atexit
import datetime
import os
import sys
import threading
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Final

from slowstep.errors import CommandNotStarted, UnwritableOutput
from slowstep.health import HealthKind
from slowstep.record.active import recorders
from slowstep.record.framework import is_imported, known_frameworks
from slowstep.record.injection import inject, install_hooks
from slowstep.record.launching.folder import analyze_words, create_folder, remove_folder
from slowstep.record.launching.journal import Journal
from slowstep.record.launching.overdue import is_overdue
from slowstep.record.launching.watch import MonitorWatch
from slowstep.record.recorder import Recorder
from slowstep.record.system import processes
from slowstep.record.system.facts import process_line
from slowstep.record.system.redact import redact_command
from slowstep.record.writing import format as contract
from slowstep.record.writing.control import ControlPage

FORK_SERVER_BEFORE_START: Final = HealthKind(
    "fork-server-before-start",
    "notice",
    "its workers are not recorded: begin the recording before the first loader, or give it multiprocessing_context='spawn'",
)


@dataclass(frozen=True, slots=True, kw_only=True)
class OwnOptions:
    """What was asked for: `steps` and `seconds` end the recording by themselves. `started_in` names the kind of process in words."""

    name: str
    started_in: str
    level: int = 1
    steps: int | None = None
    seconds: float | None = None
    parent: str | None = None
    warmup: int | None = None


class OwnRecording:
    """A recording of this process, from now until `end` (or its time limit, or the process's end).

    `cells` tells the numbers of the notebook's cells by the names of their files. Raises UnwritableOutput where the folder cannot be made.
    """

    def __init__(self, options: OwnOptions, *, cells: Callable[[], dict[str, int]] = dict) -> None:
        self._options, self._cells, self._cells_noted = options, cells, 0
        self._pid = os.getpid()
        self._lock, self._ending, self._ended = threading.Lock(), False, threading.Event()
        self.folder = _make_folder(options)
        try:
            self._page = ControlPage(self.folder)
            injected = inject.write_injection(self.folder)
            self._journal = Journal(self.folder)
            self._recorder = Recorder(self.folder, level=options.level, steps=options.steps, seconds=options.seconds)
        except (OSError, ValueError) as error:
            remove_folder(self.folder)
            raise UnwritableOutput(f"the recording in {self.folder} cannot be begun: {error}. Choose another place with out=.") from error
        self._note_start()
        self._note_fork_server()
        self._environment = OwnEnvironment(self._variables(injected), inject=injected)
        install_hooks.attach(self._recorder)
        recorders[:] = [self._recorder]
        atexit.register(self._at_exit)
        self._watch = MonitorWatch(self._journal, self._pid, self._look)

    @property
    def is_on(self) -> bool:
        """Whether this process is being recorded; a fork of it is recorded by its own recorder, and this is False."""
        return not self._ending and self.is_mine

    @property
    def is_mine(self) -> bool:
        """Whether this process has begun it, and not one that it was forked from."""
        return os.getpid() == self._pid

    def note_prompt(self) -> None:
        """The user is asked for the next command or cell: until it comes nothing trains."""
        if self.is_on:
            self._journal.note("prompt", at_ns=time.monotonic_ns())

    def end(self) -> None:
        """End the recording and take everything away. Does nothing in a fork, and waits where another thread is ending it."""
        if os.getpid() != self._pid:
            return
        if self._begin_ending():
            self._end(by="stop")
        else:
            self._ended.wait(5.0)
        # Hooks that a thread was in the middle of when the recording ended by itself.
        self._recorder.leave()

    def _variables(self, injected: str) -> dict[str, str | None]:
        options = self._options
        environment = inject.injected_environment(
            os.environ, folder=self.folder, inject=injected, level=options.level, steps=options.steps, seconds=options.seconds
        )
        return {name: environment.get(name) for name in ("PYTHONPATH", *inject.SPOKEN)}

    def _note_start(self) -> None:
        now_ns, options = time.monotonic_ns(), self._options
        self._journal.note(**process_line({"role": "launcher"}, level=options.level, started_ns=now_ns))
        started = datetime.datetime.now().astimezone().isoformat(timespec="seconds")
        words = redact_command(getattr(sys, "orig_argv", sys.argv))
        # No `started_ns`: when the training's process began is not known here, and its start-up was not recorded.
        line: dict[str, Any] = {"name": options.name, "command": words, "started": started, "warmup": options.warmup, "stop": False}
        line |= {"started_in": options.started_in, "recorded_from_ns": now_ns, "thread": threading.get_native_id()}
        self._journal.note("run", **line)

    def _note_fork_server(self) -> None:
        server = getattr(sys.modules.get("multiprocessing.forkserver"), "_forkserver", None)
        pid = getattr(server, "_forkserver_pid", None)
        if pid is not None and not processes.holds_variable(pid, contract.ENV_RECORDING):
            self._journal.health(FORK_SERVER_BEFORE_START)

    def _look(self) -> None:
        # In the watch's thread.
        try:
            self._note_cells()
            if is_overdue(self._page, self._options.seconds, time.monotonic_ns()):
                self._page.stop(contract.STOPPED_BY_TIME)
            if not self._page.recording and self._begin_ending():
                self._end(by="limit")
        except Exception as error:  # the border: counted, and never raised into the training
            self._recorder.fault(error)

    def _note_cells(self) -> None:
        cells = self._cells()
        if len(cells) != self._cells_noted:
            self._cells_noted = len(cells)
            self._journal.note("cells", cells=cells)

    def _begin_ending(self) -> bool:
        with self._lock:
            first, self._ending = not self._ending, True
        return first

    def _end(self, *, by: str) -> None:
        """Every act is tried, whatever comes between: an interrupt is raised when nothing is left."""
        interrupt: KeyboardInterrupt | None = None
        self._page.stop(contract.STOPPED_BY_END)
        acts = (
            self._environment.restore,
            self._watch.stop,
            lambda: self._recorder.stop("stop"),
            self._recorder.leave,
            self._note_cells_anew,
            lambda: self._note_end(by),
            self._journal.close,
            self._page.close,
            lambda: inject.remove_injection(self.folder),
            lambda: atexit.unregister(self._at_exit),
            lambda: install_hooks.detach(self._recorder),
            self._recorder.close,
            self._ended.set,
        )
        for act in acts:
            try:
                act()
            except KeyboardInterrupt as error:
                interrupt = error
            except Exception as error:  # the border: counted, and never raised into the training
                self._recorder.fault(error)
        if interrupt is not None:
            raise interrupt

    def _note_end(self, by: str) -> None:
        self._journal.note(
            "exit", code=None, ended_ns=time.monotonic_ns(), by=by, **self._journal.written, signals=[], told=self._flags_for_run()
        )

    def _flags_for_run(self) -> list[str] | None:
        """What `slowstep run` is told by the flags of the page, where a call that trains has begun: nothing else may tell of it."""
        imported = [framework.module for framework in known_frameworks() if framework.module is not None and is_imported(framework)]
        return [*imported, contract.BEGUN] if contract.BEGUN in self._page.told(contract.CONTROL_FLAGS) else None

    def _note_cells_anew(self) -> None:
        # A cell that was run again has another number, and its file the same name.
        self._cells_noted = -1
        self._note_cells()

    def _at_exit(self) -> None:
        if os.getpid() != self._pid:
            self._recorder.stop("exit")
            return
        self.end()
        try:
            print(f"slowstep: the recording was still on. It is kept: {analyze_words(self.folder)}", file=sys.stderr)
        except (OSError, ValueError):
            pass


def _make_folder(options: OwnOptions) -> str:
    try:
        return create_folder(parent=options.parent, stem=options.name)
    except CommandNotStarted as error:
        reason = error.__cause__
        raise UnwritableOutput(
            f"the recording cannot be written ({reason}). Choose a folder that you may write to: slowstep.start(out=...)."
        ) from reason


class OwnEnvironment:
    """Variables of this process, set for the children it starts.

    None removes one; `restore` puts all back. `inject` is what was put in front of PYTHONPATH.
    What the user sets meanwhile stays: of a PYTHONPATH that he changed, only our own entry is taken out.
    """

    def __init__(self, changes: Mapping[str, str | None], *, inject: str) -> None:
        self._inject = inject
        self._changes = dict(changes)
        self._before = {name: os.environ.get(name) for name in changes}
        for name, value in self._changes.items():
            _put(name, value)

    def restore(self) -> None:
        """Put back what was there before."""
        for name, ours in self._changes.items():
            value, before = os.environ.get(name), self._before[name]
            if value == ours:
                _put(name, before)
            elif name == "PYTHONPATH" and value is not None:
                _put(name, os.pathsep.join(entry for entry in value.split(os.pathsep) if entry != self._inject))


def _put(name: str, value: str | None) -> None:
    if value is None:
        os.environ.pop(name, None)
    else:
        os.environ[name] = value
