"""Whether lines on padding say what their tables need: others write into files too, and processes are killed."""

from __future__ import annotations

from typing import Any

from slowstep.sources._recording.note_types import are_counts, is_of

# Of each array of a batch, and of one whose sequences end alike.
NUMBERS = ("array", "rows", "length")
OF_RUNS = ("value", "side", "inside", "values")


def padded_fits(note: dict[str, Any]) -> bool:
    """Whether each of its arrays has the numbers that are read, of lengths none that is longer than its rows."""
    return all(isinstance(each, dict) and _array_fits(each) for each in note["arrays"])


def _array_fits(each: dict[str, Any]) -> bool:
    if not all(is_of(each.get(key), int) and each[key] >= 0 for key in NUMBERS) or not is_of(each.get("mask"), bool):
        return False
    if "lengths" not in each:
        return True
    lengths: Any = each["lengths"]
    is_whole = is_of(lengths, list[int]) and bool(lengths) and all(0 <= length <= each["length"] for length in lengths)
    return is_whole and all(is_of(each.get(key), int) for key in OF_RUNS)


def shapes_fit(note: dict[str, Any]) -> bool:
    """Whether its rows are a shape and three numbers each, none of them negative."""
    return are_counts([note["nodes"], note.get("uses", 0)]) and all(
        isinstance(row, list) and len(row) == 4 and is_of(row[0], list[int]) and min([0, *row[0]]) >= 0 and are_counts(row[1:])
        for row in note["shapes"]
    )
