"""Whether the clocks of host and device differ in a trace, as far as its order of events tells.

Nothing runs before it is launched, and a call that waits returns after what it waits for (`awaited_work.py`). A device whose clock is
behind breaks the first law, one whose clock is ahead the second. A clock that is ahead also delays every launch by the same: of kernels
that find the device idle none then begins soon, and most begin just as late as the quickest. What is behind by less than launches take, or
ahead in a trace whose device is never idle and in which nothing waits for it, shows nothing.

Where they differ, the same laws bound by how much: no work begins before its launch, nor after the return of what waited for it, and the
quickest launch of many to an idle device takes no longer than launches do.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

import numpy as np
import polars as pl

from slowstep.analyses.device.awaited_work import begins_after_waits
from slowstep.analyses.events.device_work import busiest_device, launching_calls
from slowstep.reasons import Reason, Wording
from slowstep.timeline.clocks import DeviceClock
from slowstep.timeline.intervals import Flags, Ints
from slowstep.timeline.timeline import Timeline

# Profilers lay the device's clock over the host's with some microseconds' error; what is this little early is taken to be in time.
CLOCKS_NS: Final = 5_000
# What a trace does not show of its launches, as of its kernels, must be less than what a verdict is about: a tenth.
EARLY_FROM: Final = 0.10
# Usual launches reach an idle device sooner than this, under a profiler in up to some 20 us: in eleven traces of V100 to B200 and MI300 the
# quickest takes 5 to 13 us.
LAUNCH_AT_MOST_NS: Final = 30_000
# Assumed: through Windows' driver model, or to a device of another machine, the quickest launch may take 0.1 ms. What is less is no sign.
AHEAD_FROM_NS: Final = 200_000
# So many launches must have found the device idle, and this part of all: else what begins late may wait for another stream or process.
IDLE_AT_LEAST: Final = 20
IDLE_SHARE: Final = 0.10
SAME_DELAY: Final = 0.5
WAITS_AT_LEAST: Final = 2

BEHIND: Final = Wording(
    "clock-behind",
    "{share:share} of the device's work begins before its launch: the device's clock is behind the host's by {by:rough_ms} ms or more",
)
AHEAD_AT_LAUNCHES: Final = Wording(
    "clock-ahead-at-launches",
    "nothing reaches the idle device sooner than {least:rough_ms} ms after its launch: "
    "the device's clock is ahead of the host's by {by:rough_ms} ms or more",
)
AHEAD_AT_WAITS: Final = Wording(
    "clock-ahead-at-waits",
    "work begins after the calls that waited for it have returned: the device's clock is ahead of the host's by {by:rough_ms} ms or more",
)
REMEDY: Final = "trace again with newer releases of profiler and driver, or record the training: slowstep run"


@dataclass(frozen=True, kw_only=True, slots=True)
class Clocks:
    """How a device's clock stands to the host's: `early` events begin before their launch; `differ` is how, where it matters.

    `device`: the bounds of its offset then; None where nothing bounds it on both sides.
    """

    early: int
    differ: Reason | None
    device: DeviceClock | None = None


def find_clocks(timeline: Timeline) -> Clocks:
    """The clocks of the host and of the device that is judged."""
    device = busiest_device(timeline)
    if device is None:
        return Clocks(early=0, differ=None)
    # Before the ledger nothing should be made that stays: what the callers keep would be held together with all that charging takes.
    work = timeline.rows("device_events", "device", "start_ns", "end_ns", "correlation").filter(pl.col("device") == device)
    return compare_clocks(timeline, device, work.join(launching_calls(timeline), on="correlation", how="left"))


def compare_clocks(timeline: Timeline, device: int, work: pl.DataFrame) -> Clocks:
    """The clocks of the host and of one device, whose `work` has `start_ns`, `end_ns` and `launch_start_ns` (null if unknown)."""
    work = work.select("start_ns", "end_ns", "launch_start_ns").sort("start_ns")
    reach = work["end_ns"].cum_max().shift(1)
    work = work.with_columns(idle=(pl.col("start_ns") - reach > 2 * CLOCKS_NS).fill_null(value=False))
    known = work.filter(pl.col("launch_start_ns").is_not_null())
    start, sent = known["start_ns"].to_numpy(), known["launch_start_ns"].to_numpy()
    early = int(np.count_nonzero(start < sent))
    idle, late = known["idle"].to_numpy(), begins_after_waits(timeline, device, start, sent)
    differ = _behind(sent - start) or _launched(start - sent, idle) or _awaited(late)
    return Clocks(early=early, differ=differ, device=None if differ is None else _offset(sent - start, idle, late))


def _offset(before_launch: Ints, idle: Flags, late: Ints) -> DeviceClock | None:
    """What has to be added to the device's times: at least that no work begins before its launch, at most that none begins after what
    waited for it had returned.
    """
    # One in a hundred may be led back to a wrong call, and one wait to wrong work.
    low = int(np.percentile(before_launch, 99, method="lower"))
    most = [low + LAUNCH_AT_MOST_NS] if _finds_idle(idle) else []
    most += [-int(np.sort(late)[-WAITS_AT_LEAST])] if len(late) >= WAITS_AT_LEAST else []
    return DeviceClock(offset_low_ns=low, offset_high_ns=min(most)) if most and low <= min(most) else None


def _finds_idle(idle: Flags) -> bool:
    """Whether enough launches found the device idle to tell how long a launch takes."""
    return int(np.count_nonzero(idle)) >= max(IDLE_AT_LEAST, IDLE_SHARE * len(idle))


def _behind(before_launch: Ints) -> Reason | None:
    """Says it where too much work begins before its launch."""
    early = before_launch[before_launch > CLOCKS_NS]
    if not len(early) or len(early) < EARLY_FROM * len(before_launch):
        return None
    # The quickest launches show most of the difference; one in a hundred may be led back to a wrong call.
    return BEHIND(share=len(early) / len(before_launch), by=float(np.percentile(early, 99)))


def _awaited(late: Ints) -> Reason | None:
    """Says it where work begins after most calls that waited for it had returned; one event's wrong times say nothing."""
    broken = late[late > LAUNCH_AT_MOST_NS]
    if len(broken) < WAITS_AT_LEAST or 2 * len(broken) <= len(late):
        return None
    return AHEAD_AT_WAITS(by=float(np.median(broken)))


def _launched(delay: Ints, idle: Flags) -> Reason | None:
    """Says it where all launches to an idle device take longer than a launch does, and most take the same."""
    if not _finds_idle(idle):
        return None
    own = delay[idle]
    least = int(own.min())
    same = np.count_nonzero(own - least <= LAUNCH_AT_MOST_NS) >= SAME_DELAY * len(own)
    if least <= AHEAD_FROM_NS or not same:
        return None
    return AHEAD_AT_LAUNCHES(least=least, by=least - LAUNCH_AT_MOST_NS)
