"""The report on one screen of a terminal: throughput, where a step's time goes, the verdict, the gain, the next command."""

from __future__ import annotations

import shlex
from typing import TYPE_CHECKING, Any, Final, TextIO, cast

from slowstep.report.canvas import ASCII, NBSP, UNICODE, Canvas, fitting, printable
from slowstep.report.drawn_parts import draw_part
from slowstep.report.experiment_table import draw_experiments, draw_proofs
from slowstep.report.finding_blocks import draw_findings
from slowstep.report.ledger_chart import STAGE_STYLE, draw_ledger, in_words
from slowstep.report.over_time_lines import over_time_lines
from slowstep.report.rank_table import draw_ranks, rank_name
from slowstep.report.streams import takes_color, takes_unicode, width_of
from slowstep.stages import UNATTRIBUTED
from slowstep.units import UNKNOWN, format_duration, format_number, format_number_beside, format_rate, format_share

if TYPE_CHECKING:
    from collections.abc import Mapping

    from slowstep.report.document import HealthRow, NotJudgedRow, Report, Run

_REASONS_SHOWN: Final = 2
_HEALTH_SHOWN: Final = 3
# What is spent once and is less than this is no news.
_ONCE_SHOWN_MS: Final = 1.0
_LABEL_CELLS: Final = 11
_STATE_STYLE: Final = {"bottleneck": "bold red", "healthy": "bold green", "undetermined": "bold yellow"}
_SEVERITY_STYLE: Final = {"notice": "yellow", "data_loss": "bold yellow", "error": "bold red"}


def render(report: Mapping[str, Any], *, width: int, color: bool, unicode: bool = True) -> str:
    """The report as text, `width` cells wide (40 to 120), with ANSI colours or none, in plain ASCII where `unicode` is False."""
    return draw(report, width=width, unicode=unicode).text(color=color)


def draw(report: Mapping[str, Any], *, width: int, unicode: bool = True) -> Canvas:
    """The report on a page `width` cells wide (40 to 120)."""
    glyphs = UNICODE if unicode else ASCII
    canvas = Canvas(width=fitting(width), glyphs=glyphs)
    document = cast("Report", printable(dict(report), glyphs))
    draw_part(canvas, _draw_header, document)
    canvas.blank()
    draw_part(canvas, draw_ledger, document["ledger"])
    canvas.blank()
    draw_part(canvas, _draw_verdict, document)
    draw_part(canvas, draw_proofs, document)
    draw_part(canvas, draw_findings, document["findings"], said=document["verdict"]["summary"])
    draw_part(canvas, draw_ranks, document["run"])
    draw_part(canvas, draw_experiments, document)
    canvas.blank()
    draw_part(canvas, _draw_footer, document)
    return canvas


def show(report: Mapping[str, Any], stream: TextIO) -> None:
    """Print the report to a stream as it can take it: its width, colours (NO_COLOR and FORCE_COLOR count) and encoding."""
    stream.write(text_for(report, stream))
    stream.flush()


def text_for(report: Mapping[str, Any], stream: TextIO) -> str:
    """The report as a stream can take it."""
    return render(report, width=width_of(stream), color=takes_color(stream), unicode=takes_unicode(stream))


def verdict_line(report: Mapping[str, Any], stream: TextIO) -> str:
    """The verdict alone, as one line of text that a stream can take."""
    verdict = printable(dict(report["verdict"]), UNICODE if takes_unicode(stream) else ASCII)
    state, rule, summary = verdict["state"], verdict["rule"], verdict["summary"]
    said = summary if summary.startswith(state) else f"{state}: {f'{rule}: ' if rule else ''}{summary}"
    return f"slowstep: {said}"


