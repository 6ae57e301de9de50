"""One case tried: whether it fails, in which way, and the fewest of its changes with which it does so."""

from __future__ import annotations

import re
import tempfile
import time
import traceback
import warnings
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path

from fuzz.answer import Refused, faults_of_answer
from fuzz.case import Case, Target, made

# Far more than any of these small inputs takes, on any machine: what takes longer counts somewhere what a damaged number says.
MOST_CPU_S = 60.0


@dataclass(frozen=True, kw_only=True)
class Failure:
    """`kind` is the same for whatever fails at one place in one way; `details` are for whoever mends it."""

    case: Case
    kind: str
    changes: tuple[str, ...]
    details: str

    def __str__(self) -> str:
        lines = (self.kind, f"  case: {self.case}", *(f"  change: {words}" for words in self.changes), self.details)
        return "\n".join(lines)


@dataclass(frozen=True, kw_only=True)
class Outcome:
    """`failure` is None where all is well: there is a report, or it is said why there is none."""

    failure: Failure | None
    reported: bool


def tried(target: Target, case: Case) -> Outcome:
    """What becomes of a case."""
    with tempfile.TemporaryDirectory(prefix="slowstep-fuzz-") as name, warnings.catch_warnings(record=True) as warned:
        warnings.simplefilter("always")
        folder = Path(name)
        changes: list[str] = []
        began = time.process_time()
        try:
            path, changes = made(target, case, folder)
            found = faults_of_answer(path, folder)
        except Refused:
            return Outcome(failure=None, reported=False)
        except Exception as error:
            failure = Failure(case=case, kind=_kind(error), changes=tuple(changes), details=traceback.format_exc())
            return Outcome(failure=failure, reported=False)
    took = time.process_time() - began
    # The user would see them, and does not know what to do.
    found += [f"{each.category.__name__} in {Path(each.filename).name}:{each.lineno}: {each.message}" for each in warned]
    if took > MOST_CPU_S:
        found.append(f"it took {took:.0f} s of CPU time")
    failed = Failure(case=case, kind=_kind_of(found[0]), changes=tuple(changes), details="\n".join(found)) if found else None
    return Outcome(failure=failed, reported=True)


def minimised(failure: Failure, again: Callable[[Case], Outcome]) -> Failure:
    """The same failure with no change in it that it can do without."""
    for at in reversed(range(len(failure.case.changes))):
        changes = failure.case.changes[:at] + failure.case.changes[at + 1 :]
        other = again(replace(failure.case, changes=changes)).failure
        failure = other if other is not None and other.kind == failure.kind else failure
    return failure


def _kind_of(fault: str) -> str:
    """What a fault has in common with the same of other inputs: their numbers differ."""
    return re.sub(r"\d[\d.e+-]*", "N", fault)[:100]


def _kind(error: Exception) -> str:
    """The exception and the place in slowstep at which it arose."""
    frames = [frame for frame in traceback.extract_tb(error.__traceback__) if "slowstep/" in frame.filename.replace("\\", "/")]
    ours = [frame for frame in frames if "/src/slowstep/" in frame.filename] or frames
    where = f"{ours[-1].filename.rpartition('slowstep/')[2]}:{ours[-1].name}" if ours else "outside"
    return f"{type(error).__name__} in {where}"
