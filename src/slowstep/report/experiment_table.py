"""What was tried, as a table: for every lever its predicted and measured gain and the verdict; below it how far to trust the whole."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from rich.cells import cell_len

from slowstep.prove.ended_by import EndedBy
from slowstep.prove.stats.design import FEWEST_PAIRS, FEWEST_STARTS, MIN_ROUNDS
from slowstep.prove.stats.verdicts import SETTLED, GainVerdict
from slowstep.record.experiment.lever_text import parse_spec
from slowstep.report.canvas import clauses
from slowstep.units import (
    UNKNOWN,
    format_bytes,
    format_count,
    format_duration,
    format_rate,
    format_ratio,
    format_ratio_interval,
    format_share,
)

if TYPE_CHECKING:
    from collections.abc import Mapping

    from slowstep.document.experiment_rows import ExperimentFacts, ExperimentRow, IntervalRow
    from slowstep.document.report import Report
    from slowstep.report.canvas import Canvas

_GAIN_CELLS: Final = 18
_VERDICT_CELLS: Final = 18
_TABLE_FROM: Final = 72
_FOREIGN_LOAD: Final = "foreign-load"
_INDENT: Final = 2
# A gain that may be twice as large or half as large as measured, or more, is not known.
_KNOWN_WITHIN: Final = 2.0
_CONTROL: Final = "nothing (control)"
_LABEL_CELLS: Final = 11
_VERDICT_STYLE: Final[dict[str, str]] = {
    GainVerdict.PROVED: "bold green",
    GainVerdict.REFUTED: "bold red",
    GainVerdict.UPPER_BOUND: "bold",
}
_ROLE: Final = {"fix": "for {}", "bound": "upper bound for {}", "other": "another change for {}"}
_BATCH_SIZE: Final = "batch-size"
_SWAP: Final = "swap"
# The allocator of a process gives little back to the system, so what larger batches took before is in the peak of smaller ones.
_PEAK_OF: Final = {
    "process": " (memory of the whole process: of the current size before anything was tested, of the other with what earlier tests left)",
    "device": " (memory of the device)",
}
# What ended it (`run.experiment.ended_by`), as the end of a sentence.
_ENDED: Final[dict[str, str]] = {
    EndedBy.NARROW_ENOUGH: "stopped at the asked precision",
    EndedBy.BUDGET_SPENT: "stopped at the end of its budget",
    EndedBy.PLAN_DONE: "stopped at the end of its plan",
    EndedBy.SCRIPT_ENDED: "the script ended",
    EndedBy.INTERRUPTED: "it was interrupted",
    EndedBy.RUNNING: "it was killed, or goes on",
    EndedBy.NEVER_TRAINED: "no training step was seen",
    EndedBy.NOTHING_TO_TRY: "there was nothing to test",
    EndedBy.LEVER_ENDED: "the script could not go on with a lever",
    EndedBy.NOT_TAKEN_UP: "the training never began it",
    EndedBy.STOOD_STILL: "the training made no more steps",
    EndedBy.CUT_SHORT: "it had to be ended",
    EndedBy.NO_LEVER_LEFT: "no lever was left to test",
    EndedBy.LOSS_NOT_FINITE: "the loss was not finite",
}
# What is known of the training's numbers with a lever, where nothing else says it.
_NUMBERS: Final = {
    "by construction": "same numbers by construction",
    "same": "losses compared",
    "compared": "losses compared",
    "same input": "input compared",
    "other input": "input compared",
    "other losses": "losses compared",
}
_CHANGES: Final = {"order": "other order of the data: only the throughput is compared", "numerics": "changes the numerics"}


def draw_experiments(canvas: Canvas, report: Report) -> None:
    """Draw the table, and what is said of all of it; nothing where no experiment was made."""
    facts = report["run"].get("experiment")
    if facts is None:
        return
    rows = [row for row in report["experiments"] if row["state"] != "untried"]
    canvas.blank()
    if canvas.width < _TABLE_FROM:
        for row in rows:
            _draw_as_text(canvas, row)
    elif rows:
        _draw_head(canvas)
        for row in rows:
            _draw_row(canvas, row)
    _draw_untried(canvas, [row for row in report["experiments"] if row["state"] == "untried"])
    # A note at the top says it of the whole run, and the row of a lever that it may have kept from gaining.
    said = any(finding["rule"] == _FOREIGN_LOAD for finding in report["findings"])
    _draw_facts(canvas, facts, any_known=any(map(_is_known, rows)), say_busy=not said)


def draw_proofs(canvas: Canvas, report: Report) -> None:
    """Say below the verdict which of the findings were proved and refuted, a line each."""
    for row in report["experiments"]:
        if row["role"] == "fix" and row["verdict"] in SETTLED:
            # The gain is what this line is for: a long lever has a line of its own, and only it is cut.
            lever = canvas.cut(f" by {row['lever']}", canvas.width - 2)
            shown = f" {row['rule']}: {_interval(row['gain'])}"
            canvas.flow((row["verdict"].upper(), _VERDICT_STYLE[row["verdict"]]), (shown, ""), (lever, ""))


def _name_cells(canvas: Canvas) -> int:
    return canvas.width - 2 * _GAIN_CELLS - _VERDICT_CELLS


def _draw_head(canvas: Canvas) -> None:
    _draw_cells(canvas, "what was tested", "predicted", "measured", "verdict", styles=("bold", "bold", "bold"))


def _draw_cells(canvas: Canvas, name: str, predicted: str, measured: str, verdict: str, *, styles: tuple[str, str, str]) -> None:
    left, middle, right = styles
    names = _name_cells(canvas)
    canvas.line(
        (_cell(canvas, name, names), left),
        _cell(canvas, predicted, _GAIN_CELLS),
        (_cell(canvas, measured, _GAIN_CELLS), middle),
        (canvas.cut(verdict, canvas.width - names - 2 * _GAIN_CELLS), right),
    )


def _cell(canvas: Canvas, text: str, cells: int) -> str:
    text = canvas.cut(text, cells - 1)
    return text + " " * (cells - cell_len(text))


def _in_words(state: str) -> str:
    """A state as the documentation calls it."""
    return UNKNOWN if state == "unmeasured" else state


def _draw_as_text(canvas: Canvas, row: ExperimentRow) -> None:
    """A row for a narrow page."""
    verdict = row["verdict"] if row["state"] == "measured" else _in_words(row["state"])
    gains = [f"{name} {_interval(gain)}" for name, gain in (("measured", row["gain"]), ("predicted", row["predicted"])) if gain is not None]
    canvas.prose(", ".join([*filter(None, [verdict]), *gains, *_said(row)]), label=f"{row['lever'] or _CONTROL}:", hang=_INDENT)


def _draw_row(canvas: Canvas, row: ExperimentRow) -> None:
    name, said = row["lever"] or _CONTROL, _said(row)
    if row["state"] != "measured" and row["predicted"] is None and row["gain"] is None:
        canvas.edges([(name, "")], [(_in_words(row["state"]), "yellow")])
        _draw_said(canvas, said)
        return
    if cell_len(name) >= _name_cells(canvas):
        # A line of its own, and beside the numbers what it was tried for, where that fits: it wraps below else.
        canvas.line(canvas.cut(name, canvas.width))
        is_beside = row["role"] in _ROLE and row["rule"] and _INDENT + cell_len(said[0]) < _name_cells(canvas)
        name = " " * _INDENT + (said.pop(0) if is_beside else "")
    is_measured = row["state"] == "measured"
    verdict = (row["verdict"] or "") if is_measured else _in_words(row["state"])
    styles = ("", "bold" if is_measured else "dim", _VERDICT_STYLE.get(verdict, "") if is_measured else "yellow")
    _draw_cells(canvas, name, _interval(row["predicted"]), _interval(row["gain"]), verdict, styles=styles)
    _draw_said(canvas, said)


def _draw_said(canvas: Canvas, said: list[str]) -> None:
    if said:
        canvas.prose(clauses(said), indent=_INDENT, hang=_INDENT, style="dim")


def _sizes(row: ExperimentRow) -> list[str]:
    """Of another batch size: throughput and peak of memory, with it and as it is."""
    lever, throughput, facts = parse_spec(row["lever"] or ""), row["throughput"], row["facts"]
    if lever.name != _BATCH_SIZE or throughput is None:
        return []

    def one(name: str, per_s: float, peak: float | None) -> str:
        return f"{name}: {format_rate(per_s, throughput['per'] + 's')}" + (f", peak {format_bytes(peak)}" if peak else "")

    own = facts.get("own_batch_size")
    whose = _PEAK_OF.get(facts.get("peak_of", ""), "")
    of_size = one(f"batches of {lever.value}", throughput["per_s"], facts.get("peak_bytes"))
    as_is = one("current" if own is None else f"of {own}, current", throughput["as_is_per_s"], facts.get("own_peak_bytes"))
    return [f"{of_size}; {as_is}{whose}"]


def _for(row: ExperimentRow) -> str:
    """What its gain says of the finding that it was tried for."""
    if row["role"] == "other" and parse_spec(row["lever"] or "").name == _SWAP:
        return f"an alternative to the function of {row['rule']}, as measured"
    return _ROLE[row["role"]].format(row["rule"])


def _said(row: ExperimentRow) -> list[str]:
    """What must stand beside the numbers of a row."""
    said = [_for(row)] if row["role"] in _ROLE and row["rule"] else []
    said += _sizes(row)
    if row["how"] == "re-runs":
        said.append(f"measured by {row['rounds']} pairs of whole runs")
    if row["reason"] is not None:
        said.append(f"{'because ' if row['state'] == 'not applicable' else ''}{row['reason']}")
    if row["state"] != "measured" and row["gain"] is not None:
        said.append(f"measured until then, in {row['rounds']} {_rounds(row)}")
    if row["verdict"] == GainVerdict.OPEN:
        said += _why_open(row)
    if (which := _which_loader(row["facts"])) is not None:
        said.append(which)
    if (with_kept := _with_kept(row)) is not None:
        said.append(with_kept)
    if row["used"] == "corrected":
        said.append("without the waits for cores that other processes used")
    if row["state"] != "measured":
        return said
    # In runs of its own it was told whether they come in another order.
    is_told = "repeats" in (row["numerics"] or {})
    changes = [text for kind, text in _CHANGES.items() if kind in row["changes"] and not (kind == "order" and is_told)]
    if row["changes_numerics"] and _CHANGES["numerics"] not in changes:
        changes.append(_CHANGES["numerics"])
    return [*said, *changes, *_numbers(row)]


def _numbers(row: ExperimentRow) -> list[str]:
    """What is known of the training's numbers with it, and how they compare."""
    known, says = _NUMBERS.get(row.get("numbers", "")), (row["numerics"] or {}).get("says")
    if known is None and says is None and row.get("numbers") == "not compared":
        known = "losses not compared"
    return [": ".join(filter(None, (known, says)))] if known or says else []


