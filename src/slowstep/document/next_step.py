"""What to do next, as a report names it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final


@dataclass(frozen=True, kw_only=True, slots=True)
class NextStep:
    """`first` is to be done before `command` is typed, or is all there is to do; None where nothing is. `why` is what the command tells;
    `folder` the one in which the script was started, where that is known.
    """

    command: str | None = None
    first: str | None = None
    why: str | None = None
    folder: str | None = None


NOTHING_NEXT: Final = NextStep()
