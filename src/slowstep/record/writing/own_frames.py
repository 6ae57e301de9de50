"""Which files are slowstep's own, of those that live inside a training, in the stacks and timed calls of a recording."""

from __future__ import annotations

from typing import Final

FOLDERS: Final = ("slowstep/record/", "slowstep/frameworks/")


def is_own(file: str) -> bool:
    """Whether a file is one of them, wherever slowstep is installed."""
    path = file.replace("\\", "/")
    return any(folder in path for folder in FOLDERS)