def _why_open(row: ExperimentRow) -> list[str]:
    """Why a lever is neither proved nor refuted, where that is not the reason that the row has already."""
    if row["rounds"] < (fewest := _fewest_rounds(row)):
        # What would show is no matter of widths then.
        proves = "nothing" if row["how"] == "re-runs" else "only a clear gain"
        return [f"{row['rounds']} {_rounds(row)}: fewer than {fewest} prove {proves}"]
    if row["held_back"] is not None:
        return []
    if row["below"] is not None and row["below"] < 1:
        return [f"a gain below {format_share(row['below'])} is too small to be seen in this time"]
    return [f"too few {'runs' if row['how'] == 're-runs' else 'blocks'}, or too uneven ones"]


def _fewest_rounds(row: ExperimentRow) -> int:
    """With fewer of them there is no verdict."""
    return FEWEST_PAIRS if row["how"] == "re-runs" else MIN_ROUNDS


def _rounds(row: ExperimentRow) -> str:
    return "pairs of whole runs" if row["how"] == "re-runs" else "rounds"


def _with_kept(row: ExperimentRow) -> str | None:
    """What a lever has left of what it takes away, and the gain with that; None where that does not show, or is said already."""
    each_ns, gain, used = row["facts"].get("kept_each_ns"), row["gain"], row["used"]
    if each_ns is None or gain is None or used is None or row["held_back"] == "kept":
        return None
    measured = row[used]
    if measured is None or format_ratio(measured["value"]) == format_ratio(gain["value"]):
        return None
    return f"{format_ratio(measured['value'])} with the first batch of each validation, {format_duration(each_ns)}, which is still read"


