"""Findings as text: the first ones with evidence, gain and fixes, the others in a line each."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from rich.cells import cell_len

from slowstep.report.canvas import NBSP
from slowstep.report.ledger_chart import STAGE_STYLE, in_words
from slowstep.units import UNKNOWN, format_bytes, format_duration, format_number, format_ratio, format_ratio_interval, format_share

if TYPE_CHECKING:
    from collections.abc import Callable

    from slowstep.report.canvas import Canvas
    from slowstep.report.document import EvidenceRow, FindingRow, GainRow

_IN_FULL: Final = 2
_IN_ALL: Final = 6
_EVIDENCE_ROWS: Final = (3, 1)
_FIXES: Final = (2, 1)
_INDENT: Final = 3
_GAP: Final = 2
_SHORTEST_PLACE: Final = 10
_TEXT_SHARE: Final = 0.4
_LABEL_CELLS: Final = 9
_FORMATS: Final[dict[str, Callable[[float], str]]] = {"share": format_share, "bytes": format_bytes, "x": format_ratio}
# Units that begin so are only words about the value: "of the first step", "per step, at least".
_NO_UNITS: Final = ("of", "in", "per", "begun")
_NS_PER: Final = {"ns": 1.0, "us": 1e3, "ms": 1e6, "s": 1e9}


def draw_findings(canvas: Canvas, findings: list[FindingRow], *, said: str, provisional: bool = False) -> None:
    """Draw the findings in their order; how many are left out is said. A title that was `said` above is not repeated, and what lies outside
    the script is in the notes. Those of too few steps for a verdict are `provisional`: nothing is said of a gain.
    """
    findings = [finding for finding in findings if not finding.get("outside")]
    for number, finding in enumerate(findings[:_IN_FULL]):
        canvas.blank()
        _draw_title(canvas, number, finding, provisional)
        if finding["title"] != said:
            canvas.prose(finding["title"], indent=_INDENT)
        _draw_evidence(canvas, finding["evidence"], _EVIDENCE_ROWS[number])
        if not provisional or finding["gain"]["measured"] is not None:
            _draw_gain(canvas, finding["gain"])
        _draw_fixes(canvas, finding, _FIXES[number])
    if len(findings) > _IN_FULL:
        canvas.blank()
    for number, finding in enumerate(findings[_IN_FULL:_IN_ALL], start=_IN_FULL):
        _draw_title(canvas, number, finding, provisional)
    if len(findings) > _IN_ALL:
        canvas.line((f"   and {len(findings) - _IN_ALL} more in report.json", "dim"))


def _draw_title(canvas: Canvas, number: int, finding: FindingRow, provisional: bool) -> None:
    style, gain = STAGE_STYLE.get(finding["stage"], ""), _gain_in_short(finding["gain"], provisional)
    label = f"{number + 1}.".ljust(_INDENT)
    canvas.edges([(label, "bold"), (finding["rule"], f"bold {style}"), (f" in {in_words(finding['stage'])}", "")], [(gain, "bold")])


def _gain_in_short(gain: GainRow, provisional: bool) -> str:
    """What is known best: what was measured, else what is predicted."""
    measured, predicted = gain["measured"], gain["predicted"]
    if measured is not None:
        doubt = ", perhaps none" if measured["low"] <= 1.0 <= measured["high"] else ""
        return f"gain {format_ratio(measured['value'])} measured{doubt}"
    if provisional:
        return "provisional"
    return "gain unknown" if predicted is None else f"gain {format_ratio(predicted)}"


def _draw_evidence(canvas: Canvas, rows: list[EvidenceRow], limit: int) -> None:
    shown, hidden = rows[:limit], len(rows[limit:])
    longest = round(_TEXT_SHARE * canvas.width)
    # The name of a call may be longer than the page is wide. It widens no column: numbers with thresholds beside them stand there.
    texts = [canvas.cut(_value(row), longest) if isinstance(row["value"], str) else _value(row) for row in shown]
    values = max((cell_len(text) for row, text in zip(shown, texts, strict=True) if not isinstance(row["value"], str)), default=0)
    names = min(max(cell_len(row["name"]) for row in shown), longest, canvas.width - values - _INDENT - _GAP)
    for number, (row, text) in enumerate(zip(shown, texts, strict=True), start=1):
        name = canvas.cut(row["name"], names)
        start = f"{' ' * _INDENT}{name}{' ' * (names - cell_len(name) + _GAP)}{' ' * (values - cell_len(text))}"
        more = f"+{hidden} more" if hidden and number == limit else ""
        _draw_evidence_row(canvas, row, start, text, more)


def _draw_evidence_row(canvas: Canvas, row: EvidenceRow, start: str, value: str, more: str) -> None:
    room = canvas.width - cell_len(start + value) - _GAP
    beside = _beside(canvas, row, more, room)
    if cell_len(beside) <= room:
        canvas.line(start, (value, "bold"), " " * _GAP, (beside, "dim"))
    else:
        canvas.line(start, (value, "bold"))
        canvas.prose(beside, indent=_INDENT + _GAP, style="dim")


def _value(row: EvidenceRow) -> str:
    value = row["value"]
    return value if isinstance(value, str) else _with_unit(value, row["unit"])


def _with_unit(value: float | None, unit: str) -> str:
    """A value in its unit's best form; what follows the unit stays: "ms per step", "share of window"."""
    if value is None:
        return UNKNOWN
    first, _, rest = unit.partition(" ")
    if first in _NS_PER:
        text = format_duration(value * _NS_PER[first])
    elif first in _FORMATS:
        text = _FORMATS[first](value)
    else:
        text = f"{format_number(int(value) if float(value).is_integer() else value)} {first}"
    return f"{text} {rest}".strip()


