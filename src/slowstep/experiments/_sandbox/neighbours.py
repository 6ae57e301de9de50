"""What lies around the working folder, beside a copy of it: there `../data` and `../../data` lead where they lead from the folder."""

from __future__ import annotations

import os
from collections.abc import Iterator
from typing import Final

# So many links are made, those of the nearest folders first: each takes as long as a file.
MOST_LINKS: Final = 20_000


def place_of_copy(cwd: str, root: str) -> str:
    """Where below `root` the copy of a folder goes: as deep as the folder itself, in folders of the same names. Raises OSError."""
    target = (root + cwd).rstrip(os.sep)
    os.makedirs(os.path.dirname(target), 0o700, exist_ok=True)
    return target


def link_neighbours(cwd: str, root: str, *, most: int = MOST_LINKS) -> list[str]:
    """Link to all that lies beside a folder, and beside each folder above it. Raises OSError where the disk does not let it.

    Returns the folders of which not all could be linked: that cannot be listed, or hold too much.
    """
    missing, left = [], most
    for above in _folders_above(cwd):
        names = _names_in(above, left)
        if names is None:
            missing.append(above)
            continue
        left -= len(names)
        for name in names:
            link = os.path.join(root + above, name)
            if not os.path.lexists(link):
                os.symlink(os.path.join(above, name), link)
    return missing


def _folders_above(folder: str) -> Iterator[str]:
    while (above := os.path.dirname(folder)) != folder:
        yield above
        folder = above


def _names_in(folder: str, most: int) -> list[str] | None:
    """What a folder holds; None where it cannot be listed, or is more than `most`."""
    names: list[str] = []
    try:
        with os.scandir(folder) as entries:
            for entry in entries:
                names.append(entry.name)
                if len(names) > most:
                    return None
    except OSError:
        return None  # a folder that others may pass through, as that of all homes may be
    return names
