"""What is known of a run as a whole: what was run, when, and how it ended. Read where nothing trained too, so no table is imported."""

from __future__ import annotations

import signal
from dataclasses import dataclass

# The exit code of a command that a signal ended, as shells have it: this and the signal's number.
BY_SIGNAL = 128


@dataclass(frozen=True, kw_only=True, slots=True)
class RunFacts:
    """What the launcher said of the run; None is unknown."""

    name: str
    command: tuple[str, ...]
    started: str | None
    started_ns: int | None
    ended_ns: int | None
    exit_code: int | None
    stop_signals: tuple[str, ...]  # that --stop sent, or an experiment; empty where neither ended it
    warmup: int | None
    stops: bool = False  # whether --stop was given, with one of the following
    asked_steps: int | None = None  # of --steps
    asked_seconds: float | None = None  # of --for
    asked_capture: tuple[int, ...] | None = None  # the first and the last step of --capture
    received: tuple[str, ...] = ()  # signals by which others asked slowstep to end, as Ctrl-C does
    told: tuple[str, ...] | None = None  # of framework.control_flags, what the command's processes told; None where not all of them could
    folder: str | None = None  # in which the command was given
    host: str | None = None
    launcher_rank: int | None = None  # of several launchers of one job: which one this is
    launchers: int | None = None
    levers: tuple[str, ...] = ()  # asked for with --with, as they were written
    cores_allowed: int | None = None
    experiment_ns: int | None = None  # where an experiment begins, of which nothing was read
    not_read: tuple[tuple[str, str], ...] = ()  # monitors of what many machines do not show, each with why it read nothing
    session: Session | None = None  # where the recording was begun from within; `started_ns` is then unknown

    @property
    def was_sandboxed(self) -> bool:
        """Whether an experiment ended it: `--stop` asks first."""
        return self.stop_signals == ("SIGKILL",)

    @property
    def killer(self) -> str | None:
        """The signal that ended the command, as its exit code says; None where none did."""
        number = (self.exit_code or 0) - BY_SIGNAL
        return signal.Signals(number).name if number in {known.value for known in signal.Signals} else None


@dataclass(frozen=True, kw_only=True, slots=True)
class Session:
    """A process that began to be recorded in the middle of its life: what kind (in words), since when, and its thread at the prompt.

    `prompts_ns` are the moments at which the user was asked for the next command or cell.
    """

    kind: str
    from_ns: int
    thread: int
    prompts_ns: tuple[int, ...]
