"""When a recording that was to last for a time is over, though no update ends it: from what `--for` counts.

It counts from the first update. A training that builds an optimizer and updates its parameters by hand makes none that is seen: there it
counts from the first backward pass that is over. Where nothing of a training is seen at all, only who asked for the command's end is kept
waiting by it: then, with `--stop`, it counts from the command's start and START_UP_S more, since many trainings take longer to start than
they are recorded.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from slowstep.record.writing.control import ControlPage

# Imports, indexing and a download; a command that takes longer to begin to train is told to give `--for` more.
START_UP_S: Final = 120.0
# The recorder looks at the time when it records an update, and goes first.
RECORDER_S: Final = 1.0


def is_overdue(page: ControlPage, seconds: float | None, now_ns: int, *, waiting_since_ns: int | None = None) -> bool:
    """Whether the time is over, as seen from outside the training thread. `waiting_since_ns` is when the command that is to be ended
    was started; None where nobody waits for its end.
    """
    if seconds is None:
        return False
    if (update_ns := page.first_update_ns) is not None:
        return now_ns - update_ns > (seconds + RECORDER_S) * 1e9
    if (backward_ns := page.first_backward_ns) is not None:
        return now_ns - backward_ns > (seconds + RECORDER_S) * 1e9
    return waiting_since_ns is not None and now_ns - waiting_since_ns > (seconds + START_UP_S) * 1e9
