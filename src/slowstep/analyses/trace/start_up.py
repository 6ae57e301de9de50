"""What a trace without steps begins with: what the host did before the device's first work, which is no part of any step."""

from __future__ import annotations

from typing import Final

import polars as pl

from slowstep.analyses.trace.held import held_longest
from slowstep.reasons import Reason, Wording
from slowstep.timeline.timeline import Timeline

# Shares are shown in whole percents: what rounds to none is left out without a word.
SAID_FROM: Final = 0.005

START_UP: Final = Wording(
    "start-up", "{ns:duration} before the device's first work ({share:share} of the trace{most}) are start-up and left out"
)
MOST_IN_CALL: Final = Wording("most-in-call", ", most of it in {call}")


def start_up_note(timeline: Timeline, begin_ns: int, first_work_ns: int, end_ns: int, thread: int | None) -> tuple[Reason, ...]:
    """A note on the stretch from the begin of the trace to the device's first work, with the call that held longest in it.

    Whether that is the start of the runtime or the making of a first batch, a trace without steps does not tell; `end_ns` is its end.
    """
    length_ns = first_work_ns - begin_ns
    if length_ns < SAID_FROM * (end_ns - begin_ns):
        return ()
    stretch = {"thread": -1 if thread is None else thread, "start_ns": begin_ns, "end_ns": first_work_ns, "launched_ns": first_work_ns}
    host = timeline.rows("host_events", "thread", "start_ns", "end_ns", "kind", "name").filter(pl.col("start_ns") < first_work_ns)
    # Of two that begin and end together the same one is named, whatever their order in the file.
    host = host.sort("start_ns", "end_ns", "kind", pl.col("name").cast(pl.String))
    call = held_longest(host, pl.DataFrame([stretch]))[0][0]
    most = None if call is None else MOST_IN_CALL(call=call)
    return (START_UP(ns=length_ns, share=length_ns / (end_ns - begin_ns), most=most),)
