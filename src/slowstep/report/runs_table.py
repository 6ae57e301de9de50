"""The list of recordings in a terminal: one line each, columns left out where they do not fit."""

from __future__ import annotations

import datetime
from collections.abc import Mapping, Sequence
from typing import Any, Final, TextIO

from slowstep.report.canvas import ASCII, NBSP, UNICODE, Canvas, fitting, printable
from slowstep.report.streams import takes_color, takes_unicode, width_of
from slowstep.units import format_bytes, format_number, format_ratio

# In the order of the line, and the order in which they are given up where there is no room.
_COLUMNS: Final = ("name", "when", "steps", "per second", "verdict", "gain", "size")
_GIVEN_UP: Final = ("size", "per second", "when", "steps", "gain")
_RIGHT: Final = frozenset({"steps", "per second", "gain", "size"})
_UNKNOWN: Final = "-"
_APART: Final = 2
# Rules have names of up to 30 letters.
_VERDICT_CELLS: Final = 30
_STATE_WORDS: Final = {"recording": "recording now", "unreported": "no report yet"}


def show_runs(rows: Sequence[Mapping[str, Any]], stream: TextIO, *, command: str) -> None:
    """Print the rows of a document of runs, the newest first, and the command that shows the first of them."""
    glyphs = UNICODE if takes_unicode(stream) else ASCII
    canvas = Canvas(width=fitting(width_of(stream)), glyphs=glyphs)
    draw_runs(canvas, [printable(dict(row), glyphs) for row in rows])
    canvas.blank()
    canvas.line(("Next".ljust(11), "bold"), " ", (command, "bold cyan"))
    stream.write(canvas.text(color=takes_color(stream)))
    stream.flush()


def draw_runs(canvas: Canvas, rows: Sequence[Mapping[str, Any]]) -> None:
    """Draw the table; where there is no room for names and verdicts beside each other, these below each other."""
    cells = [{column: "" if column == "name" else column for column in _COLUMNS} | {"name": "recording"}]
    cells += [_cells(canvas, row) for row in rows]
    widths = {column: max(len(row[column]) for row in cells) for column in _COLUMNS}
    shown = list(_COLUMNS)
    for column in _GIVEN_UP:
        if sum(widths[each] + _APART for each in shown) - _APART > canvas.width:
            shown.remove(column)
    if sum(widths[each] + _APART for each in shown) - _APART > canvas.width:
        for row in cells[1:]:
            # A name is there to be typed.
            canvas.prose(row["verdict"], label=canvas.cut(row["name"], canvas.width), hang=_APART)
        return
    for number, row in enumerate(cells):
        line = (" " * _APART).join(row[each].rjust(widths[each]) if each in _RIGHT else row[each].ljust(widths[each]) for each in shown)
        canvas.line((line.rstrip(), "" if number else "dim"))


def _cells(canvas: Canvas, row: Mapping[str, Any]) -> dict[str, str]:
    half = row["bench"] and f"bench {row['bench']}"
    verdict = half or row["rule"] or row["verdict"] or _STATE_WORDS.get(str(row["state"]), _UNKNOWN)
    return {
        "name": row["name"],
        "when": _when(row["started"]),
        "steps": _UNKNOWN if row["steps"] is None else format_number(int(row["steps"])),
        "per second": _rate(row),
        "verdict": canvas.cut(verdict, _VERDICT_CELLS),
        "gain": _UNKNOWN if row["gain"] is None else format_ratio(row["gain"]),
        "size": format_bytes(row["size_bytes"]).replace(" ", NBSP),
    }


def _rate(row: Mapping[str, Any]) -> str:
    for key, what in (("samples_per_s", "samples"), ("steps_per_s", "steps")):
        if row[key] is not None:
            return f"{format_number(row[key])} {what}"
    return _UNKNOWN


def _when(started: str | None) -> str:
    try:
        return datetime.datetime.fromisoformat(started or "").strftime("%d %b %H:%M")
    except ValueError:
        return _UNKNOWN
