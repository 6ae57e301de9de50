"""Whether a script ended because of the lever that was on, and what it died of: the script as it is may be right. Pure."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Final

from slowstep.prove.choose import Choice
from slowstep.prove.executor import Ending
from slowstep.prove.stats.design import CONTROL, FIRST
from slowstep.prove.stats.effects import ArmNote
from slowstep.reasons import SAID, Reason, Wording
from slowstep.record.writing.format import LEVER_GIVEN_UP, LEVER_SPOILT

# The exit code of a command that SIGKILL ended: the kernel's way out where memory runs short.
KILLED_BY_OTHERS: Final = 128 + 9
# How Python, torch on a processor and on a device, the C++ library, XLA and the system say it.
_NO_MEMORY: Final = re.compile(
    r"MemoryError|OutOfMemory|out of memory|can't allocate memory|not enough memory|Cannot allocate memory|bad_alloc|RESOURCE_EXHAUSTED",
    re.IGNORECASE,
)
NOT_BACK: Final = Wording("loss-not-back", "{said}, and the training did not come back from it")
KILLED: Final = Wording("killed-while-on", "probably out of memory: the script was killed (SIGKILL) while it was on")
OUT_OF_MEMORY: Final = Wording("out-of-memory-while-on", "out of memory while it was on ({said})")
ENDED_WHILE_ON: Final = Wording("ended-while-on", "the script ended with exit code {code} while it was on{error}")
_ERROR_SAID: Final = Wording("error-said", " ({said})")
# The line of a traceback that names the error.
_ERROR: Final = re.compile(r"[A-Za-z_][\w.]*(: .*)?$")
_TRACEBACK: Final = "Traceback (most recent call last)"
_LONGEST: Final = 200


@dataclass(frozen=True, kw_only=True, slots=True)
class LeverFault:
    """A lever with which the training could not go on: the experiment does without it. `spoils`: its loss was not finite any more."""

    choice: Choice
    reason: Reason
    spoils: bool = False


def find_faults(
    choices: Sequence[Choice], switched: Iterable[ArmNote], notes: Iterable[ArmNote], ending: Ending, own: Iterable[ArmNote] = ()
) -> tuple[LeverFault, ...]:
    """The levers with which the training could not go on: it was spoilt by them, or failed while one was on. `switched` is what it noted at
    each switch, `notes` what it noted of levers, `own` of errors that are the script's own.
    """
    switched, notes = tuple(switched), tuple(notes)
    found, arm = spoilers(notes), arm_at_end(switched)
    cause = None if ended_by_own_error(own, ending) else cause_of(ending)
    late = {} if cause is None else spoilt_before_end(switched, notes)
    if cause is not None and arm is not None and not late:
        found[arm] = cause
    found |= late
    return tuple(LeverFault(choice=choices[at - FIRST], reason=found[at], spoils=at != arm or bool(late)) for at in sorted(found))


def ended_by_own_error(own: Iterable[ArmNote], ending: Ending) -> bool:
    """Whether a script ended by an error of which a lever has noted that it is the script's own."""
    said = error_in(ending.output)
    return any(note.get("error") and str(note["error"]) in said for note in own)


def given_up(notes: Iterable[ArmNote]) -> dict[int, ArmNote]:
    """The arms whose levers refused, or failed, be it late, each with what was noted first: which of their steps these were still on in is
    not known.
    """
    found: dict[int, ArmNote] = {}
    for note in notes:
        if note.get("state") in LEVER_GIVEN_UP:
            found.setdefault(int(note["arm"]), note)
    return found


def arm_at_end(switched: Iterable[ArmNote]) -> int | None:
    """The arm that was on last, by what the training noted at each switch; None where it was none with a lever."""
    last = None
    for note in switched:
        last = note.get("arm")
    return last if isinstance(last, int) and last > CONTROL else None


def spoilers(notes: Iterable[ArmNote]) -> dict[int, Reason]:
    """The arms from which the training did not come back to a finite loss, each with what was said when it was ended."""
    notes = tuple(notes)
    spoilt = {note["arm"] for note in notes if note.get("state") == LEVER_SPOILT}
    return {
        note["arm"]: NOT_BACK(said=note["reason"]) for note in notes if note.get("arm") in spoilt and note.get("not_finite") is not None
    }


def spoilt_before_end(switched: Iterable[ArmNote], notes: Iterable[ArmNote]) -> dict[int, Reason]:
    """The levers that were ended for their loss and were on until the last switch, with what was said: a script may raise as soon as it
    sees such a loss, and whatever is on by then is not at fault.
    """
    on = [note.get("arm") for note in switched][-2:]
    late = [note for note in notes if note.get("not_finite") is not None and note.get("arm") in on[:-1]]
    return {note["arm"]: SAID(said=note["reason"]) for note in late}


def cause_of(ending: Ending) -> Reason | None:
    """Why a script ended by a fault, to follow the name of the lever that was on; None where it ended well, or was ended by us."""
    if ending.killed or ending.problem is not None or not ending.exit_code:
        return None
    said = error_in(ending.output)
    if ending.exit_code == KILLED_BY_OTHERS:
        return KILLED()
    if _NO_MEMORY.search(ending.output.rpartition(_TRACEBACK)[2]):
        return OUT_OF_MEMORY(said=said)
    return ENDED_WHILE_ON(code=ending.exit_code, error=_ERROR_SAID(said=said) if said else None)


def error_in(output: str) -> str:
    """The error that the end of an output tells of, in one line; its last line where there is no traceback."""
    lines = [line.rstrip() for line in output.rpartition(_TRACEBACK)[2].splitlines() if line.strip()]
    named = [line for line in lines if _ERROR.match(line)] if _TRACEBACK in output else lines[-1:]
    # Of a text of several lines the one that says so, else the first: the rest of it is advice.
    found = next((line for line in named if _NO_MEMORY.search(line)), named[0] if named else "")
    return found if len(found) <= _LONGEST else f"{found[: _LONGEST - 3]}..."
