"""What each stage of the input pipeline takes for a batch, as a table: the last one first, what it reads below it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from rich.cells import cell_len

from slowstep.document.pipeline import FEW_BATCHES, FEW_READINGS
from slowstep.units import format_number, format_share

if TYPE_CHECKING:
    from slowstep.document.pipeline import PipelineRow, StageOfPipelineRow
    from slowstep.document.report import Report
    from slowstep.report.canvas import Canvas
    from slowstep.report.left_out import LeftOut

_CALLS: Final = "calls at once"
_MS_CELLS: Final = 9
# The head is wider than what stands below it, "12.34 of 128".
_CALLS_CELLS: Final = 1 + len(_CALLS)
_READY_CELLS: Final = 9
# From this width on it is said how many calls are made at once, and what lies ready.
_WHOLE_FROM: Final = 64
_LEAST_MS: Final = 0.01
_LEAST_BUSY: Final = 0.005
_RULE: Final = "slow-pipeline"
_UNREAD: Final = {
    "autotune-off": "autotune is off for it, without which nothing is counted",
    "too-slow": "reading what they count took too long",
    "several-replicas": "its batches are divided among replicas, and nothing is counted where that is done",
    "unreadable": "what they count could not be read",
    FEW_READINGS: "there are too few readings of what they count",
    FEW_BATCHES: "too few batches came while they were read: {batches}",
}


def draw_pipeline(canvas: Canvas, report: Report, left_out: LeftOut) -> None:
    """Draw the section `pipeline` where the training waits for it, or where all is asked for."""
    pipeline = report.get("pipeline")
    if pipeline is None:
        return
    is_waited_for = any(finding["rule"] == _RULE for finding in report["findings"])
    if not (is_waited_for or left_out.verbose):
        left_out.name("the stages of the input")
        return
    canvas.blank()
    if pipeline["stages"]:
        _draw_stages(canvas, pipeline)
    if pipeline["unread"] is not None:
        _draw_unread(canvas, pipeline["unread"], pipeline)


def _draw_stages(canvas: Canvas, pipeline: PipelineRow) -> None:
    whole = canvas.width >= _WHOLE_FROM
    heads = "ms".rjust(_MS_CELLS) + (_CALLS.rjust(_CALLS_CELLS) + "ready".rjust(_READY_CELLS)) * whole
    canvas.edges([("what a batch takes in the stages of the input" if whole else "stages of the input", "bold")], [(heads, "dim")])
    for number, row in enumerate(pipeline["stages"]):
        # The first one is the request itself.
        if row["depth"]:
            _draw_stage(canvas, row, whole=whole, style="bold yellow" if number == pipeline["slowest"] else "")


def _draw_stage(canvas: Canvas, row: StageOfPipelineRow, *, whole: bool, style: str) -> None:
    place = "" if row["function"] is None else f" {row['function']} ({row['file']}:{row['line']})"
    columns = _ms(row["ms"]).rjust(_MS_CELLS)
    if whole:
        columns += _calls(row).rjust(_CALLS_CELLS)
        columns += ("" if row["ready"] is None else format_share(row["ready"])).rjust(_READY_CELLS)
    name, indent = "  " * row["depth"] + row["name"], 2 * row["depth"] + 2
    if cell_len(name + place + columns) + 2 <= canvas.width:
        canvas.edges([(name, style), (place, style or "dim")], [(columns, style)])
        return
    canvas.edges([(name, style)], [(columns, style)])
    canvas.prose(place.strip(), style=style or "dim", indent=indent, hang=indent)


def _ms(ms: float) -> str:
    if ms < _LEAST_MS:
        return f"<{_LEAST_MS}"
    return format_number(ms) if ms >= 1 else f"{ms:.2f}"


def _calls(row: StageOfPipelineRow) -> str:
    """How many are under way on average, and of how many at most; nothing of what does next to nothing."""
    busy = row["busy"]
    return "" if busy is None or busy < _LEAST_BUSY or row["buffer"] is not None else f"{busy:.2f} of {row['at_once']}"


def _draw_unread(canvas: Canvas, why: str, pipeline: PipelineRow) -> None:
    words = _UNREAD[why].format(batches=pipeline["batches"]) if why in _UNREAD else why
    label = "Not measured after a time:" if pipeline["stages"] else "Stages of the input not measured:"
    canvas.prose(words, label=label, label_style="yellow", hang=2)
