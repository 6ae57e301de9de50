"""Whether a line on known readers says what its table needs: others write into files too, and processes are killed."""

from __future__ import annotations

from typing import Any

from slowstep.sources._recording.note_types import are_counts, is_of

# Of each place that read.
TEXTS = ("library", "reader", "file", "function")
COUNTS = ("first_line", "line", "calls", "inflating", "total_ns", "inflated_bytes")


def stored_reads_fit(note: dict[str, Any]) -> bool:
    """Whether each of its looks has a time, a length and samples, and each of the places in them its texts and numbers."""
    return all(isinstance(look, dict) and _look_fits(look) for look in note["looks"])


def _look_fits(look: dict[str, Any]) -> bool:
    rows = look.get("rows")
    return are_counts([look.get(key) for key in ("at_ns", "wall_ns", "samples")]) and isinstance(rows, list) and all(map(_row_fits, rows))


def _row_fits(row: Any) -> bool:
    if not isinstance(row, dict) or not all(is_of(row.get(key), str) for key in TEXTS):
        return False
    used, selected = row.get("used_bytes"), row.get("selected")
    return (
        are_counts([row.get(key) for key in COUNTS])
        and row["inflating"] <= row["calls"]
        and _is_shape(row.get("chunk"))
        and (used is None or are_counts([used]))
        and (selected is None or _is_shape(selected))
    )


def _is_shape(value: Any) -> bool:
    return is_of(value, list[int]) and are_counts(value)
