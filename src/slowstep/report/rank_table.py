"""All trainings of a job in one table: a row per rank, the one shown in the report marked, and those that are missing."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from slowstep.report.canvas import NARROW
from slowstep.report.ledger_chart import in_words
from slowstep.units import format_number, format_share

if TYPE_CHECKING:
    from slowstep.document.run_rows import RankRow, Run
    from slowstep.report.canvas import Canvas

# So that the report stays on one screen.
_ROWS_SHOWN: Final = 8
_MISSING_SHOWN: Final = 3
_NUMBER_CELLS, _USUAL_CELLS = 6, 10
_FIGURE_CELLS: Final = {"pid": 8}
_UNKNOWN: Final = "-"
_VERDICTS: Final = "verdict, largest stages"
_VERDICT: Final = "verdict"


def rank_name(run: Run) -> str:
    """Which training the report is of, in words."""
    rank = run.get("rank")
    if rank is None:
        return f"process {run['pid']} of {run['trainings']} trainings"
    return f"rank {rank} of {run['ranks']}"


def draw_ranks(canvas: Canvas, run: Run) -> None:
    """Draw the rows, those that are most different from the others where there are too many. Nothing for a lone training, nor for the
    trace of one rank, beside which no other was given.

    Missing ranks have rows where they are no more than the others: of a job of hundreds of which a few were traced they would be noise.
    """
    rows = run.get("rank_rows") or []
    missing = run.get("missing_ranks", [])
    absent = missing if len(missing) <= len(rows) else []
    if len(rows) + len(absent) < 2 or (len(rows) < 2 and "trace" in run):
        return
    canvas.blank()
    figures, cells = _draw_head(canvas, rows)
    chosen = _chosen(rows, run, _ROWS_SHOWN - min(len(absent), _MISSING_SHOWN))
    numbered: list[tuple[int, RankRow | None]] = [(row["number"], row) for row in chosen]
    numbered += [(number, None) for number in absent[: _ROWS_SHOWN - len(chosen)]]
    for number, row in sorted(numbered, key=lambda each: each[0]):
        if row is None:
            _draw_missing(canvas, number, cells, "no trace here" if "trace" in run else "not recorded")
        else:
            _draw_row(canvas, row, figures, is_shown=number == run.get("training"))
    if (more := len(rows) + len(absent) - _ROWS_SHOWN) > 0:
        canvas.line((f"and {more} more in report.json", "dim"))


def _draw_head(canvas: Canvas, rows: list[RankRow]) -> tuple[tuple[str, ...], int]:
    """Draw the names of the columns for which there is room. Returns the figures among them, and the cells that they take."""
    of_job = any(row["rank"] is not None for row in rows)
    figures: tuple[str, ...] = ("pid", "samples/s", "ms/step", "own work") if of_job else ("pid", "samples/s", "ms/step")
    if canvas.width < NARROW:
        figures = figures[-1:]
    figures = _with_room(canvas, figures, rows)
    head = ("rank" if of_job else "run").ljust(_NUMBER_CELLS)
    head += "".join(figure.rjust(_FIGURE_CELLS.get(figure, _USUAL_CELLS)) for figure in figures)
    verdicts = _VERDICTS if len(head) + 2 + len(_VERDICTS) <= canvas.width else _VERDICT
    canvas.line((f"{head}  {verdicts}", "dim"))
    return figures, len(head)


def _with_room(canvas: Canvas, figures: tuple[str, ...], rows: list[RankRow]) -> tuple[str, ...]:
    """The columns, without the first of them where a verdict would else be cut."""
    longest = max((len(_verdict(row)) for row in rows), default=0)
    while figures and _NUMBER_CELLS + sum(_FIGURE_CELLS.get(each, _USUAL_CELLS) for each in figures) + 2 + longest > canvas.width:
        figures = figures[1:]
    return figures


def _verdict(row: RankRow) -> str:
    return f"no report: {row['steps']} steps" if row["state"] is None else row["rule"] or row["state"]


def _chosen(rows: list[RankRow], run: Run, most: int) -> list[RankRow]:
    """All where they fit; else the one of the report, those without a report, and the slowest."""

    def importance(row: RankRow) -> tuple[bool, bool, float]:
        return row["number"] != run.get("training"), row["report"] is not None, -(row["own_ms"] or row["step_ms"] or 0.0)

    return sorted(rows, key=importance)[:most]


def _draw_missing(canvas: Canvas, number: int, cells: int, why: str) -> None:
    canvas.line((f"  {number}".ljust(cells), ""), "  ", canvas.cut(why, max(canvas.width - cells - 2, 0)))


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
    said = _verdict(row)
    room = max(canvas.width - len(text) - 2, 0)
    for stage in row["stages"]:
        longer = f"{said}, {in_words(stage['stage'])} {format_share(stage['share'])}"
        said = longer if len(longer) <= room else said
    canvas.line((text, "bold" if is_shown else ""), "  ", canvas.cut(said, room))
