"""A device that works by itself, seen from the host: when work was issued, and whether it had ended when the host asked.

Asking costs next to nothing and waits for nothing; a call that waits for the device tells the same when it returns. What is issued is done
in its order, and the device is never idle while it has any of it, but for the latency of a launch.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from slowstep.timeline.intervals import Ints
from slowstep.timeline.spine import NEVER, DeviceIntervals


@dataclass(frozen=True, kw_only=True, slots=True)
class Issued:
    """Work in the order in which it was issued, each a single call or a group of them: when its first call and its last were begun, when
    the last returned, and the thread that called. Shape (n,).
    """

    first_ns: Ints
    last_ns: Ints
    returned_ns: Ints
    thread: Ints


@dataclass(frozen=True, kw_only=True, slots=True)
class Probes:
    """When the host asked, of which work (its row in `Issued`), and whether it and all before it had ended. Shape (m,)."""

    at_ns: Ints
    work: Ints
    ended: NDArray[np.bool_]


def seen_by_probes(issued: Issued, probes: Probes, latency_ns: int) -> DeviceIntervals:
    """What is known of when the device worked; `latency_ns`: the most that lies between a call and the begin of its work on an idle device.

    It surely worked from the last call of a group to where that had not ended yet: between calls of a group it may have had nothing to do.
    """
    count = len(issued.first_ns)
    low, high = issued.first_ns.copy(), np.full(count, NEVER)
    np.maximum.at(low, probes.work[~probes.ended], probes.at_ns[~probes.ended])
    np.minimum.at(high, probes.work[probes.ended], probes.at_ns[probes.ended])
    single = issued.first_ns == issued.last_ns
    return DeviceIntervals(
        start_low_ns=issued.first_ns,
        start_high_ns=issued.last_ns + latency_ns,
        # What comes later in the queue ends later.
        end_low_ns=np.maximum.accumulate(low),
        end_high_ns=np.minimum.accumulate(high[::-1])[::-1],
        rank=np.zeros(count, dtype=np.int64),
        thread=issued.thread,
        dispatched_low_ns=np.where(single, issued.returned_ns, issued.first_ns),
        dispatched_high_ns=issued.returned_ns,
    )
