"""Charges the time of a device that works while the host goes on, by what the framework counts of it, and where nothing tells of it.

The host tells nothing of the step then: no more of its time is charged than the device idled, within bounds. What of the idle time may have
been in one part of the host as well as in another is `UNKNOWN`, and all of it where nobody counts the work.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Final

import numpy as np

from slowstep.analyses.batches.counted_work import CountedWork
from slowstep.analyses.steps.steps import Floats, Steps
from slowstep.parts import UNKNOWN, UPDATES, Part, PartKind

COUNTED_WAIT = Part("preprocess", PartKind.INPUT_WAIT)

# The stage of what the device does, and of the calls that give it work: small things are computed in these.
DEVICE_STAGE: Final = "compute"
# What the host does of that stage itself, and knows the length of.
_HOSTS_OWN: Final = (PartKind.COMPILATION, PartKind.COMPILING)

NsByPart = dict[Part, Floats]


@dataclass(frozen=True, slots=True)
class CountedRows:
    """Rows that sum to the steps; the least and the most of each where not all is known, else None."""

    ns: NsByPart
    low: NsByPart | None = None
    high: NsByPart | None = None

    def changed(self, change: Callable[[NsByPart], NsByPart]) -> CountedRows:
        """The same change in all that is known."""
        low, high = (None if ns is None else change(ns) for ns in (self.low, self.high))
        return CountedRows(change(self.ns), low, high)


def is_hosts_own(part: Part) -> bool:
    """Whether it is of the device's stage, and the host's all the same."""
    return part.stage == DEVICE_STAGE and part.kind in _HOSTS_OWN


def charge_counted(counted: CountedWork, steps: Steps, rows: NsByPart) -> CountedRows:
    """The device's account in place of the host's, whose `rows` they are."""
    if counted.busy_ns is None:
        return bound_unseen(rows, UPDATES, counted.waited_ns)
    whole = np.diff(steps.edges_ns).astype(np.float64)
    host = {part: ns for part, ns in rows.items() if part.stage != DEVICE_STAGE}
    calls = np.sum([np.zeros_like(whole), *(ns for part, ns in rows.items() if part.stage == DEVICE_STAGE)], axis=0)
    return _seen(counted.busy_ns, counted.waited_ns, whole, calls, host)


def hide_waits(rows: NsByPart) -> CountedRows:
    """The host's account where calls of the framework wait for input too: what of them is which is not known."""
    calls = rows.get(UPDATES)
    if calls is None:
        return CountedRows(rows)
    nothing = np.zeros_like(calls)
    open_parts = (COUNTED_WAIT, UPDATES, UNKNOWN)
    known = {part: ns for part, ns in rows.items() if part not in open_parts}
    low = {**known, **dict.fromkeys(open_parts, nothing)}
    return CountedRows(ns={**low, UNKNOWN: calls}, low=low, high={**known, **dict.fromkeys(open_parts, calls)})


def bound_unseen(rows: NsByPart, work: Part, waited: Floats | None = None) -> CountedRows:
    """The host's `rows` where it is not known when the device works: it may always do, and may have idled in each of the host's parts.

    `work` is the device's own part; `waited` what the host's calls for it waited for input, if that was counted: the device may have had
    work left from before.
    """
    whole = np.sum(list(rows.values()), axis=0)
    nothing = np.zeros_like(whole)
    host = {part: ns for part, ns in rows.items() if part.stage != DEVICE_STAGE or is_hosts_own(part)}
    if waited is not None:
        host[COUNTED_WAIT] = np.minimum(host.get(COUNTED_WAIT, nothing) + waited, whole)
    low = dict.fromkeys((*host, work, UNKNOWN), nothing)
    return CountedRows(ns={**low, UNKNOWN: whole}, low=low, high={**host, work: whole, UNKNOWN: whole})


def _seen(busy: Floats, waited: Floats, whole: Floats, calls: Floats, host: NsByPart) -> CountedRows:
    """Of a device of which it is known for how long it computed, and waited for its input."""
    # What is in one of the steps of a window is estimated.
    fits = np.divide(whole, busy + waited, out=np.ones_like(whole), where=busy + waited > whole)
    busy, waited = busy * fits, waited * fits
    idle = whole - busy - waited
    # It surely idled in a part where all else of the host's time is too short for that.
    low = {part: np.maximum(idle - (whole - ns), 0.0) for part, ns in host.items()}
    rest = idle - np.sum([np.zeros_like(whole), *low.values()], axis=0)
    high = {part: np.minimum(idle, ns) for part, ns in host.items()}
    known = {COUNTED_WAIT: waited}
    return CountedRows(
        ns={**low, **known, UPDATES: busy, UNKNOWN: rest},
        low={**low, **known, UPDATES: busy, UNKNOWN: np.zeros_like(rest)},
        # A device that idles in the framework's own calls waits for these.
        high={**high, **known, UPDATES: busy + np.minimum(idle, calls), UNKNOWN: rest},
    )
