"""Errors of slowstep's own: what fails costs only what needs it, and is told in the report's health."""

from __future__ import annotations

import traceback
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from types import FrameType
from typing import Any, Never, ParamSpec, TypeVar, cast

from slowstep.errors import SlowstepError
from slowstep.reasons import Reason, Wording

P = ParamSpec("P")
T = TypeVar("T")
# What polars raises where its own code fails. It is no Exception, and importing polars takes long.
_PANIC = "PanicException"
_MOST_CHARACTERS = 200
INTERNAL_ERROR = Wording("internal-error", "internal error in {task} ({cause})")


@dataclass(frozen=True, slots=True)
class Fault:
    """What could not be done, and the unexpected error because of which. It stands in the place of the result.

    Whoever uses it as if it were that result gets `Faulty`.
    """

    task: str
    error: BaseException

    @property
    def cause(self) -> str:
        """The error in one line: its type and message."""
        return one_line(self.error)

    @property
    def reason(self) -> Reason:
        """Why something that needed the result could not be done."""
        return INTERNAL_ERROR(task=self.task, cause=self.cause)

    def __getattr__(self, name: str) -> Never:
        if name.startswith("__"):  # asked for by copying and pickling
            raise AttributeError(name)
        raise Faulty(self)

    def _used(self, *_: object) -> Never:
        raise Faulty(self)

    __bool__ = __iter__ = __len__ = __getitem__ = __call__ = __lt__ = __gt__ = __float__ = __int__ = _used


class Faulty(Exception):
    """Something was needed that a fault has taken away."""

    def __init__(self, fault: Fault) -> None:
        super().__init__(f"{fault.task}: {fault.cause}")
        self.fault, self.__cause__ = fault, fault.error


class Attempts:
    """Does tasks one by one: `attempt(find_saves, trainer, steps)` is its result, or the `Fault` by which it failed.

    A task is not begun where one of its arguments is a `Fault`, which then is its result too. What slowstep raises on purpose
    (`SlowstepError`) is raised, as is what ends the process. `faults` are those that were met, each once.
    """

    def __init__(self) -> None:
        self.faults: list[Fault] = []

    def __call__(self, do: Callable[P, T], /, *args: P.args, **kwargs: P.kwargs) -> T:
        """The result of a task. The type is that of the result: a `Fault` in its place cannot be used as one."""
        return self.named(getattr(do, "__name__", repr(do)), do, *args, **kwargs)

    def named(self, task: str, do: Callable[P, T], /, *args: P.args, **kwargs: P.kwargs) -> T:
        """The same of a task that is known to readers by another name than its function's."""
        return cast("T", self.outcome(task, do, *args, **kwargs))

    def outcome(self, task: str, do: Callable[P, T], /, *args: P.args, **kwargs: P.kwargs) -> T | Fault:
        """The same, for who asks which of both it is."""
        needed = next((each for each in (*args, *kwargs.values()) if isinstance(each, Fault)), None)
        if needed is not None:
            return needed
        try:
            return do(*args, **kwargs)
        except Faulty as missing:
            return missing.fault
        except BaseException as error:
            if not is_fault(error):
                raise
            fault = Fault(task, error)
            self.faults.append(fault)
            return fault

    def several(self, count: int, do: Callable[P, T], /, *args: P.args, **kwargs: P.kwargs) -> T:
        """The `count` results of a task that returns a tuple of so many, for assignment to as many names."""
        result = self(do, *args, **kwargs)
        return cast("T", (result,) * count) if isinstance(result, Fault) else result

    def otherwise(self, instead: T, do: Callable[P, T], /, *args: P.args, **kwargs: P.kwargs) -> T:
        """The result of a task, or what stands for it where it fails."""
        result = self(do, *args, **kwargs)
        return instead if isinstance(result, Fault) else result


class MayLack:
    """A dataclass whose fields may be faults: reading one raises `Faulty`."""

    __slots__ = ()

    def __getattribute__(self, name: str) -> Any:
        value = object.__getattribute__(self, name)
        if type(value) is Fault:
            raise Faulty(value)
        return value


class Results(Mapping[str, T]):
    """Results by name, of which some may be faults: those are no items, and asking for one raises `Faulty`."""

    def __init__(self, results: Mapping[str, T]) -> None:
        self._results = results

    def __getitem__(self, name: str) -> T:
        result = self._results[name]
        if isinstance(result, Fault):
            raise Faulty(result)
        return result

    def __iter__(self) -> Iterator[str]:
        return (name for name, result in self._results.items() if not isinstance(result, Fault))

    def __len__(self) -> int:
        return sum(1 for _ in self)


def is_fault(error: BaseException) -> bool:
    """Whether an error is slowstep's own: not raised on purpose, nor by somebody who ends the process."""
    if isinstance(error, SlowstepError):
        return False
    return isinstance(error, Exception) or type(error).__name__ == _PANIC


def one_line(error: BaseException) -> str:
    """An error as one line: its type and message, of which a long one is cut."""
    message = " ".join(str(error).split())
    cut = message if len(message) <= _MOST_CHARACTERS else f"{message[:_MOST_CHARACTERS]}..."
    return f"{type(error).__name__}: {cut}" if cut else type(error).__name__


def release_frames(faults: Iterable[Fault]) -> None:
    """Let go of all that the frames of the errors hold, measurements among them. Where they were raised can still be told."""
    for fault in faults:
        error: BaseException | None = fault.error
        while error is not None:
            for frame, _ in traceback.walk_tb(error.__traceback__):
                _clear(frame)
            error = error.__context__


def _clear(frame: FrameType | None) -> None:
    """Clear a frame and those that called it, but for those that still run."""
    while frame is not None:
        with suppress(RuntimeError):
            frame.clear()
        frame = frame.f_back


class FaultOf(Exception):
    """A fault while something was done with a recording, as its cause; what was recorded is in `folder`."""

    def __init__(self, folder: str) -> None:
        super().__init__(folder)
        self.folder = folder


@contextmanager
def of_recording(folder: str) -> Iterator[None]:
    """What is done inside belongs to the recording in `folder`: a fault there raises `FaultOf`."""
    try:
        yield
    except BaseException as error:
        if isinstance(error, FaultOf) or not is_fault(error):
            raise
        raise FaultOf(folder) from error
