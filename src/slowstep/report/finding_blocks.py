"""Findings as text: the first ones with evidence, gain and fixes, the others in a line each."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from rich.cells import cell_len

from slowstep.findings import EvidenceCode
from slowstep.report.canvas import NARROW
from slowstep.report.ledger_chart import STAGE_STYLE, in_words
from slowstep.report.sentences import as_advice, as_title
from slowstep.units import UNKNOWN, format_bytes, format_duration, format_number, format_ratio, format_ratio_between, format_share

if TYPE_CHECKING:
    from collections.abc import Callable

    from slowstep.document.finding_rows import EvidenceRow, FindingRow, GainRow, MeasuredRow
    from slowstep.report.canvas import Canvas
    from slowstep.report.left_out import LeftOut

_IN_FULL: Final = 2
# Of the first finding and of the second: what a reader needs who asks for no more.
_EVIDENCE_ROWS: Final = (4, 0)
_FIXES: Final = (2, 1)
_INDENT: Final = 3
_GAP: Final = 2
_TEXT_SHARE: Final = 0.4
_LABEL_CELLS: Final = 9
_FORMATS: Final[dict[str, Callable[[float], str]]] = {
    "share": format_share,
    "bytes": format_bytes,
    "x": format_ratio,
    "MB": lambda size: f"{format_number(size)} MB" if size >= _MEGABYTES_FROM else f"{format_number(1e3 * size)} kB",
}
# Less is easier to read in kB.
_MEGABYTES_FROM: Final = 0.1
# Units that begin so are only words about the value: "of the first step", "per step, at least".
_NO_UNITS: Final = ("of", "in", "per", "begun")
# Shares are of the time that was looked at, which needs no name.
_IN_WORDS: Final = {"of window": "of the time"}
_HOW_SEEN: Final = (EvidenceCode.TIMED_IN, EvidenceCode.STACKS)
# Of `diagnosis/gain.py` and `prove/stats/intervals.py`.
_PREDICTED_LEVEL: Final = "90 %"
_MEASURED_LEVEL: Final = "95 %"
# The units that count things, for one of them.
_SINGULAR: Final = {
    "batches": "batch",
    "calls": "call",
    "checkpoints": "checkpoint",
    "cores": "core",
    "degrees": "degree",
    "devices": "device",
    "elements": "element",
    "gaps": "gap",
    "iterators": "iterator",
    "kernels": "kernel",
    "minutes": "minute",
    "nodes": "node",
    "operations": "operation",
    "passes": "pass",
    "places": "place",
    "processes": "process",
    "ranks": "rank",
    "rows": "row",
    "readings": "reading",
    "samples": "sample",
    "starts": "start",
    "steps": "step",
    "tensors": "tensor",
    "threads": "thread",
    "workers": "worker",
    "writes": "write",
}
_NS_PER: Final = {"ns": 1.0, "us": 1e3, "ms": 1e6, "s": 1e9}


def draw_findings(canvas: Canvas, findings: list[FindingRow], left_out: LeftOut, *, said: str, provisional: bool = False) -> None:
    """Draw the first findings, or all where `left_out` is verbose. A title that was `said` above is not repeated, and what lies outside the
    script is in the notes. Those of too few steps for a verdict are `provisional`: why a gain is not known is
    no question then.
    """
    findings = [finding for finding in findings if not finding.get("outside")]
    shown = len(findings) if left_out.verbose else _IN_FULL
    for number, finding in enumerate(findings[:shown]):
        canvas.blank()
        _draw_title(canvas, number, finding, provisional)
        if finding["title"] != said:
            canvas.prose(as_title(finding["title"], opens_with_name=finding.get("opens_with_name", True)), indent=_INDENT)
        rows = _evidence_shown(finding["evidence"], number, left_out)
        if rows:
            _draw_evidence(canvas, rows, thresholds=left_out.verbose)
        gain = finding["gain"]
        is_told = not provisional or gain["measured"] is not None or gain["predicted"] is not None
        if is_told and (left_out.verbose or number == 0):
            _draw_gain(canvas, gain)
        _draw_fixes(canvas, finding, number, left_out)
    left_out.count(len(findings[shown:]), "finding")


def _evidence_shown(rows: list[EvidenceRow], number: int, left_out: LeftOut) -> list[EvidenceRow]:
    if left_out.verbose:
        return rows
    # How something was seen matters less than what was seen, and what was not measured least.
    by_weight = sorted(rows, key=lambda row: (row["value"] is None, row.get("code") in _HOW_SEEN))
    shown = _EVIDENCE_ROWS[number]
    left_out.count(sum(row["value"] is not None for row in by_weight[shown:]), "measured value")
    return by_weight[:shown]


def _draw_title(canvas: Canvas, number: int, finding: FindingRow, provisional: bool) -> None:
    style, gain = STAGE_STYLE.get(finding["stage"], ""), _gain_in_short(finding["gain"], provisional)
    label = f"{number + 1}.".ljust(_INDENT)
    left = [(label, "bold"), (finding["rule"], f"bold {style}"), (f" in {in_words(finding['stage'])}", "")]
    if sum(cell_len(text) for text, _ in left) + _GAP + cell_len(gain) <= canvas.width:
        canvas.edges(left, [(gain, "bold")])
    else:
        # The names of a rule and a stage are never cut.
        canvas.flow(*left)
        canvas.line(" " * _INDENT, (gain, "bold"))


def _gain_in_short(gain: GainRow, provisional: bool) -> str:
    """What is known best: what was measured, else what is predicted."""
    measured, predicted = gain["measured"], gain["predicted"]
    if measured is not None:
        return f"{_measured_as(measured)} {format_ratio(measured['value'])} measured"
    if predicted is None and not provisional and (headroom := gain.get("headroom")) is not None:
        return f"gain unknown, {format_ratio(headroom)} if it cost nothing"
    if predicted is None:
        return "provisional" if provisional else "gain unknown"
    headroom = gain.get("headroom")
    limit = "" if headroom is None or provisional else f" ({format_ratio(headroom)} if it cost nothing)"
    return f"gain {format_ratio(predicted)}{limit}{', provisional' if provisional else ''}"


def _measured_as(measured: MeasuredRow) -> str:
    """What the interval makes of it: a gain, a loss, or neither for certain."""
    if measured["high"] < 1.0:
        return "no gain,"
    return "gain" if measured["low"] > 1.0 else "gain uncertain,"


def _draw_evidence(canvas: Canvas, rows: list[EvidenceRow], *, thresholds: bool) -> None:
    if canvas.width < NARROW:
        for row in rows:
            _draw_evidence_as_text(canvas, row, thresholds=thresholds)
        return
    longest = round(_TEXT_SHARE * canvas.width)
    # The name of a call may be longer than the page is wide. It widens no column: numbers with places beside them stand there.
    texts = [canvas.cut(_value(row), longest) if isinstance(row["value"], str) and row["where"] else _value(row) for row in rows]
    in_columns = [(row, text) for row, text in zip(rows, texts, strict=True) if not _is_setting(row)]
    values = max((cell_len(text) for row, text in in_columns if not isinstance(row["value"], str)), default=0)
    room = canvas.width - values - _INDENT - _GAP
    # A name is cut where its place would else have no room beside it.
    places = max((cell_len(_place_and_threshold(canvas, row, thresholds=thresholds)) for row, _ in in_columns), default=0)
    widest = max(longest, room - places - _GAP)
    names = min(max((cell_len(row["name"]) for row, _ in in_columns), default=0), widest, room)
    for row, text in zip(rows, texts, strict=True):
        name, value = canvas.cut(row["name"], names), text
        start = f"{' ' * _INDENT}{name}{' ' * (names - cell_len(name) + _GAP)}{' ' * (values - cell_len(text))}"
        if _is_setting(row):
            start, value = " " * _INDENT, _setting(row)
        elif isinstance(row["value"], str):
            value = canvas.cut(text, canvas.width - cell_len(start))
        _draw_evidence_row(canvas, row, start, value, thresholds=thresholds)


def _place_and_threshold(canvas: Canvas, row: EvidenceRow, *, thresholds: bool) -> str:
    threshold = "" if row["threshold"] is None or not thresholds else f"threshold {_with_unit(row['threshold'], _unit_alone(row['unit']))}"
    # On a narrow page it is a part of a text, which is wrapped.
    cells = 2 * canvas.width if canvas.width < NARROW else canvas.width - _INDENT - _GAP
    where = "" if _is_setting(row) else canvas.cut(row["where"] or "", cells)
    return ", ".join(text for text in (where, threshold) if text)


def _draw_evidence_as_text(canvas: Canvas, row: EvidenceRow, *, thresholds: bool) -> None:
    text = _setting(row) if _is_setting(row) else f"{row['name']}: {_value(row)}"
    canvas.prose(", ".join(filter(None, (text, _place_and_threshold(canvas, row, thresholds=thresholds)))), indent=_INDENT)


def _setting(row: EvidenceRow) -> str:
    where = f" ({row['where']})" if row["where"] else ""
    return f"{row['name']}={row['value']}{where}"


def _is_setting(row: EvidenceRow) -> bool:
    """What a script sets by its name: "num_workers=0" says it shorter than a name, a number and a unit."""
    return row.get("code") == EvidenceCode.SETTING


def _draw_evidence_row(canvas: Canvas, row: EvidenceRow, start: str, value: str, *, thresholds: bool) -> None:
    """A value, and beside it, or below it where the page is narrow, its place and the threshold that it was held against."""
    beside = _place_and_threshold(canvas, row, thresholds=thresholds)
    if cell_len(start + value) + _GAP + cell_len(beside) <= canvas.width:
        canvas.line(start, (value, "bold"), " " * _GAP, (beside, "dim"))
        return
    canvas.line(start, (value, "bold"))
    if beside:
        canvas.prose(beside, indent=_INDENT + _GAP, style="dim")


def _value(row: EvidenceRow) -> str:
    value = row["value"]
    return value if isinstance(value, str) else _with_unit(value, row["unit"], beside=row["name"])


def _with_unit(value: float | None, unit: str, *, beside: str = "") -> str:
    """A value in its unit's best form; what follows the unit stays: "ms per step", "share of window". A noun that stands `beside` it
    already, in the value's name, is not repeated: "cores used  0.62".
    """
    if value is None:
        return UNKNOWN
    first, rest = _divided(unit)
    if first in _NS_PER:
        text = format_duration(value * _NS_PER[first])
    elif first in _FORMATS:
        text = _FORMATS[first](value)
    else:
        noun = "" if first in beside.split() else _SINGULAR.get(first, first) if value == 1 else first
        text = f"{format_number(int(value) if float(value).is_integer() else value)} {noun}".rstrip()
    return f"{text} {_IN_WORDS.get(rest, rest)}".strip()


def _unit_alone(unit: str) -> str:
    """The unit without the words that follow it, for these stand with the value: "share" of "share of window", nothing of "in all"."""
    first, _ = _divided(unit)
    return "" if first in _NO_UNITS else first


def _divided(unit: str) -> tuple[str, str]:
    """A unit as report.json has it: the word itself, and what it is of ("ms", "per step"). Nothing else looks into one."""
    first, _, of = unit.partition(" ")
    return first, of


def _draw_gain(canvas: Canvas, gain: GainRow) -> None:
    predicted, low, measured = gain["predicted"], gain["low"], gain["measured"]
    texts = []
    if measured is not None:
        texts.append(f"measured {format_ratio_between(measured['value'], measured['low'], measured['high'], level=_MEASURED_LEVEL)}")
    if predicted is not None and low is not None:
        texts.append(f"predicted {_with_interval(gain, predicted, low)} if {gain['assumes']}")
    elif because := gain.get("unknown_because"):
        texts.append(f"not predicted: {because}")
    if not texts:
        # The title says that it is unknown.
        return
    canvas.prose("; ".join(texts), label="Gain".ljust(_LABEL_CELLS), indent=_INDENT)


def _with_interval(gain: GainRow, predicted: float, low: float) -> str:
    """With what decides where the interval does not show it: why the finding may be a bottleneck all the same."""
    steady = gain.get("steady_low")
    also = "" if steady is None else f"{steady:.2f}x or more on a machine as fast as in this run"
    return format_ratio_between(predicted, low, gain["high"], level=_PREDICTED_LEVEL, also=also)


def _draw_fixes(canvas: Canvas, finding: FindingRow, number: int, left_out: LeftOut) -> None:
    fixes = finding["fixes"]
    shown = len(fixes) if left_out.verbose else _FIXES[number]
    for position, fix in enumerate(fixes[:shown]):
        warning = " (changes the numerics)" if fix["changes_numerics"] else ""
        label, style = ("or", "dim") if position else ("Fix", "bold")
        canvas.prose(as_advice(fix["text"]) + warning, label=label.ljust(_LABEL_CELLS), indent=_INDENT, label_style=style)
    left_out.count(len(fixes[shown:]), "more fix", "more fixes")
    if finding["also"]:
        canvas.prose(_also(finding), label="Also".ljust(_LABEL_CELLS), indent=_INDENT, label_style="dim", style="dim")


def _also(finding: FindingRow) -> str:
    """The rules that are folded into a finding, with what they name, and what theirs would gain: nothing else on the page says it."""
    named = {row["rule"]: row["names"] for row in finding.get("folded", []) if row.get("names")}
    gains = {row["rule"]: f" ({format_ratio(row['gain']['predicted'])})" for row in finding.get("folded", []) if "gain" in row}
    texts = [(f"{rule}: {named[rule]}" if rule in named else rule) + gains.get(rule, "") for rule in finding["also"]]
    return f"the same time counts for {('; ' if named else ', ').join(texts)}"
