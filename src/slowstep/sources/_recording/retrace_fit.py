"""Whether lines on functions that were traced again say what their table needs: others write into files too, and processes are killed."""

from __future__ import annotations

from typing import Any, Final

from slowstep.sources._recording.note_types import is_of

# The argument, what of it changed, and how it is written before and after that.
_TEXTS: Final = 4


def retrace_fits(note: dict[str, Any]) -> bool:
    """Whether it is no less than the first one, and each of its changes has all texts."""
    return note["number"] > 0 and all(is_of(change, list[str]) and len(change) == _TEXTS for change in note["changes"])
