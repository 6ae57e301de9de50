"""Two runs side by side on one screen: which is faster, what differs between them, and in which stage the time was won or lost."""

from __future__ import annotations

import shlex
from typing import TYPE_CHECKING, Any, Final, TextIO, cast

from slowstep.record.launching.folder import analyze_words
from slowstep.report.canvas import ASCII, NARROW, UNICODE, Canvas, clauses, fitting, printable
from slowstep.report.comparison import MACHINE
from slowstep.report.ledger_chart import STAGE_STYLE
from slowstep.report.streams import takes_color, takes_unicode, width_of
from slowstep.stages import stage_in_words
from slowstep.units import format_duration, format_number, format_rate, format_ratio, format_ratio_interval

if TYPE_CHECKING:
    from collections.abc import Mapping

    from slowstep.report.comparison import BusyMachine, ComparedRun, Comparison, FactDifference, StageChange, ThroughputRatio

_STATE_STYLE: Final = {"faster": "bold green", "slower": "bold red", "cannot distinguish": "bold yellow", "not comparable": "bold yellow"}
_LABEL_CELLS: Final = 11
_INDENT: Final = 2
_DIFFERS: Final = "differs in"
_TIMES: Final = ("before", "after", "change")
_NAME_CELLS, _MOST_TIME_CELLS = 17, 12
# Of a step less than this is no change that one would look for.
_SHOWN_SHARE: Final = 0.005


def render(comparison: Mapping[str, Any], *, width: int, color: bool, unicode: bool = True) -> str:
    """The comparison as text, `width` cells wide (40 to 120)."""
    glyphs = UNICODE if unicode else ASCII
    canvas = Canvas(width=fitting(width), glyphs=glyphs)
    shown = cast("Comparison", printable(dict(comparison), glyphs))
    for label, side in (("before", shown["before"]), ("after", shown["after"])):
        canvas.prose(clauses(_side(side)), label=label.ljust(_LABEL_CELLS), label_style="bold")
    canvas.blank()
    canvas.prose(_headline(shown), style=_STATE_STYLE[shown["state"]])
    canvas.prose(_explanation(shown))
    for label, side in (("before", shown["before"]), ("after", shown["after"])):
        if side["busy"] is not None:
            canvas.prose(f"{label}: {_busy(side['busy'])}", label="busy".ljust(_LABEL_CELLS), label_style="yellow")
    _draw_differences(canvas, shown["differs"])
    canvas.blank()
    _draw_ledger(canvas, shown["ledger"], shown["per"])
    # It is quoted as it is drawn, so that it can be pasted.
    folder = (comparison if unicode else shown)["after"]["recording"]
    if folder is not None:
        canvas.blank()
        canvas.line(("Next".ljust(_LABEL_CELLS), "bold"), " ", (analyze_words(folder), "bold cyan"))
    return canvas.text(color=color)


def show(comparison: Mapping[str, Any], stream: TextIO) -> None:
    """Print the comparison to a stream as it can take it."""
    stream.write(render(comparison, width=width_of(stream), color=takes_color(stream), unicode=takes_unicode(stream)))
    stream.flush()


def _side(side: ComparedRun) -> list[str]:
    speed = format_rate(side["samples_per_s"], "samples") if side["samples_per_s"] else ""
    steps = format_rate(side["steps_per_s"], "steps") if side["steps_per_s"] else ""
    step = f"step {format_duration(side['step_ms'] * 1e6)}" if side["step_ms"] is not None else ""
    verdict = side["state"] + (f" {side['rule']}" if side["rule"] else "")
    return [text for text in (side["recording"] or side["name"], speed, steps, step, verdict) if text]


def _headline(shown: Comparison) -> str:
    state = shown["state"].upper()
    return state if shown["ratio"] is None else f"{state}: {_times(shown['ratio'])} the throughput of before"


def _times(ratio: ThroughputRatio) -> str:
    if ratio["low"] is None or ratio["high"] is None:
        return format_ratio(ratio["value"])
    return format_ratio_interval(ratio["value"], ratio["low"], ratio["high"])


def _explanation(shown: Comparison) -> str:
    ratio, facts = shown["ratio"], [row["fact"] for row in shown["differs"]]
    if ratio is None:
        return "Neither samples/s (of all ranks) is known of both runs, nor steps/s of equal batches: analyze traces with --batch-size N."
    if ratio["low"] is None:
        return f"By {ratio['of']}/s. A trace, or a run of fewer than 30 steps, has too few for an interval: the ratio may be chance."
    said = f"By {ratio['of']}/s; the 90 % interval holds how much two runs differ on this machine."
    if shown["same_script"] is False:
        said += " The two ran different scripts: the ratio measures a change only where both train the same model on the same data."
    other = [fact for fact in facts if fact in MACHINE]
    return said + (f" The runs differ in {' and '.join(other)}: the ratio is the machine's as well." if other else "")


def _busy(busy: BusyMachine) -> str:
    of = "" if busy["of"] is None else f" of {busy['of']:g}"
    alone = "" if busy["up_to"] is None else f"; without them this run may be up to {format_ratio(busy['up_to'])} as fast"
    return f"other processes used {busy['cores']:.1f}{of} cores{alone}"


def _draw_differences(canvas: Canvas, rows: list[FactDifference]) -> None:
    if rows and canvas.width < NARROW:
        canvas.line((_DIFFERS, "bold"))
    for number, row in enumerate(rows):
        label = "" if canvas.width < NARROW else ("" if number else _DIFFERS).ljust(_LABEL_CELLS)
        said = f"{row['fact'].replace('_', ' ')}: {_value(row['before'])} before, {_value(row['after'])} after"
        canvas.prose(said, label=label, indent=0 if label else _INDENT)


def _value(value: Any) -> str:
    if value is None:
        return "unknown"
    if isinstance(value, list):
        return shlex.join(map(str, value)) or "none"
    return format_number(value) if isinstance(value, int | float) else str(value)


def _draw_ledger(canvas: Canvas, rows: list[StageChange], per: str) -> None:
    whole = sum(max(row["before_ms"] or 0.0, row["after_ms"] or 0.0) for row in rows)
    digits = 1 if whole >= 10 else 3 if whole >= 0.1 else 5
    shown = [row for row in rows if max(row["before_ms"] or 0.0, row["after_ms"] or 0.0) >= _SHOWN_SHARE * whole]
    times = {row["stage"]: _times_of(row, digits) for row in shown}
    # At least a blank between two of them; names have what is left.
    longest = max((len(time) for of_stage in times.values() for time in of_stage), default=0) + 1
    cells = max(min(_MOST_TIME_CELLS, (canvas.width - _NAME_CELLS) // len(_TIMES)), longest)
    names = min(_NAME_CELLS, canvas.width - len(_TIMES) * cells)
    canvas.line((canvas.cut(f"ms per {per}", names).ljust(names) + "".join(text.rjust(cells) for text in _TIMES), "dim"))
    for stage, of_stage in times.items():
        name = canvas.cut(stage_in_words(stage), names)
        canvas.line((name.ljust(names), STAGE_STYLE.get(stage, "")), *(time.rjust(cells) for time in of_stage))


def _times_of(row: StageChange, digits: int) -> list[str]:
    """Before, after, and the change."""
    old, new = row["before_ms"], row["after_ms"]
    change = "" if old is None or new is None else f"{new - old:+,.{digits}f}"
    return [*("unknown" if value is None else f"{value:,.{digits}f}" for value in (old, new)), change]
