"""Interactive cell code, of a notebook or a prompt, which is not saved: its top level goes on from one to the next."""

from __future__ import annotations

import re

from slowstep.timeline.timeline import Frame

TYPED = re.compile(r"cell In\[\d+\]|<stdin>|<python-input-\d+>")
TOP_LEVEL = re.compile(r"<module>|<cell line: \d+>")


def is_cell_top_level(frame: Frame) -> bool:
    """Whether a frame is the top level of a cell, or of a command at a prompt."""
    return bool(TYPED.fullmatch(frame.file) and TOP_LEVEL.fullmatch(frame.function))


def without_shell(path: tuple[Frame, ...]) -> tuple[Frame, ...]:
    """A path without what a notebook does to run a cell, which is another way for each kind of cell: from the cell's own top level on."""
    return next((path[depth:] for depth in range(len(path) - 1, -1, -1) if is_cell_top_level(path[depth])), path)