def _unit_alone(unit: str) -> str:
    """The unit without the words that follow it, for these stand with the value: "share" of "share of window", nothing of "in all"."""
    first = unit.partition(" ")[0]
    return "" if first in _NO_UNITS else first


def _beside(canvas: Canvas, row: EvidenceRow, more: str, room: int) -> str:
    """The threshold, the place and the count of rows left out; only the place is shortened or dropped, never a number."""
    threshold = "" if row["threshold"] is None else f"threshold {_with_unit(row['threshold'], _unit_alone(row['unit']))}"
    taken = sum(cell_len(text) + 2 for text in (threshold, more) if text)
    where = canvas.cut(row["where"] or "", room - taken) if room - taken >= _SHORTEST_PLACE else ""
    return ", ".join(text for text in (threshold, where, more) if text)


def _draw_gain(canvas: Canvas, gain: GainRow) -> None:
    predicted, low, high, measured = gain["predicted"], gain["low"], gain["high"], gain["measured"]
    known = "" if measured is None else f"{format_ratio_interval(measured['value'], measured['low'], measured['high'])} measured; "
    if predicted is not None and low is not None:
        text = f"{known}{format_ratio_interval(predicted, low, high)} predicted, assuming {gain['assumes']}"
    elif measured is not None:
        text = f"{known}none was predicted"
    else:
        text = f"not known; assumes {gain['assumes']}"
    canvas.prose(text, label="Gain".ljust(_LABEL_CELLS), indent=_INDENT)


def _draw_fixes(canvas: Canvas, finding: FindingRow, limit: int) -> None:
    fixes = finding["fixes"]
    for number, fix in enumerate(fixes[:limit], start=1):
        warning = " (changes the numerics)" if fix["changes_numerics"] else ""
        more = f" (+{len(fixes) - limit}{NBSP}more)" if number == limit < len(fixes) else ""
        label, style = ("Fix", "bold") if number == 1 else ("or", "dim")
        canvas.prose(fix["text"] + warning + more, label=label.ljust(_LABEL_CELLS), indent=_INDENT, label_style=style)
    if finding["also"]:
        canvas.prose(_also(finding), label="Also".ljust(_LABEL_CELLS), indent=_INDENT, label_style="dim", style="dim")


def _also(finding: FindingRow) -> str:
    """The rules that are folded into a finding, with what they name: nothing else on the page says it."""
    named = {row["rule"]: row["names"] for row in finding.get("folded", []) if row.get("names")}
    return ("; " if named else ", ").join(f"{rule}: {named[rule]}" if rule in named else rule for rule in finding["also"])
