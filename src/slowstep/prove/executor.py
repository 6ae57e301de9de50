"""Runs the training of an experiment: the one part that touches the world. Schedules, statistics and tests know only `Executor`."""

from __future__ import annotations

import os
import signal
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from types import FrameType
from typing import Any, Final, Protocol

from slowstep.errors import CommandNotStarted
from slowstep.prove.sandbox.guarded import Guarded
from slowstep.prove.sandbox.sandbox import Sandbox
from slowstep.prove.stats.plan import Plan
from slowstep.prove.stats.readings import ExperimentSteps, NoteReader, StepReader, no_steps
from slowstep.record.framework import control_flags
from slowstep.record.injection import inject
from slowstep.record.launching.command import Command
from slowstep.record.launching.journal import Journal
from slowstep.record.launching.launch import KILLED
from slowstep.record.launching.launch_notes import note_end, note_start
from slowstep.record.launching.watch import MonitorWatch
from slowstep.record.writing import format as contract
from slowstep.record.writing.control import ControlPage

OUTPUT_FILE: Final = "output.txt"
_TAIL_BYTES: Final = 8192
_TAIL_LINES: Final = 20
_ENDING: Final = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)


@dataclass(frozen=True, kw_only=True, slots=True)
class Progress:
    """How far the training is. `plan` is one of format.PLAN_...; `training_s` are the seconds since its first update, None before it.

    `alive` is whether the command itself runs; `exit_code` is its own (128 + n for signal n), None while it runs or when it was ended by
    `problem`: why the experiment had to be ended, as a clause.
    """

    updates: int
    plan: int
    alive: bool
    exit_code: int | None
    training_s: float | None
    problem: str | None = None


@dataclass(frozen=True, kw_only=True, slots=True)
class Ending:
    """How it ended: the command's own exit code, None where it was `killed`; `left` are processes that could not be ended.

    `output` is the end of what the command printed. `interrupted`: somebody pressed Ctrl-C while it was ended.
    """

    exit_code: int | None
    killed: bool
    left: tuple[int, ...]
    output: str
    problem: str | None = None
    interrupted: bool = False


class Executor(Protocol):
    """A training under experiment, from its start to its end."""

    folder: Path

    def start(self) -> None:
        """Start it. Raises CommandNotStarted, and nothing is left of it then."""

    def poll(self) -> Progress:
        """How far it is. Ends it where it takes too much time or room."""

    def post(self, plan: Plan) -> None:
        """Have the training walk a plan, from its next step on; one that it walks still ends there."""

    def steps(self) -> ExperimentSteps:
        """The steps of the plan so far."""

    def lever_notes(self) -> list[dict[str, Any]]:
        """What became of the levers, so far."""

    def notes(self, kind: str) -> list[dict[str, Any]]:
        """The lines of a kind in the notes of the process that trains, so far."""

    def end(self) -> Ending:
        """Kill all that belongs to it; called again it only says how it ended."""


