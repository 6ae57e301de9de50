"""Run the user's command without recording, and stand between it and the signals that are meant for it."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Final

from slowstep.record.launching import child
from slowstep.record.launching.signals import FORWARDED, Inbox

if TYPE_CHECKING:
    from collections.abc import Mapping

    from slowstep.record.launching.command import Command
    from slowstep.record.launching.signals import ReceivedSignal

# While nothing is to be decided; what happens wakes the waiting by a signal.
IDLE_TICK_S: Final = 1.0


def run_plainly(command: Command, environ: Mapping[str, str]) -> int:
    """Run a command to its end without recording; its exit code (128 + n for signal n). Raises CommandNotStarted."""
    with Inbox() as inbox:
        return wait_plainly(child.start_command(command, environ, mask=inbox.mask_before), inbox)


def wait_plainly(pid: int, inbox: Inbox) -> int:
    """Wait for the end of a child, passing on its signals; its exit code."""
    while not child.has_ended(pid):
        received = inbox.receive(IDLE_TICK_S)
        if received is not None:
            forward(received, pid)
    return child.collect(pid)


def forward(received: ReceivedSignal, pid: int) -> None:
    """Pass a signal on to the command, unless the sender has reached it already."""
    if received.for_all or received.number not in FORWARDED:
        return
    try:
        os.kill(pid, received.number)
    except (ProcessLookupError, PermissionError):
        pass
