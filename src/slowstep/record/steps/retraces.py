"""Why a function was traced again: which of its arguments changed from one trace to the next, and how.

Nothing of the script's is held: of each argument its shape, its type, and how a Python value is written that is a part of the trace.
"""

from __future__ import annotations

import weakref
from collections import deque
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from types import CodeType
from typing import TYPE_CHECKING, Any, Final

from slowstep.record.recorder import now
from slowstep.record.system.redact import HIDDEN, redact_text
from slowstep.record.writing import format as fmt

if TYPE_CHECKING:
    from slowstep.record.recorder import Recorder

# Of each function so many are noted, then those whose number is a power of two.
NOTED: Final = 8
# Functions that are known at a time, traces of each that a new one is held against, and arguments of one, parts of them counted each.
MOST_FUNCTIONS: Final = 64
_KEPT: Final = 4
MOST_ARGUMENTS: Final = 4096
# What is noted of one trace.
MOST_CHANGES: Final = 4
MOST_CHARACTERS: Final = 60
_CUT: Final = "..."
_SIMPLE: Final = (bool, int, float, str, type(None))


@dataclass(frozen=True, slots=True)
class TracedArgument:
    """An argument of a trace, or a part of one: an array by its shape and type, all else by how it is written (`text`), and by a `mark`
    that differs where it does. `change` is what a difference of the latter is.
    """

    shape: str = ""
    dtype: str = ""
    text: str = ""
    mark: int = 0
    change: str = fmt.CHANGED_VALUE

    @property
    def written(self) -> str:
        """All that is known of it."""
        return " ".join(each for each in (self.dtype, self.shape, self.text) if each)


TracedArguments = Mapping[str, TracedArgument]
# The argument, what of it changed, and how it is written before and after that.
ArgumentChange = tuple[str, str, str, str]


def value_argument(name: str, value: object) -> TracedArgument:
    """A Python value that is a part of the trace: how it is written, where it is a number or a text."""
    kind = type(value)
    if kind not in _SIMPLE:
        return TracedArgument(text=kind.__name__, mark=id(value))
    # As an option with that name, of which some are secrets.
    hidden = redact_text(f"{name}={value!r}").endswith(f"={HIDDEN}")
    return TracedArgument(text=HIDDEN if hidden else redact_text(repr(value)), mark=hash(repr(value)))


def kind_argument(value: object) -> TracedArgument:
    """The same where only its type is to be said."""
    return TracedArgument(text=type(value).__name__, mark=hash(repr(value)) if type(value) in _SIMPLE else 0)


def object_argument(value: object) -> TracedArgument:
    """An object that is a part of the trace as itself."""
    return TracedArgument(text=type(value).__name__, mark=id(value), change=fmt.CHANGED_OBJECT)


def changes_between(before: TracedArguments, after: TracedArguments) -> list[ArgumentChange]:
    """What differs, in the order of the arguments."""
    found = [change for name, new in after.items() for change in _of_one(name, before.get(name), new)]
    return found + [(name, fmt.CHANGED_STRUCTURE, old.written, "") for name, old in before.items() if name not in after]


def _of_one(name: str, old: TracedArgument | None, new: TracedArgument) -> Iterator[ArgumentChange]:
    if old is None or bool(old.dtype) != bool(new.dtype):
        yield name, fmt.CHANGED_STRUCTURE, "" if old is None else old.written, new.written
        return
    for change, one, other in ((fmt.CHANGED_SHAPE, old.shape, new.shape), (fmt.CHANGED_DTYPE, old.dtype, new.dtype)):
        if one != other:
            yield name, change, one, other
    if (old.text, old.mark) != (new.text, new.mark):
        yield name, new.change, old.text, new.text if old.text != new.text else f"another {new.text}"


class _Traced:
    """The traces of one function: how many were unlike all before, and the last of them."""

    __slots__ = ("count", "last")

    def __init__(self) -> None:
        self.count = 0
        self.last: deque[TracedArguments] = deque(maxlen=_KEPT)


class Retraces:
    """Those of one framework's functions."""

    def __init__(self, recorder: Recorder, framework: str) -> None:
        self._recorder, self._framework = recorder, framework
        self._known: weakref.WeakKeyDictionary[Any, _Traced] = weakref.WeakKeyDictionary()
        # How many functions were made of this code, each of which is traced.
        self._made: dict[CodeType, int] = {}
        recorder.forgetters.append(self.forget)

    def forget(self) -> None:
        """Know none, as in a forked child."""
        self._known.clear()
        self._made.clear()

    def traced(self, function: Any, name: str, code: CodeType | None, arguments: Callable[[], TracedArguments]) -> None:
        """A function was traced for these: note what changed, where it was traced before. `code` is the script's own that it runs.

        Raises nothing.
        """
        began_ns = now()
        try:
            self._compare(function, name, code, arguments)
        except Exception as error:  # the border: counted, and never raised into the training
            self._recorder.fault(error)
        self._recorder.spent_ns += now() - began_ns

    def _compare(self, function: Any, name: str, code: CodeType | None, arguments: Callable[[], TracedArguments]) -> None:
        known = self._known.get(function)
        if known is None:
            if len(self._known) < MOST_FUNCTIONS:
                self._known[function] = known = _Traced()
                self._meet(known, name, code, arguments())
            return
        found = arguments()
        if len(found) > MOST_ARGUMENTS:
            return
        differences = [changes_between(before, found) for before in reversed(known.last)]
        if not differences or not all(differences):
            # Traced for the same once more, as where variables are made in the first trace.
            return
        known.last.append(found)
        known.count += 1
        self._note(name, known.count, min(differences, key=len))

    def _meet(self, known: _Traced, name: str, code: CodeType | None, found: TracedArguments) -> None:
        if len(found) <= MOST_ARGUMENTS:
            known.last.append(found)
        if code is None or (code not in self._made and len(self._made) >= MOST_FUNCTIONS):
            return
        made = self._made[code] = self._made.get(code, 0) + 1
        if made > 1:
            self._note(name, made - 1, [("", fmt.CHANGED_FUNCTION, "", "")])

    def _note(self, name: str, number: int, changes: list[ArgumentChange]) -> None:
        recorder = self._recorder
        if number > NOTED and number & (number - 1):
            return
        # A process in which nothing trains gets no files for it; what predictions and validation trace is a part of these.
        if not recorder.watched or recorder.local.me.judging:
            return
        noted = [[_short(argument), of, _short(before), _short(after)] for argument, of, before, after in changes[:MOST_CHANGES]]
        line = {"kind": "retrace", "framework": self._framework, "function": name, "at_ns": now(), "number": number, "changes": noted}
        recorder.note({**line, "more": len(changes) - len(noted)})


def _short(text: str) -> str:
    return text if len(text) <= MOST_CHARACTERS else text[: MOST_CHARACTERS - len(_CUT)] + _CUT