class LiveExecutor:
    """The user's command in a sandbox, recorded into a folder that `record.folder.create_folder` has made.

    It is ended after `limit_s` seconds, whatever else happens; where slowstep itself is gone, at once. `asked` are variables of
    record/writing/format.py that are asked of this run alone.
    """

    def __init__(
        self,
        command: Command,
        folder: Path,
        sandbox: Sandbox,
        environ: Mapping[str, str],
        *,
        limit_s: float,
        asked: Mapping[str, str] | None = None,
        now_ns: Callable[[], int] = time.monotonic_ns,
    ) -> None:
        self.folder = folder.absolute()
        self._command, self._sandbox, self._environ, self._asked = command, sandbox, environ, dict(asked or {})
        self._limit_s, self._now_ns = limit_s, now_ns
        self._guarded: Guarded | None = None
        self._watch: MonitorWatch | None = None
        self._steps: StepReader | None = None
        self._notes: NoteReader | None = None
        self._pid: int | None = None
        self._process: int | None = None
        self._updates, self._plan = 0, contract.PLAN_NONE
        self._training_s: float | None = None
        self._problem: str | None = None
        self._ending: Ending | None = None

    def start(self) -> None:
        """Start the command in its sandbox. Raises CommandNotStarted, and nothing is left of it then."""
        try:
            self._page = ControlPage(str(self.folder))
            injected = inject.write_injection(str(self.folder))
            self._journal = Journal(str(self.folder))
        except OSError as error:
            raise CommandNotStarted(f"the recording in {self.folder} cannot be begun: {error.strerror}.") from error
        environment = inject.injected_environment(
            self._environ, folder=str(self.folder), inject=injected, level=1, steps=None, seconds=None, experiment=True
        )
        note_start(self._journal, self._command, level=1, warmup=None, stop=True)
        argv, environment, cwd = self._sandbox.wrap(self._command, environment | self._asked)
        self._guarded = Guarded(
            argv,
            environment,
            cwd,
            output=self.folder / OUTPUT_FILE,
            variable=(contract.ENV_RECORDING, str(self.folder)),
            places=(*self._sandbox.places, injected),
            limit_s=self._limit_s,
        )
        try:
            self._watch = MonitorWatch(self._journal, self._guarded.start())
        except BaseException:  # Ctrl-C too: nothing of it is left
            self.end()
            raise

    def poll(self) -> Progress:
        """How far it is. Ends it where it takes too much time or room."""
        assert self._guarded is not None
        if self._ending is None:
            self._guarded.listen()
            self._look()
            self._problem = self._guarded.problem or self._sandbox.room.problem()
            if self._problem is not None:
                self.end()
        return Progress(
            updates=self._updates,
            plan=self._plan,
            alive=self._ending is None and self._guarded.exit_code is None,
            exit_code=None if self._problem else self._guarded.exit_code,
            training_s=self._training_s,
            problem=self._problem,
        )

    def post(self, plan: Plan) -> None:
        """Put the plan into the recording, whole, and tell the training that it is there."""
        self._look()
        if plan.process is None:
            plan = replace(plan, process=self._pid)
        if plan.process != self._process:
            self._process, self._steps, self._notes = plan.process, None, None
        path = self.folder / contract.PLAN_FILE
        whole = path.with_suffix(".new")
        whole.write_text(plan.dumps(), encoding="utf-8")
        os.replace(whole, path)
        self._journal.note("experiment", begin_ns=self._now_ns())
        self._page.post_plan()

    def steps(self) -> ExperimentSteps:
        """The steps of the plan so far; none before the training has made one."""
        if self._steps is None:
            path = self._file_of_training(".rec")
            if path is None:
                return no_steps()
            self._steps = StepReader(path)
        return self._steps.read()

    def lever_notes(self) -> list[dict[str, Any]]:
        """What became of the levers, so far."""
        return self.notes("lever")

    def notes(self, kind: str) -> list[dict[str, Any]]:
        """The lines of a kind in the notes of the process that trains, so far."""
        if self._notes is None:
            path = self._file_of_training(".jsonl")
            if path is None:
                return []
            self._notes = NoteReader(path)
        return [note for note in self._notes.read() if note.get("kind") == kind]

    def end(self) -> Ending:
        """Kill everything that belongs to the command, close the recording and the sandbox; called again it only says how it ended."""
        if self._ending is None:
            with _undisturbed():
                self._ending = self._end()
                self._clear()
        return self._ending

    def _clear(self) -> None:
        """Remove what nothing runs in any more: now, since where slowstep is killed later nobody would."""
        self._sandbox.close()

    def _end(self) -> Ending:
        if self._guarded is None:
            return Ending(exit_code=None, killed=False, left=(), output="")
        if self._watch is not None:
            self._watch.stop()
        exit_code, left = self._guarded.end()
        self._look()
        self._page.stop(contract.STOPPED_BY_END)
        told = self._process_flags()
        self._page.close()
        killed = exit_code is None
        note_end(
            self._journal,
            exit_code=KILLED if exit_code is None else exit_code,
            ended_ns=self._now_ns(),
            sent=("SIGKILL",) if killed else None,
            told=told,
        )
        self._journal.close()
        if not left:
            inject.remove_injection(str(self.folder))
        return Ending(exit_code=exit_code, killed=killed, left=tuple(left), output=self._output(), problem=self._problem)

    def _process_flags(self) -> tuple[str, ...] | None:
        """What the command's processes told of themselves; None where one of them may have trained and not have told it.

        Whether all could tell is not known here: of a command that is no Python itself, another one than that which told may have trained.
        """
        flags = self._page.told(control_flags())
        is_python = os.path.basename(self._command.argv[0]).startswith("python")
        return None if flags == ("python",) and not is_python else flags

    def _look(self) -> None:
        page = self._page
        self._updates, self._plan, self._pid = page.updates, page.plan, page.pid
        first_ns = page.first_update_ns
        self._training_s = None if first_ns is None else (self._now_ns() - first_ns) * 1e-9

    def _file_of_training(self, suffix: str) -> Path | None:
        """The file of the process that the plan is for, before one is posted of that which updates; None before it has one."""
        if self._ending is None:
            self._look()
        process = self._process or self._pid
        found = sorted(self.folder.glob(f"{process}-*{suffix}")) if process is not None else []
        return found[-1] if found else None

    def _output(self) -> str:
        try:
            with (self.folder / OUTPUT_FILE).open("rb") as file:
                file.seek(max(os.fstat(file.fileno()).st_size - _TAIL_BYTES, 0))
                text = file.read().decode("utf-8", "replace")
        except OSError:
            return ""
        return "\n".join(text.splitlines()[-_TAIL_LINES:])


def surely_ended(executor: Executor) -> Ending:
    """End a training although somebody presses Ctrl-C once more, just before its end can no longer be disturbed, and say so. What else
    ends this process ends the training first.
    """
    try:
        return executor.end()
    except KeyboardInterrupt:
        return replace(executor.end(), interrupted=True)
    except BaseException:
        executor.end()
        raise


@contextmanager
def _undisturbed() -> Iterator[None]:
    """Signals that end this process are heard when it is over: half an end would leave something behind."""
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    heard: list[tuple[int, FrameType | None]] = []
    mine = [number for number in _ENDING if signal.getsignal(number) not in (signal.SIG_IGN, None)]
    before = {number: signal.signal(number, lambda number, frame: heard.append((number, frame))) for number in mine}
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
    if not heard:
        return
    last, frame = heard[-1]
    handler = before[signal.Signals(last)]
    if callable(handler):
        handler(last, frame)
    else:
        os.kill(os.getpid(), last)
