"""Interactive cell code, which is not saved: its made-up file names become what the user sees, such as `cell In[3]`."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import Any, Final

from slowstep.sources._recording.notes import NoteLines

# IPython in a terminal, without a note of the cell's number.
_TYPED = re.compile(r"<ipython-input-(\d+)-\w+>")
# Lines that name several files: the kind, the field with a row for each, and where in a row the file stands.
_IN_LISTS: Final[tuple[tuple[str, str, int | str], ...]] = (
    ("training_path", "frames", 0),
    ("forward_path", "frames", 0),
    ("calls", "functions", "file"),
    ("lines", "lines", "file"),
    ("lines", "functions", "file"),
    ("loops", "functions", 0),
    ("loops_around", "functions", 0),
)


def name_cells(parts: list[NoteLines], launchers: list[NoteLines]) -> None:
    """Rename the files of cells in all lines that name a file; the numbers are those that IPython itself shows."""
    cells: dict[str, int] = {}
    for launcher in launchers:
        for note in launcher.of("cells"):
            cells |= note["cells"]
    for notes in parts:
        for line, key in _places(notes):
            line[key] = cell_name(line[key], cells)


def cell_name(file: str, cells: Mapping[str, int]) -> str:
    """What a file is called: `cell In[3]` for a cell, its own name otherwise."""
    typed = _TYPED.fullmatch(file)
    number = cells.get(file, int(typed[1]) if typed else None)
    return file if number is None else f"cell In[{number}]"


def _places(notes: NoteLines) -> Iterator[tuple[Any, Any]]:
    for kind in ("frame", "training_frame", "forward_frame"):
        for line in notes.of(kind):
            yield line, "file"
    for kind, field, key in _IN_LISTS:
        for line in notes.of(kind):
            for row in line.get(field, ()):
                yield row, key
    for line in notes.of("iterator"):
        if line.get("collate_file"):
            yield line, "collate_file"
