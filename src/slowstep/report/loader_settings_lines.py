"""How the training's loader was made, in a line for each setting, where all that was measured is asked for."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from slowstep.units import UNKNOWN, format_share

if TYPE_CHECKING:
    from slowstep.document.loader_setting_rows import LoaderSettingRow
    from slowstep.document.report import Report
    from slowstep.report.canvas import Canvas
    from slowstep.report.left_out import LeftOut

_INDENT: Final = 2
_DEFAULT: Final = {True: ", the default", False: "", None: ""}


def draw_loader_settings(canvas: Canvas, report: Report, left_out: LeftOut) -> None:
    """Draw the section `loader_settings`; nothing where there is none."""
    rows = report.get("loader_settings")
    if not rows:
        return
    if not left_out.verbose:
        left_out.name("the loader's settings")
        return
    canvas.blank()
    canvas.line(("settings of the loader", "bold"))
    for row in rows:
        value = UNKNOWN if row["value"] is None else str(row["value"])
        canvas.prose(f"{value}{_DEFAULT[row['default']]}; {_said(row)}", label=f"{row['setting']}:", indent=_INDENT, hang=_INDENT)


def _said(row: LoaderSettingRow) -> str:
    if row["rule"] is None or row["share"] is None:
        return row["said"]
    return f"{row['rule']}, {format_share(row['share'])} of the time"
