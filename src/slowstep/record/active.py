"""The recorder of this process."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from slowstep.record.recorder import Recorder

# One, or none where this process is not being recorded.
recorders: list[Recorder] = []


def active() -> Recorder | None:
    """This process's recorder; None when it is not being recorded."""
    return recorders[0] if recorders and recorders[0].live[0] else None