def _which_loader(facts: Mapping[str, Any]) -> str | None:
    """Which loader a lever has changed, of several that feed the training; None where there is one."""
    if (together := facts.get("read_together")) is None:
        return None
    if facts.get("mocked"):
        return f"of all {together} loaders that feed the training"
    return f"of the loader that the training waits for most, {facts['loader']}"


def _interval(interval: IntervalRow | None) -> str:
    if interval is None:
        return ""
    low, high = interval["low"], interval["high"]
    if low is None or high is None:
        return format_ratio(interval["value"])
    return format_ratio_interval(interval["value"], low, high)


def _draw_untried(canvas: Canvas, rows: list[ExperimentRow]) -> None:
    """Findings and levers that nothing tried, by the reason."""
    reasons: dict[str, list[str]] = {}
    for row in rows:
        what = row["lever"] or row["rule"] or ""
        reasons.setdefault(row["reason"] or UNKNOWN, []).append(what)
    for reason, names in reasons.items():
        canvas.prose(f"{', '.join(names)}; {reason}", label="Not tested:", label_style="dim", hang=_INDENT)


def _is_known(row: ExperimentRow) -> bool:
    """Whether there is a gain of a lever that is known well enough to be said."""
    gain = row["gain"] if row["lever"] is not None and row["state"] == "measured" else None
    if gain is None or gain["low"] is None or gain["high"] is None:
        return False
    if row["verdict"] != GainVerdict.PROVED and row["rounds"] < _fewest_rounds(row):
        return False
    return bool(gain["high"] < _KNOWN_WITHIN**2 * gain["low"])


