"""Recording from within: `start()`, `stop()` and `with record():`, for notebooks, interactive sessions and scripts in mid-run."""

from __future__ import annotations

import os
from numbers import Integral, Real
from typing import TYPE_CHECKING, Any, Final, Self

from slowstep.errors import BadUsage
from slowstep.record.active import active
from slowstep.record.launching.own_process import OwnOptions, OwnRecording
from slowstep.record.writing import format as contract
from slowstep.workflow.sessions.place import find_session_place
from slowstep.workflow.sessions.session_report import SessionReport

if TYPE_CHECKING:
    from types import TracebackType

_current: Final[list[Recording]] = []


def start(
    *,
    level: int = 1,
    steps: int | None = None,
    seconds: float | None = None,
    out: str | None = None,
    warmup: int | None = None,
    verbose: bool = False,
) -> Recording:
    """Record this process from now on, until `stop()`, for `steps` updates or `seconds` after the first one.

    `level` is how much is recorded (0 to 2), `out` the folder for recordings, `warmup` the steps that the report leaves out (found if
    None), and `verbose` has the report show all that was measured. Raises BadUsage where a recording is under way, and UnwritableOutput
    where the folder cannot be made.
    """
    _check(level=level, steps=steps, seconds=seconds, out=out, warmup=warmup)
    if _started() is not None:
        raise BadUsage("A recording is under way already. End it first: slowstep.stop().")
    recording = Recording(level=int(level), steps=_plain(steps), seconds=seconds, out=out, warmup=_plain(warmup), verbose=bool(verbose))
    _current[:] = [recording]
    return recording


def stop() -> SessionReport:
    """End the recording that `start()` began, and diagnose it.

    The report shows itself where it is the value of a cell or of a line at the prompt; in a script it is printed to standard error, and
    `print(slowstep.stop())` adds one line.
    Raises BadUsage where none is under way.
    """
    recording = _started()
    if recording is None:
        raise BadUsage("No recording is under way in this process. Begin one: slowstep.start().")
    report = recording.end()
    if not recording.place.is_interactive:
        report.show()
    return report


def record(
    *,
    level: int = 1,
    steps: int | None = None,
    seconds: float | None = None,
    out: str | None = None,
    warmup: int | None = None,
    verbose: bool = False,
) -> Block:
    """Record what runs inside `with slowstep.record() as recording:`, and show the report at its end; options as for `start()`."""
    return Block(level=level, steps=steps, seconds=seconds, out=out, warmup=warmup, verbose=verbose)


class Recording:
    """A recording of this process: `folder` is where it is (None where nothing is recorded), `report` is None until it has ended."""

    def __init__(
        self, *, level: int, steps: int | None, seconds: float | None, out: str | None, warmup: int | None, verbose: bool = False
    ) -> None:
        self.place = find_session_place()
        self.report: SessionReport | None = None
        self._warmup, self._verbose = warmup, verbose
        self._own: OwnRecording | None = None
        self._why_not = _why_not()
        if self._why_not is None:
            names = {"name": self.place.name, "started_in": self.place.words}
            options = OwnOptions(**names, level=level, steps=steps, seconds=seconds, parent=out, warmup=warmup)
            self._own = OwnRecording(options, cells=self.place.cells)
            self.place.enter(self._own.note_prompt)

    @property
    def folder(self) -> str | None:
        """Where the recording is, absolute; None where nothing was recorded."""
        if self.report is not None:
            return None if self.report.folder is None else str(self.report.folder)
        return None if self._own is None else self._own.folder

    @property
    def is_mine(self) -> bool:
        """Whether it was begun by this process, and not by one that it was forked from."""
        return self._own is None or self._own.is_mine

    def end(self) -> SessionReport:
        """End it and diagnose it, once."""
        if self in _current:
            _current.remove(self)
        if self.report is None:
            self.place.leave()
            if self._own is None:
                self.report = SessionReport(message=f"slowstep: nothing was recorded: {self._why_not}.", place=self.place)
            else:
                self._own.end()
                self.report = SessionReport.of(self._own.folder, warmup=self._warmup, place=self.place, verbose=self._verbose)
        return self.report

    def __repr__(self) -> str:
        if self.report is not None:
            return repr(self.report)
        if self._own is None:
            return f"slowstep: nothing is recorded: {self._why_not}"
        return f"slowstep records into {os.path.relpath(self._own.folder)}; slowstep.stop() shows the report"


class Block:
    """What `slowstep.record()` returns; entering it begins the recording."""

    def __init__(self, **options: Any) -> None:
        self._options = options
        self._recording: Recording | None = None

    @property
    def folder(self) -> str | None:
        """Where the recording is, absolute; None before it has begun, and where nothing is recorded."""
        return None if self._recording is None else self._recording.folder

    @property
    def report(self) -> SessionReport | None:
        """The report; None until the block has ended."""
        return None if self._recording is None else self._recording.report

    def __enter__(self) -> Self:
        self._recording = start(**self._options)
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None) -> None:
        recording = self._recording
        # A fork that leaves the block, or a stop() inside it.
        if recording is not None and recording.is_mine and recording.report is None:
            recording.end().show()


def _started() -> Recording | None:
    """The recording that this process has begun and not ended."""
    return _current[0] if _current and _current[0].is_mine else None


def _why_not() -> str | None:
    if os.environ.get(contract.ENV_DISABLE):
        return f"{contract.ENV_DISABLE} is set"
    if active() is not None or os.environ.get(contract.ENV_RECORDING):
        return "this process belongs to a recording already, whose report comes at its end"
    return None


def _check(*, level: int, steps: int | None, seconds: float | None, out: str | None, warmup: int | None) -> None:
    """Raises BadUsage for what cannot be meant, whatever its type: callers need not be typed."""
    if not _is_a(Integral, level) or level not in (0, 1, 2):
        raise BadUsage(f"level={level!r} is not valid: 0 records steps and waits, 1 causes, 2 everything.")
    for name, value, least in (("steps", steps, 1), ("warmup", warmup, 0)):
        if value is not None and not (_is_a(Integral, value) and value >= least):
            raise BadUsage(f"{name}={value!r} is not valid: expected a whole number, {least} or more.")
    if steps is not None and warmup is not None and warmup >= steps:
        raise BadUsage(f"steps={steps!r} and warmup={warmup!r} leave no step to look at: record more of them, or leave out fewer.")
    if seconds is not None and not (_is_a(Real, seconds) and seconds > 0):
        raise BadUsage(f"seconds={seconds!r} is not valid: expected a number above zero.")
    if out is not None and not isinstance(out, (str, os.PathLike)):
        raise BadUsage(f"out={out!r} is not valid: expected the path of a folder.")


def _is_a(kind: type, value: object) -> bool:
    # NumPy's numbers are registered as numbers, too.
    return isinstance(value, kind)


def _plain(value: int | None) -> int | None:
    # Notes are JSON, which knows none of NumPy's numbers.
    return None if value is None else int(value)
