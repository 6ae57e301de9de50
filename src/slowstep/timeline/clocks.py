"""Clocks of devices and the host's: what a device tells by its own, by the host's within bounds."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from slowstep.timeline.spine import LONG_AGO, NEVER, DeviceIntervals, Stretches


@dataclass(frozen=True, kw_only=True, slots=True)
class DeviceClock:
    """How a device's clock stands to the host's: what is to be added to its times lies between two offsets, and that is known between two
    instants of the host's.
    """

    offset_low_ns: int
    offset_high_ns: int
    from_ns: int = LONG_AGO
    until_ns: int = NEVER


def on_host(device: DeviceIntervals, clock: DeviceClock) -> DeviceIntervals:
    """What a complete account by the device's own clock tells by the host's: within the offset's bounds, where these are known.

    When it was dispatched is the host's time already.
    """
    low, high = clock.offset_low_ns, clock.offset_high_ns
    begin, end = device.start_low_ns + low, device.end_high_ns + high
    within = np.flatnonzero((begin >= clock.from_ns) & (end <= clock.until_ns))
    # What lies across an end of that time is known in part only.
    first = int(np.max(end[begin < clock.from_ns], initial=clock.from_ns))
    last = int(np.min(begin[end > clock.until_ns], initial=clock.until_ns))
    kept = device.rows(within)
    return replace(
        kept,
        start_low_ns=kept.start_low_ns + low,
        start_high_ns=kept.start_high_ns + high,
        end_low_ns=kept.end_low_ns + low,
        end_high_ns=kept.end_high_ns + high,
        complete=None if (first, last) == (LONG_AGO, NEVER) else Stretches(np.array([first]), np.array([max(first, last)])),
    )