def _draw_facts(canvas: Canvas, facts: ExperimentFacts, *, any_known: bool, say_busy: bool) -> None:
    why = _ENDED.get(facts["ended_by"], facts["ended_by"])
    if facts["steps_per_block"] is not None:
        took = "" if facts["took_s"] is None else f"for {format_duration(facts['took_s'] * 1e9)} "
        each = format_count(facts["steps_per_block"], "step")
        reached = _reached(facts, why, any_known=any_known)
        canvas.prose(f"Measured {took}in blocks of {each}{_in_starts(facts)}; {reached}. Seed {facts['seed']}", hang=_INDENT)
    else:
        canvas.prose(f"Nothing was measured: {why}", hang=_INDENT)
    for number, start in enumerate(facts.get("starts", []), 1):
        if reason := start.get("reason"):
            canvas.prose(f"start {number} of the script {reason}", label=_label("Starts"), label_style="dim")
    foreign = facts["foreign_share"]
    if say_busy and foreign is not None and facts.get("busy"):
        text = f"other processes used {format_share(foreign)} of the cores: levers that need cores, such as workers, gain less than alone"
        canvas.prose(text, label=_label("Busy"), label_style="yellow")
    if facts["trustworthy"] is False:
        canvas.prose(f"none: {facts['distrust']}", label=_label("Trust"), label_style="red")
    canvas.prose(facts["sandbox"]["claims"], label=_label("Sandbox"), label_style="dim", style="dim")


def _in_starts(facts: ExperimentFacts) -> str:
    """In how many starts of the script, and after how many steps it came to its end, where that was not the same each time."""
    starts = facts.get("starts", [])
    measured = sum(start["rounds"] > 0 for start in starts)
    lengths = sorted({start["updates"] for start in starts if start["came_to_its_end"]})
    differ = f" (they ended after {lengths[0]} to {lengths[-1]} steps)" if len(lengths) > 1 else ""
    few = "; two starts prove only a clear gain" if measured == FEWEST_STARTS - 1 else ""
    return f" in {format_count(measured, 'start')} of the script{differ}{few}" if measured and len(starts) > 1 else ""


def _reached(facts: ExperimentFacts, why: str, *, any_known: bool) -> str:
    """Why it stopped, and how well the gains are known then."""
    asked = format_share(facts["precision"])
    if facts["ended_by"] == EndedBy.NARROW_ENOUGH:
        return f"{why}, {asked}"
    if not any_known:
        return f"{why} before any gain was known (asked: to within {asked})"
    if facts["reached"] is None or facts["reached"] >= _KNOWN_WITHIN - 1:
        return f"{why} before every gain was known (asked: to within {asked})"
    return f"{why}, with gains known to within {format_share(facts['reached'])} (asked: {asked})"


def _label(text: str) -> str:
    return text.ljust(_LABEL_CELLS)