def _draw_header(canvas: Canvas, report: Report) -> None:
    run, separator = report["run"], canvas.glyphs.separator
    size, sizes = run["batch_size"], run.get("batch_sizes")
    batch = f"batch size {UNKNOWN if size is None else format_number(int(size) if float(size).is_integer() else size)}"
    if sizes:
        batch = f"batch size {format_number(sizes[0])} to {format_number(sizes[1])}"
    if size is not None and run["batch_size_from"]:
        batch += f" ({run['batch_size_from']})"
    several = run.get("batches_per_step") or 1
    if several > 1:
        batch += f", {format_number(int(several) if float(several).is_integer() else several)} batches a step"
    framework = run["framework"] or "framework unknown"
    ranks = f" on {run['ranks']} ranks" if run["ranks"] > 1 else ""
    if run.get("rank_rows"):
        ranks = f", {rank_name(run)}"
    duration = "" if run["duration_s"] is None else f"{separator}{format_duration(run['duration_s'] * 1e9)} in all".replace(" ", NBSP)
    facts = [
        f"{framework}{ranks}, {run['device'] or 'device unknown'}",
        batch,
        f"{_steps(run)}{duration}",
    ]
    canvas.prose(separator.join(facts), label=canvas.cut(run["name"], canvas.width // 3) + separator.rstrip(), hang=2)
    canvas.prose(separator.join(_speed(report)), hang=2)
    for label, text in over_time_lines(run):
        canvas.prose(text, label=label, hang=2)
    for note in run.get("notes", []):
        canvas.prose(note, label="Note:", label_style="yellow", hang=2)


def _steps(run: Run) -> str:
    """How many are looked at, of how many recorded: warm-up is left out, and what is no whole period."""
    looked_at, recorded = run["steps"], run.get("recorded_steps") or run["steps"]
    counted = f"{looked_at:,}{f' of {recorded:,}' if recorded != looked_at else ''} step{'' if recorded == 1 else 's'}"
    return counted.replace(" ", NBSP)


def _speed(report: Report) -> list[str]:
    run, speed = report["run"], report["throughput"]
    samples = "samples/s not measured" if speed["samples_per_s"] is None else format_rate(speed["samples_per_s"], "samples")
    steps = "steps/s not measured" if speed["steps_per_s"] is None else format_rate(speed["steps_per_s"], "steps")
    spread, median = speed["step_ms"], speed["step_ms"]["median"]
    step = f"step {UNKNOWN}" if median is None else f"step {format_duration(median * 1e6)}"
    if median is not None and spread["p05"] is not None and spread["p95"] is not None:
        low, high = (format_number_beside(value * 1e6, median * 1e6) for value in (spread["p05"], spread["p95"]))
        step += f" (p05 {low}, p95 {high})"
    job = run.get("all_samples_per_s")
    if job is not None:
        ranks = sum(row["rank"] is not None and row["report"] is not None for row in run["rank_rows"])
        samples = f"{format_rate(job, 'samples')} of {ranks} ranks together, {samples} of this one"
    return [samples, steps, step.replace(" ", NBSP)]


def _draw_verdict(canvas: Canvas, report: Report) -> None:
    verdict = report["verdict"]
    stage, rule = verdict["stage"], verdict["rule"]
    pieces = [(verdict["state"].upper(), _STATE_STYLE[verdict["state"]])]
    if verdict["state"] == "undetermined" and _mostly_unattributed(report):
        pieces += [(", most time unattributed", "")]
    elif stage is not None:
        style = f"bold {STAGE_STYLE.get(stage, '')}"
        pieces += [(" in " if verdict["state"] == "bottleneck" else ", most time in ", ""), (in_words(stage), style)]
    if rule is not None:
        pieces += [(":", "bold"), (f" {rule}", "bold")]
    canvas.flow(*pieces)
    canvas.prose(verdict["summary"])


def _mostly_unattributed(report: Report) -> bool:
    shares = {row["stage"]: row["share"] or 0.0 for row in report["ledger"]}
    return shares.get(UNATTRIBUTED, 0.0) > max(share for stage, share in shares.items() if stage != UNATTRIBUTED)


def _draw_footer(canvas: Canvas, report: Report) -> None:
    following = report["next"]
    if following is not None and following["stage"] is not None and report["findings"]:
        _labelled(canvas, "Then", f"what binds is {following['predicted'] or following['stage']}")
    # Advice that could not be given leaves no doubt in the answer: unless it is pressing it stands in report.json only.
    unjudged = [row for row in report["not_judged"] if not row.get("advisory") or row.get("pressing")]
    # Of many reasons the last are cut.
    unjudged.sort(key=lambda row: not row.get("pressing", False))
    if unjudged:
        _labelled(canvas, "Not judged", _not_judged(unjudged))
    _draw_health(canvas, report["health"])
    # What a profiler cost is in its trace's times; the trace's note says how much that may be.
    if "trace" not in report["run"]:
        _labelled(canvas, "Own cost", _own_cost(report))
    if before := report["run"].get("before_next"):
        _labelled(canvas, "First", before, "bold")
    command = _next_command(report)
    if command is not None:
        canvas.line(("Next".ljust(_LABEL_CELLS), "bold"), " ", (command, "bold cyan"))


def _labelled(canvas: Canvas, label: str, text: str, style: str = "dim") -> None:
    canvas.prose(text, label=label.ljust(_LABEL_CELLS), label_style=style)


def _not_judged(rows: list[NotJudgedRow]) -> str:
    """The rules by their reasons: rules that share one are named together."""
    rules_of: dict[str, list[str]] = {}
    for row in rows:
        rules_of.setdefault(row["reason"], []).append(row["rule"])
    texts = [f"{', '.join(rules)} ({reason})" for reason, rules in list(rules_of.items())[:_REASONS_SHOWN]]
    hidden = sum(len(rules) for rules in list(rules_of.values())[_REASONS_SHOWN:])
    return "; ".join(texts) + (f"; and {hidden} more in report.json" if hidden else "")


def _draw_health(canvas: Canvas, rows: list[HealthRow]) -> None:
    order = {severity: rank for rank, severity in enumerate(("error", "data_loss", "notice"))}
    doubts = sorted((row for row in rows if row["severity"] in order), key=lambda row: order[row["severity"]])
    for row in doubts[:_HEALTH_SHOWN]:
        label = row["severity"].replace("_", " ").capitalize()
        times = f" x{row['count']:,}" if row["count"] > 1 else ""
        _labelled(canvas, label, f"{row['name']}{times}: {row['remedy']}", _SEVERITY_STYLE[row["severity"]])
    if len(doubts) > _HEALTH_SHOWN:
        _labelled(canvas, "", f"and {len(doubts) - _HEALTH_SHOWN} more doubts in report.json")


def _own_cost(report: Report) -> str:
    cost = report["overhead"]
    if cost["us_per_step"] is None:
        return UNKNOWN
    share = "" if cost["share"] is None else f" ({format_share(cost['share'])} of the time with what runs beside it)"
    once = f", and {format_duration(cost['once_ms'] * 1e6)} once" if cost.get("once_ms", 0.0) >= _ONCE_SHOWN_MS else ""
    return f"{format_duration(cost['us_per_step'] * 1e3)} a step{share}{once}"


def _next_command(report: Report) -> str | None:
    """What to type next; None where nothing is to be done."""
    given = report["run"].get("next_command")
    if given:
        return given
    state, rule = report["verdict"]["state"], report["verdict"]["rule"]
    command = report["run"]["command"]
    if state == "undetermined":
        return f"slowstep run --steps 200 {shlex.join(command)}" if command else None
    return f"slowstep explain {rule}" if rule else None
