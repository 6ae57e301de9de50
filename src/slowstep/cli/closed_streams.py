"""Standard streams whose reader went away: Python would complain about them once more at its own end, and end with 120."""

from __future__ import annotations

import os
import sys


def detach_closed_streams() -> None:
    """Discard what nobody reads any more, and all that is written to it from now on. Raises nothing."""
    for stream in (sys.stdout, sys.stderr):
        if stream is None:
            continue
        try:
            stream.flush()
        except ValueError:  # closed by somebody: nothing of it is left
            continue
        except OSError:
            _discard(stream.fileno())


def _discard(descriptor: int) -> None:
    try:
        nowhere = os.open(os.devnull, os.O_WRONLY)
    except OSError:
        return
    os.dup2(nowhere, descriptor)
    os.close(nowhere)
