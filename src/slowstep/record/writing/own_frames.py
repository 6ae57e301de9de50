"""Which files of slowstep's stand for what in the stacks and timed calls of a recording: by the names that they have, and had.

Recordings are read long after they were made, and hold the file names of the slowstep that made them. Whoever moves one of these files
adds its new name here, in front, and takes none away.
"""

from __future__ import annotations

from typing import Final

# What backward is replaced by.
BACKWARD: Final = ("slowstep/frameworks/torch/inside/backward.py", "slowstep/record/hooks/torch_backward.py")
# Where a request for the next batch begins.
REQUEST: Final = ("slowstep/frameworks/torch/inside/_waits.py", "slowstep/record/waits.py")
# What stands around the collating of a batch.
COLLATE: Final = ("slowstep/frameworks/torch/inside/_fetches.py", "slowstep/record/fetches.py")
# All that lives inside a training.
FOLDERS: Final = ("slowstep/record/", "slowstep/frameworks/")


def is_one_of(file: str, files: tuple[str, ...]) -> bool:
    """Whether a file is one of these, wherever slowstep is installed."""
    return file.replace("\\", "/").endswith(files)


def is_own(file: str) -> bool:
    """Whether it is one of slowstep's inside a training."""
    path = file.replace("\\", "/")
    return any(folder in path for folder in FOLDERS)
