"""Run the user's command with recording on, and stay out of its way."""

from __future__ import annotations

import json
import os
import signal
import threading
import time
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Final

from slowstep.errors import CommandNotStarted
from slowstep.health import HealthKind
from slowstep.record.framework import control_flags
from slowstep.record.injection import inject
from slowstep.record.launching import child
from slowstep.record.launching.folder import create_folder, remove_folder
from slowstep.record.launching.journal import Journal
from slowstep.record.launching.launch_notes import note_end, note_start
from slowstep.record.launching.overdue import is_overdue
from slowstep.record.launching.plain_run import IDLE_TICK_S, forward, wait_plainly
from slowstep.record.launching.signals import ASK_TO_END, Inbox
from slowstep.record.launching.status import Status
from slowstep.record.launching.stopping import StopLimits, Stopper
from slowstep.record.launching.watch import MonitorWatch
from slowstep.record.launching.witness import SeenProcess, Witness
from slowstep.record.system import processes
from slowstep.record.system.place import LauncherRank
from slowstep.record.writing import format as contract
from slowstep.record.writing.control import ControlPage
from slowstep.record.writing.health_kinds import LAUNCHER_FAULT

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from slowstep.record.experiment.lever import LeverSpec
    from slowstep.record.launching.command import Command

_TICK_S: Final = 0.1
# The first line of a process's notes begins with its role, and the last one is short.
_LOOK_BYTES: Final = 4096
KILLED: Final = 128 + 9
PROCESSES_LEFT: Final = HealthKind(
    "processes-left", "info", "Processes of the command outlive it; when they have ended, {folder}/ in the recording can be removed."
)


@dataclass(frozen=True, kw_only=True)
class RunOptions:
    """What `slowstep run` was asked for; `steps` and `seconds` end the recording, `stop` the training with it.

    `capture` are the first and the last update to be profiled, `levers` what is changed in the training from the second step on.
    """

    steps: int | None = None
    seconds: float | None = None
    stop: bool = False
    parent: str | None = None
    level: int = 1
    warmup: int | None = None
    status: bool = False
    title: bool = True
    capture: tuple[int, int] | None = None
    place: LauncherRank | None = None
    levers: tuple[LeverSpec, ...] = ()


@dataclass(frozen=True, kw_only=True)
class RunLimits:
    """How long the launcher waits for others, in seconds."""

    stop: StopLimits = field(default_factory=StopLimits)
    recorder_s: float = 1.0
    leftovers_s: float = 0.3
    report_s: float = 120.0


@dataclass(frozen=True, kw_only=True)
class RunOutcome:
    """How a run ended: the command's exit code (128 + n for signal n), the recording, whether its report is out already, who was seen."""

    exit_code: int
    folder: Path
    reported: bool
    seen: tuple[SeenProcess, ...]


def launch(
    command: Command,
    options: RunOptions,
    environ: Mapping[str, str],
    *,
    on_recorded: Callable[[Path], None],
    limits: RunLimits | None = None,
) -> RunOutcome:
    """Run a command to its end with recording on.

    `on_recorded` is called in a thread when the recording has ended and the command goes on without it. Raises CommandNotStarted
    (125, 126, 127), and nothing once the command has started.
    """
    folder = create_folder(parent=options.parent, stem=command.stem, place=options.place)
    try:
        run = _Run(folder, command, options, limits or RunLimits(), on_recorded)
        with Inbox() as inbox:
            run.start(environ, inbox)
            run.watch_over(inbox)
            run.finish(inbox)
        return run.outcome()
    except CommandNotStarted:
        remove_folder(folder)
        raise


