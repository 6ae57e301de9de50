"""What to do next, as a report names it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final


@dataclass(frozen=True, kw_only=True, slots=True)
class NextStep:
    """`first` is to be done before `command` is typed, or is all there is to do; None where nothing is. `why` is what the command tells.
    `starts_script`: whether it starts the training's script; `folder` is the one in which that was started, where it is known.
    `in_python`: whether it is a line of Python, and none for a shell.
    """

    command: str | None = None
    first: str | None = None
    why: str | None = None
    starts_script: bool = False
    in_python: bool = False
    folder: str | None = None


NOTHING_NEXT: Final = NextStep()
