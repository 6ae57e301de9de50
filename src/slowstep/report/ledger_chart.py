"""The ledger as a bar chart: a row per stage, readable without colour."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from slowstep.report.canvas import NARROW, NBSP, clauses
from slowstep.stages import UNATTRIBUTED, stage_in_words
from slowstep.units import UNKNOWN, format_share

if TYPE_CHECKING:
    from slowstep.document.ledger_rows import LedgerRow, PartRow
    from slowstep.report.canvas import Canvas

STAGE_STYLE: Final = {
    "read": "blue",
    "preprocess": "cyan",
    "h2d": "magenta",
    "compute": "green",
    "gradient_sharing": "yellow",
    "d2h": "bright_magenta",
    "output": "bright_blue",
    "store": "red",
    UNATTRIBUTED: "bright_black",
}
_HEAD: Final = "where a step's time goes"
_SHORT_HEAD: Final = "time of a step"
_NAME_CELLS: Final = 17
_SHARE_CELLS: Final = 7
_TIME_CELLS: Final = 10
_PART_INDENT: Final = 2
# A part's name may take a narrow page two rows.
_PART_CELLS: Final = 60
_SMALL: Final = 0.005
_PART_SHOWN: Final = 0.03
# From so long a stage on, times are in seconds.
_IN_SECONDS_MS: Final = 10_000.0


def in_words(stage: str) -> str:
    """A row of the ledger as a sentence names it: what is unattributed is no stage."""
    return f"{stage} time" if stage == UNATTRIBUTED else stage_in_words(stage)


def draw_ledger(canvas: Canvas, ledger: list[LedgerRow], *, verbose: bool = True, provisional: bool = False) -> None:
    """Draw the shares of the window; stages that were not measured are named below, and those of next to no time where `verbose`."""
    rows = [row for row in ledger if (row["share"] or 0.0) >= _SMALL]
    largest = max((row["ms_per_step"] or 0.0 for row in rows), default=0.0)
    in_seconds = largest >= _IN_SECONDS_MS
    per = 1e3 if in_seconds else 1.0
    if rows:
        unit = "s/step" if in_seconds else "ms/step"
        canvas.edges(_title(canvas, provisional=provisional), [("share".rjust(_SHARE_CELLS) + unit.rjust(_TIME_CELLS), "dim")])
    whole = max((row["share"] or 0.0 for row in rows), default=1.0)
    largest /= per
    digits = 1 if largest >= 10 else 2 if largest >= 1 else 3
    for row in rows:
        _draw_row(canvas, row, max(whole, 0.5), digits, per)
        _draw_parts(canvas, row, verbose=verbose)
    _draw_folded(canvas, ledger, verbose=verbose)


def _title(canvas: Canvas, *, provisional: bool) -> list[tuple[str, str]]:
    """What stands above the bars: on a narrow page no more than has room beside the columns."""
    is_wide = canvas.width >= _NAME_CELLS + _SHARE_CELLS + _TIME_CELLS + len(_HEAD)
    if provisional and canvas.width < NARROW:
        return [("provisional", "yellow")]
    return [(_HEAD if is_wide else _SHORT_HEAD, "bold"), *([(" (provisional)", "yellow")] if provisional else [])]


def _draw_row(canvas: Canvas, row: LedgerRow, whole: float, digits: int, per: float) -> None:
    share, milliseconds = row["share"] or 0.0, row["ms_per_step"]
    room = canvas.width - _NAME_CELLS - _SHARE_CELLS - _TIME_CELLS - 1
    style = STAGE_STYLE.get(row["stage"], "")
    canvas.line(
        (stage_in_words(row["stage"]).ljust(_NAME_CELLS), style),
        (_bar(canvas, share / whole, room).ljust(room), style),
        " ",
        (format_share(share).rjust(_SHARE_CELLS), "bold"),
        ("unknown" if milliseconds is None else _time(milliseconds / per, digits)).rjust(_TIME_CELLS),
    )


def _time(time: float, digits: int) -> str:
    """To the chart's digits; of what has no room for them, a step of weeks in a damaged trace, the order of magnitude."""
    text = f"{time:,.{digits}f}"
    return text if len(text) < _TIME_CELLS else f"{time:.1e}"


def _bar(canvas: Canvas, fraction: float, room: int) -> str:
    """A bar of eighths of a cell; whatever is there shows as at least the thinnest."""
    eighths = canvas.glyphs.eighths
    if not eighths:
        return canvas.glyphs.bar * max(1, round(fraction * room))
    cells, rest = divmod(max(1, round(fraction * room * 8)), 8)
    return canvas.glyphs.bar * cells + (eighths[rest - 1] if rest else "")


def _draw_parts(canvas: Canvas, row: LedgerRow, *, verbose: bool) -> None:
    shown = [part for part in row["parts"] if (part["share"] or 0.0) >= _PART_SHOWN]
    if not shown:
        return
    room = canvas.width - _PART_INDENT - _SHARE_CELLS
    texts = [
        f"{canvas.cut(part['name'], max(room, _PART_CELLS))} {format_share(part['share'])}" for part in sorted(shown, key=_smallest_last)
    ]
    hidden = len(row["parts"]) - len(shown) if verbose else 0
    texts += [f"{hidden}{NBSP}smaller"] if hidden else []
    canvas.prose(", ".join(texts), indent=_PART_INDENT, style="dim", hang=_PART_INDENT)


def _smallest_last(part: PartRow) -> float:
    return -(part["share"] or 0.0)


def _draw_folded(canvas: Canvas, ledger: list[LedgerRow], *, verbose: bool) -> None:
    # What took no time is not the answer; what was not measured may be.
    folded = {
        "under 0.5 %": [
            f"{stage_in_words(row['stage'])} {format_share(row['share'])}"
            for row in ledger
            if verbose and 0.0 < (row["share"] or 0.0) < _SMALL
        ],
        "0 %": [stage_in_words(row["stage"]) for row in ledger if verbose and row["share"] == 0.0],
        UNKNOWN: [stage_in_words(row["stage"]) for row in ledger if row["share"] is None],
    }
    texts = [f"{label}: {', '.join(names)}" for label, names in folded.items() if names]
    if texts:
        canvas.prose(clauses(texts), style="dim", hang=2)