class _Run:
    def __init__(self, folder: str, command: Command, options: RunOptions, limits: RunLimits, on_recorded: Callable[[Path], None]) -> None:
        self._folder, self._command, self._options, self._limits = folder, command, options, limits
        self._on_recorded = on_recorded
        self._recorded_s: float | None = None
        self._reporter: threading.Thread | None = None
        self._stopper: Stopper | None = None
        self._witness: Witness | None = None
        self._watch: MonitorWatch | None = None
        self._status: Status | None = None
        self._received: list[str] = []
        self._exit_code = KILLED
        try:
            self._page = ControlPage(folder)
            self._inject = inject.write_injection(folder)
            self._journal = Journal(folder)
        except OSError as error:
            raise CommandNotStarted(
                f"the recording in {folder} cannot be begun: {error.strerror}. Choose another place: --out DIR."
            ) from error

    def start(self, environ: Mapping[str, str], inbox: Inbox) -> None:
        options = self._options
        environment = inject.injected_environment(
            environ,
            folder=self._folder,
            inject=self._inject,
            level=options.level,
            steps=options.steps,
            seconds=options.seconds,
            capture=options.capture,
            asked={contract.ENV_LEVERS: json.dumps([asdict(spec) for spec in options.levers])} if options.levers else None,
        )
        note_start(
            self._journal,
            self._command,
            level=options.level,
            warmup=options.warmup,
            stop=options.stop,
            place=options.place,
            levers=[str(spec) for spec in options.levers],
            steps=options.steps,
            seconds=options.seconds,
            capture=options.capture,
        )
        self._started_ns = time.monotonic_ns()
        self._pid = child.start_command(self._command, environment, mask=inbox.mask_before)

    def watch_over(self, inbox: Inbox) -> None:
        """Until the command has ended, and with --stop whatever it left behind. A fault of ours ends only the watching."""
        self._guarded(lambda: self._watch_over(inbox))

    def finish(self, inbox: Inbox) -> None:
        """Take the command's exit code and leave nothing behind."""
        ended_ns = time.monotonic_ns()
        self._guarded(self._end_watching)
        gave_up = self._stopper is not None and self._stopper.gave_up
        self._exit_code = KILLED if gave_up and not child.has_ended(self._pid) else wait_plainly(self._pid, inbox)
        self._guarded(lambda: self._close(ended_ns))
        self._journal.close()

    def outcome(self) -> RunOutcome:
        """How it ended, once a report that is being made is out."""
        if self._reporter is not None:
            try:
                self._reporter.join(self._limits.report_s)
            except KeyboardInterrupt:
                pass  # the user does not want to wait for it; `slowstep analyze` makes it again
        seen = self._witness.seen if self._witness else ()
        return RunOutcome(exit_code=self._exit_code, folder=Path(self._folder), reported=self._reporter is not None, seen=seen)

    def _guarded(self, act: Callable[[], None]) -> None:
        try:
            act()
        except Exception as error:  # the border: the command runs, and nothing of ours may end it or lose its exit code
            self._journal.health(LAUNCHER_FAULT, error=f"{type(error).__name__}: {error}")

    def _watch_over(self, inbox: Inbox) -> None:
        self._witness = Witness(self._pid, self._command.argv)
        self._watch = MonitorWatch(self._journal, self._pid, self._look)
        if self._options.place is None or self._options.place.speaks:
            self._status = Status(self._page, lines=self._options.status, title=self._options.title)
        while True:
            ended = child.has_ended(self._pid)
            now_s = time.monotonic()
            if not ended:
                self._check_recording(now_s)
            stopped = self._stopper is None or self._stopper.advance(now_s)
            if stopped and (ended or self._stopper is not None):
                return
            received = inbox.receive(IDLE_TICK_S if self._recorded_s is None else _TICK_S)
            if received is not None:
                if received.number in ASK_TO_END:
                    self._received.append(signal.Signals(received.number).name)
                forward(received, self._pid)

    def _look(self) -> None:
        # In the watch's thread.
        if self._page.pid is None and self._witness is not None:
            self._witness.look(time.monotonic())
        if not self._page.recording:
            os.kill(os.getpid(), signal.SIGCHLD)

    def _close(self, ended_ns: int) -> None:
        self._page.stop(contract.STOPPED_BY_END)
        sent = self._stopper.sent if self._stopper else None
        seen = self._witness.seen if self._witness else ()
        told = None if any(process.unreachable for process in seen) else self._page.told(control_flags())
        note_end(self._journal, exit_code=self._exit_code, ended_ns=ended_ns, sent=sent, received=self._received, told=told)
        self._clean_up()

    def _end_watching(self) -> None:
        for thread in (self._status, self._watch):
            if thread is not None:
                thread.stop()

    def _check_recording(self, now_s: float) -> None:
        if self._recorded_s is None:
            waiting_since_ns = self._started_ns if self._options.stop else None
            if is_overdue(self._page, self._options.seconds, time.monotonic_ns(), waiting_since_ns=waiting_since_ns):
                self._page.stop(contract.STOPPED_BY_TIME)
            if not self._page.recording:
                self._recorded_s = now_s
                self._end_watching()
        elif self._reporter is None and self._stopper is None and self._is_settled(now_s):
            self._after_recording()

    def _is_settled(self, now_s: float) -> bool:
        assert self._recorded_s is not None
        return now_s - self._recorded_s > self._limits.recorder_s or _recorders_have_ended(self._folder, self._page.pid)

    def _after_recording(self) -> None:
        if self._options.stop:
            self._stopper = Stopper(root=self._pid, limits=self._limits.stop)
            return
        self._reporter = threading.Thread(target=self._report_in_background, name="slowstep-report", daemon=True)
        self._reporter.start()

    def _report_in_background(self) -> None:
        # The training goes on beside the report, and goes first.
        try:
            os.setpriority(os.PRIO_PROCESS, threading.get_native_id(), 10)
        except (OSError, AttributeError):
            pass
        self._on_recorded(Path(self._folder))

    def _clean_up(self) -> None:
        self._page.close()
        deadline = time.monotonic() + self._limits.leftovers_s
        while left := processes.living_with(contract.ENV_RECORDING, self._folder):
            if time.monotonic() >= deadline:
                break
            time.sleep(0.02)
        if left:
            self._journal.health(PROCESSES_LEFT, len(left), folder=inject.INJECT_FOLDER)
        else:
            inject.remove_injection(self._folder)


def _recorders_have_ended(folder: str, pid: int | None) -> bool:
    """Whether the recorders in all processes that train have written their last line; `pid` is the first of them."""
    if pid is None:
        return False
    names = [name for name in os.listdir(folder) if name.endswith(".jsonl")]
    return any(name.startswith(f"{pid}-") for name in names) and all(_has_ended(os.path.join(folder, name)) for name in names)


def _has_ended(path: str) -> bool:
    with open(path, "rb") as file:
        head = file.read(_LOOK_BYTES)
        file.seek(max(0, os.path.getsize(path) - _LOOK_BYTES))
        tail = file.read()
    # Loader's workers may be idle, and then notice late.
    return b'"role":"trainer"' not in head or b'"kind":"end"' in tail
