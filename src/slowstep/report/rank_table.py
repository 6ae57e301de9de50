"""All trainings of a recording in one table: a row per rank, the one shown in the report marked."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from slowstep.report.canvas import NARROW
from slowstep.units import format_number, format_share

if TYPE_CHECKING:
    from slowstep.document.report import RankRow, Run
    from slowstep.report.canvas import Canvas

# So that the report stays on one screen.
_ROWS_SHOWN: Final = 8
_NUMBER_CELLS, _USUAL_CELLS = 6, 10
_FIGURE_CELLS: Final = {"pid": 8}
_UNKNOWN: Final = "-"


def rank_name(run: Run) -> str:
    """Which training the report is of, in words."""
    rank = run.get("rank")
    if rank is None:
        return f"process {run['pid']} of {run['trainings']} trainings"
    return f"rank {rank} of {run['ranks']}"


def draw_ranks(canvas: Canvas, run: Run) -> None:
    """Draw the rows, those that are most different from the others where there are too many. Nothing for a lone training."""
    rows = run.get("rank_rows") or []
    if len(rows) < 2:
        return
    canvas.blank()
    of_job = any(row["rank"] is not None for row in rows)
    figures: tuple[str, ...] = ("pid", "samples/s", "ms/step", "own work") if of_job else ("pid", "samples/s", "ms/step")
    if canvas.width < NARROW:
        figures = figures[-1:]
    head = ("rank" if of_job else "run").ljust(_NUMBER_CELLS)
    head += "".join(figure.rjust(_FIGURE_CELLS.get(figure, _USUAL_CELLS)) for figure in figures)
    canvas.line((f"{head}  {'verdict, largest stages'[: max(canvas.width - len(head) - 2, 0)]}".rstrip(), "dim"))
    for row in _chosen(rows, run):
        _draw_row(canvas, row, figures, is_shown=row["number"] == run.get("training"))
    if len(rows) > _ROWS_SHOWN:
        canvas.line((f"and {len(rows) - _ROWS_SHOWN} more in report.json", "dim"))


def _chosen(rows: list[RankRow], run: Run) -> list[RankRow]:
    """All where they fit; else the one of the report, those without a report, and the slowest, in the order of their numbers."""

    def importance(row: RankRow) -> tuple[bool, bool, float]:
        return row["number"] != run.get("training"), row["report"] is not None, -(row["own_ms"] or row["step_ms"] or 0.0)

    return sorted(sorted(rows, key=importance)[:_ROWS_SHOWN], key=lambda row: row["number"])


def _draw_row(canvas: Canvas, row: RankRow, figures: tuple[str, ...], *, is_shown: bool) -> None:
    values: dict[str, str | float | None] = {
        "pid": str(row["pid"]),
        "samples/s": row["samples_per_s"],
        "ms/step": row["step_ms"],
        "own work": row["own_ms"],
    }
    text = f"{'>' if is_shown else ' '} {row['number']}".ljust(_NUMBER_CELLS)
    for figure in figures:
        value = values[figure]
        shown = value if isinstance(value, str) else _UNKNOWN if value is None else format_number(value)
        text += shown.rjust(_FIGURE_CELLS.get(figure, _USUAL_CELLS))
    said = f"no report: {row['steps']} steps" if row["state"] is None else row["rule"] or row["state"]
    room = max(canvas.width - len(text) - 2, 0)
    for stage in row["stages"]:
        longer = f"{said}, {stage['stage']} {format_share(stage['share'])}"
        said = longer if len(longer) <= room else said
    canvas.line((text, "bold" if is_shown else ""), "  ", canvas.cut(said, room))
