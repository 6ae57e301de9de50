"""Whether lines on what a backward pass computes say what their table needs."""

from __future__ import annotations

from typing import Any

from slowstep.sources._recording.note_types import is_of

_COUNTS = ("elements", "dear", "scattered", "products", "whole")
_LISTS = ("parts", "weights")


def graph_work_fits(note: dict[str, Any]) -> bool:
    """Whether nothing is counted less than never, and each repetition is of lengths."""
    return all(note[name] >= 0 for name in _COUNTS) and all(
        _are_lengths(row) and (name != "weights" or len(row) == 2) for name in _LISTS for row in note[name]
    )


def _are_lengths(row: Any) -> bool:
    return is_of(row, list[int]) and len(row) > 0 and min(row) >= 0
