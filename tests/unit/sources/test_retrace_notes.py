"""Lines on functions that were traced again become a table; those that make no sense are counted and left out."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import polars as pl
import pytest

from slowstep.sources._recording.lines import line_tables
from slowstep.sources._recording.notes import MALFORMED_NOTES, read_notes

CHANGES = [["x", "shape", "(3,)", "(4,)"], ["rate", "value", "0.1", "0.09"]]
RETRACE = {"kind": "retrace", "framework": "tensorflow", "function": "step", "at_ns": 50, "number": 2, "changes": CHANGES, "more": 0}


def read(tmp_path: Path, *notes: dict[str, Any]) -> tuple[pl.DataFrame, int]:
    path = tmp_path / "1-1.jsonl"
    path.write_text("".join(json.dumps(note) + "\n" for note in notes))
    found = read_notes(path)
    return line_tables(0, found)["retraces"], sum(row.count for row in found.health if row.name == MALFORMED_NOTES.name)


def test_without_such_lines_the_table_is_empty(tmp_path):
    found, bad = read(tmp_path)

    assert (found.is_empty(), bad) == (True, 0)


def test_each_change_is_a_row(tmp_path):
    found, bad = read(tmp_path, RETRACE)

    assert bad == 0
    assert found.rows() == [(0, 50, "step", 2, "x", "shape", "(3,)", "(4,)"), (0, 50, "step", 2, "rate", "value", "0.1", "0.09")]


@pytest.mark.parametrize(
    "change",
    [
        *({"number": 0}, {"number": None}, {"changes": {}}, {"changes": ["shape"]}, {"changes": [["x", "shape", "(3,)"]]}),
        *({"changes": [["x", "shape", 3, 4]]}, {"function": 3}, {"at_ns": "50"}, {"more": "0"}),
    ],
)
def test_lines_that_make_no_sense_are_counted(tmp_path, change):
    found, bad = read(tmp_path, RETRACE | change)

    assert bad == 1
    assert found.is_empty()
