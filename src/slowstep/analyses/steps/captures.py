"""The capture of a few steps by a profiler in the middle of the recording: which steps it spoiled, and what it cost."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from slowstep.analyses.steps.suspensions import stretches_that_hold
from slowstep.analyses.steps.trainer import Trainer
from slowstep.frameworks._known import plain
from slowstep.frameworks._remedies import Remedy
from slowstep.timeline.intervals import Ints

# Steps before and after that are compared, and the times that they are drawn anew for the interval of the ratio.
COMPARED = 30
FEWEST_COMPARED = 10
DRAWS = 500
# Neighbouring identical runs differ by 4 % (docs/accuracy.md): a slow-down that is surely more lasts.
LASTING_FROM = 1.04
# Older recordings do not name it: they have no other one.
_DEFAULT_PROFILER = plain().advise(Remedy.PROFILER)


@dataclass(frozen=True, kw_only=True, slots=True)
class Capture:
    """One capture by a `profiler`: `file` in the recording's folder, None with the `reason` where none was taken. None is unknown.

    `extra_ns` is what its steps, and the writing of its file, took longer than as many others; `slowdown` the median step after it by that
    before it, `slowdown_low` the low end of its 90 % interval.
    """

    file: str | None
    reason: str | None
    first: int | None
    last: int | None
    begin_ns: int
    end_ns: int
    profiler: str = _DEFAULT_PROFILER
    extra_ns: float | None = None
    slowdown: float | None = None
    slowdown_low: float | None = None

    @property
    def lasts(self) -> bool:
        """Whether the training is surely slower since."""
        return (self.slowdown_low or 0.0) > LASTING_FROM

    def holds(self, edges_ns: Ints) -> NDArray[np.bool_]:
        """Which of the stretches between `edges_ns` it spoiled."""
        if self.end_ns <= self.begin_ns:
            return np.zeros(max(len(edges_ns) - 1, 0), dtype=bool)
        return stretches_that_hold([(self.begin_ns, self.end_ns)], edges_ns)


def find_capture(trainer: Trainer) -> Capture | None:
    """The capture that this process noted, with what it cost; None where none was asked for."""
    notes = trainer.facts.notes.get("captures") or []
    if not notes:
        return None
    note = notes[-1]
    capture = Capture(
        file=note.get("file"),
        reason=note.get("reason"),
        first=note.get("first"),
        last=note.get("last"),
        begin_ns=int(note.get("begin_ns") or 0),
        end_ns=int(note.get("end_ns") or 0),
        profiler=str(note.get("profiler") or _DEFAULT_PROFILER),
    )
    return _with_cost(capture, trainer.update_end_ns)


def _with_cost(capture: Capture, ends_ns: Ints) -> Capture:
    """Steps here go from the end of one update to the end of the next."""
    spoiled = capture.holds(ends_ns)
    if not spoiled.any():
        return capture
    lengths = np.diff(ends_ns).astype(np.float64)
    at = np.flatnonzero(spoiled)
    before, after = lengths[: at[0]][-COMPARED:], lengths[at[-1] + 1 :][:COMPARED]
    if len(before) < FEWEST_COMPARED:
        return capture
    extra = float(lengths[at].sum() - len(at) * np.median(before))
    if len(after) < FEWEST_COMPARED:
        return replace(capture, extra_ns=max(extra, 0.0))
    draw = np.random.default_rng(0)
    ratios = np.median(draw.choice(after, (DRAWS, len(after))), axis=1) / np.median(draw.choice(before, (DRAWS, len(before))), axis=1)
    ratio = float(np.median(after) / np.median(before))
    return replace(capture, extra_ns=max(extra, 0.0), slowdown=ratio, slowdown_low=float(np.quantile(ratios, 0.05)))
