"""The report on one screen of a terminal: throughput, where a step's time goes, the verdict, the gain, the next command."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final, TextIO, cast

from slowstep.cost_parts import CostPart
from slowstep.health import DAMAGE
from slowstep.prove.stats.verdicts import SETTLED
from slowstep.report.bench_terminal import draw_bench
from slowstep.report.canvas import ASCII, NBSP, UNICODE, Canvas, Glyphs, clauses, fitting, printable
from slowstep.report.drawn_parts import draw_part
from slowstep.report.experiment_table import draw_experiments, draw_proofs
from slowstep.report.finding_blocks import draw_findings
from slowstep.report.in_turn_line import in_turn_line
from slowstep.report.ledger_chart import STAGE_STYLE, draw_ledger, in_words
from slowstep.report.left_out import LeftOut
from slowstep.report.loader_settings_lines import draw_loader_settings
from slowstep.report.outcome_line import outcome_line
from slowstep.report.over_time_lines import over_time_lines
from slowstep.report.pipeline_table import draw_pipeline
from slowstep.report.rank_table import draw_ranks, rank_name
from slowstep.report.saved import draw_saved
from slowstep.report.sentences import as_title
from slowstep.report.streams import takes_color, takes_unicode, width_of
from slowstep.stages import UNATTRIBUTED
from slowstep.units import (
    UNKNOWN,
    format_duration,
    format_number,
    format_number_in_unit_of,
    format_rate,
    format_ratio_interval,
    format_share,
)

if TYPE_CHECKING:
    from collections.abc import Mapping

    from slowstep.document.finding_rows import HealthRow, NotJudgedRow
    from slowstep.document.report import Report
    from slowstep.document.run_rows import Run
    from slowstep.document.throughput_rows import Overhead

_REASONS_SHOWN: Final = 2
_HEALTH_SHOWN: Final = 3
# What is spent once and is less than this is no news.
_ONCE_SHOWN_MS: Final = 1.0
# Nor is what the timing of calls may have taken, where it is less.
_TIMING_SHOWN: Final = 0.001
# As much as a bottleneck is to gain.
_REACH_SHOWN: Final = 1.10
# A cost below this changes nothing in the answer.
_OVERHEAD_SHOWN: Final = 0.01
_LABEL_CELLS: Final = 11
# Where the report says in which folder it lies.
_FOLDER: Final = ("run", "recording")
# Names of scripts are seldom longer.
_NAME_CELLS: Final = 30
# The doubt that says of trainings in turn that they are not judged.
_OTHER_TRAININGS: Final = "other-trainings"
# The reason of a verdict that an experiment settles.
_GAIN_MAY_BE_NONE: Final = "first-gain-may-be-none"
_STATE_STYLE: Final = {"bottleneck": "bold red", "healthy": "bold green", "undetermined": "bold yellow"}
_SEVERITY_STYLE: Final = {"notice": "yellow", "data_loss": "bold yellow", "error": "bold red"}


def render(report: Mapping[str, Any], *, width: int, color: bool, unicode: bool = True, verbose: bool = False, prompt: str = "") -> str:
    """The report as text, `width` cells wide (40 to 120), with ANSI colours or none, in plain ASCII where `unicode` is False.

    `verbose` shows all that was measured; without it what does not change the answer is left out, and how much is said.
    """
    return draw(report, width=width, unicode=unicode, verbose=verbose, prompt=prompt).text(color=color)


def draw(report: Mapping[str, Any], *, width: int, unicode: bool = True, verbose: bool = False, prompt: str = "") -> Canvas:
    """The report on a page `width` cells wide (40 to 120). `prompt` is what a command is typed behind: `!` in a notebook."""
    glyphs = UNICODE if unicode else ASCII
    canvas = Canvas(width=fitting(width), glyphs=glyphs)
    document = _safe(report, glyphs)
    if "bench" in document:
        draw_bench(canvas, document)
        return canvas
    left_out = LeftOut(verbose=verbose)
    draw_part(canvas, _draw_header, document, verbose=verbose)
    canvas.blank()
    provisional = document["run"].get("provisional", False)
    draw_part(canvas, draw_ledger, document["ledger"], verbose=verbose, provisional=provisional)
    canvas.blank()
    draw_part(canvas, _draw_verdict, document)
    draw_part(canvas, draw_proofs, document)
    said = document["verdict"]["summary"]
    draw_part(canvas, draw_findings, document["findings"], left_out, said=said, provisional=provisional)
    draw_part(canvas, draw_pipeline, document, left_out)
    draw_part(canvas, draw_loader_settings, document, left_out)
    draw_part(canvas, draw_ranks, document["run"])
    draw_part(canvas, draw_experiments, document)
    canvas.blank()
    draw_part(canvas, _draw_footer, document, left_out, prompt)
    return canvas


def _safe(report: Mapping[str, Any], glyphs: Glyphs) -> Report:
    """The report with nothing in it that a terminal obeys, but for its folder: that is to be pasted, and is quoted where it is drawn."""
    return cast("Report", printable(dict(report), glyphs, but=_FOLDER if glyphs is UNICODE else ()))


def show(report: Mapping[str, Any], stream: TextIO, *, verbose: bool = False) -> None:
    """Print the report to a stream as it can take it: its width, colours (NO_COLOR and FORCE_COLOR count) and encoding."""
    stream.write(text_for(report, stream, verbose=verbose))
    stream.flush()


def text_for(report: Mapping[str, Any], stream: TextIO, *, verbose: bool = False, prompt: str = "") -> str:
    """The report as a stream can take it."""
    width, color, unicode = width_of(stream), takes_color(stream), takes_unicode(stream)
    return render(report, width=width, color=color, unicode=unicode, verbose=verbose, prompt=prompt)


def verdict_line(report: Mapping[str, Any], stream: TextIO) -> str:
    """The verdict alone, as one line of text that a stream can take."""
    verdict = printable(dict(report["verdict"]), UNICODE if takes_unicode(stream) else ASCII)
    state, rule, summary = verdict["state"], verdict["rule"], verdict["summary"]
    said = summary if state == "undetermined" else f"{state}: {f'{rule}: ' if rule else ''}{summary}"
    return f"slowstep: {said}"


def _draw_header(canvas: Canvas, report: Report, *, verbose: bool) -> None:
    run = report["run"]
    framework = run["framework"] or "framework unknown"
    ranks = f" on {run['ranks']} ranks" if run["ranks"] > 1 else ""
    if run.get("rank_rows"):
        ranks = f", {rank_name(run)}"
    # Of a trace no step of which is left nothing was looked at.
    duration = format_duration((run["duration_s"] or 0.0) * 1e9)
    lasted = f"{canvas.glyphs.separator}{duration} in total".replace(" ", NBSP) if run["duration_s"] else ""
    facts = [
        f"{framework}{ranks}, {run['device'] or 'device unknown'}",
        _batch(run, verbose=verbose),
        f"{_steps(run)}{lasted}",
    ]
    canvas.prose(clauses(facts, behind_label=True), label=canvas.cut(run["name"], max(canvas.width // 3, _NAME_CELLS)), hang=2)
    canvas.prose(clauses(_speed(report)), hang=2)
    if (reach := report["throughput"].get("reach")) is not None and reach["gain"] >= _REACH_SHOWN:
        said = format_ratio_interval(reach["gain"], reach["low"], reach["high"])
        canvas.prose(f"{said} if input, output and store cost nothing", label="Reach:", hang=2)
    for label, text in over_time_lines(run):
        canvas.prose(text, label=label, hang=2)
    if (in_turn := in_turn_line(run.get("in_turn", []))) is not None:
        canvas.prose(in_turn, label="Trainings:", label_style="yellow", hang=2)
    for row in filter(_is_damage, report["health"]):
        canvas.prose(_doubt(row), label="Data loss:", label_style=_SEVERITY_STYLE[row["severity"]], hang=2)
    for note in run.get("notes", []):
        canvas.prose(note, label="Note:", label_style="yellow", hang=2)
    if report["overhead"].get("may_exceed"):
        canvas.prose(_overhead(report), label="Recording cost:", label_style="yellow", hang=2)


def _batch(run: Run, *, verbose: bool) -> str:
    """How many samples are in a batch, whence that is known, and how many batches in a step."""
    size, sizes = run["batch_size"], run.get("batch_sizes")
    batch = f"batch size {UNKNOWN if size is None else format_number(int(size) if float(size).is_integer() else size)}"
    if sizes:
        batch = f"batch size {format_number(sizes[0])} to {format_number(sizes[1])}"
    if verbose and size is not None and run["batch_size_from"]:
        batch += f" ({run['batch_size_from']})"
    elif run.get("batch_size_assumed"):
        batch += " (assumed)"
    several = run.get("batches_per_step") or 1
    if several > 1:
        batch += f", {format_number(int(several) if float(several).is_integer() else several)} batches a step"
    return batch


def _steps(run: Run) -> str:
    """How many are looked at, of how many recorded: warm-up is left out, and what is no whole period."""
    looked_at, recorded = run["steps"], run.get("recorded_steps") or run["steps"]
    counted = f"{looked_at:,}{f' of {recorded:,}' if recorded != looked_at else ''} step{'' if recorded == 1 else 's'}"
    several = run.get("updates_per_step")
    of = f" of {format_number(int(several) if several.is_integer() else several)} updates" if several else ""
    return f"{counted}{of}{' measured' if recorded != looked_at else ''}".replace(" ", NBSP)


def _speed(report: Report) -> list[str]:
    run, speed = report["run"], report["throughput"]
    samples = "samples/s not measured" if speed["samples_per_s"] is None else format_rate(speed["samples_per_s"], "samples")
    steps = "steps/s not measured" if speed["steps_per_s"] is None else format_rate(speed["steps_per_s"], "steps")
    spread, median, spread_of = speed["step_ms"], speed["step_ms"]["median"], ""
    step = f"step {UNKNOWN}" if median is None else f"step {format_duration(median * 1e6)}"
    if median is not None and spread["p05"] is not None and spread["p95"] is not None:
        low, high = (format_number_in_unit_of(value * 1e6, median * 1e6) for value in (spread["p05"], spread["p95"]))
        spread_of = f" {f'(median; p05 {low}, p95 {high})'.replace(' ', NBSP)}"
    job = run.get("all_samples_per_s")
    if job is not None:
        ranks = sum(row["rank"] is not None and row["report"] is not None for row in run["rank_rows"])
        samples = f"{format_rate(job, 'samples')} of {ranks} ranks together, {samples} of this one"
    return [samples, steps, step.replace(" ", NBSP) + spread_of]


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
    if not _is_settled(report):
        answer = verdict.get("answer", verdict["summary"])
        canvas.prose(as_title(answer, opens_with_name=verdict.get("opens_with_name", True)))


def _is_settled(report: Report) -> bool:
    """Whether the verdict was left open for the first finding's gain alone, which an experiment has measured: its line stands next."""
    first = report["findings"][0]["rule"] if report["findings"] else None
    measured = {row["rule"] for row in report["experiments"] if row["role"] == "fix" and row["verdict"] in SETTLED}
    return report["verdict"].get("code") == _GAIN_MAY_BE_NONE and first in measured


def _mostly_unattributed(report: Report) -> bool:
    shares = {row["stage"]: row["share"] or 0.0 for row in report["ledger"]}
    return shares.get(UNATTRIBUTED, 0.0) > max(share for stage, share in shares.items() if stage != UNATTRIBUTED)


def _draw_footer(canvas: Canvas, report: Report, left_out: LeftOut, prompt: str) -> None:
    following = report["next"]
    if following is not None and following["stage"] is not None and report["findings"]:
        demand = following.get("demand")
        canvas.prose(f"After the first fix, {in_words(following['stage'])} takes longest{f': {demand}' if demand else ''}", hang=2)
    _draw_not_judged(canvas, report, left_out)
    _draw_health(canvas, _not_said(report), left_out)
    _draw_overhead(canvas, report, left_out)
    if (outcome := outcome_line(report)) is not None:
        _labelled(canvas, "Outcome", outcome, "bold")
    command, before = report["run"].get("next_command"), report["run"].get("before_next")
    if before:
        _labelled(canvas, "Next" if command is None else "First", before, "bold")
    if command is not None:
        typed = command if report["run"].get("next_in_python") else prompt + command
        canvas.line(("Next".ljust(_LABEL_CELLS), "bold"), " ", (typed, "bold cyan"))
    draw_saved(canvas, report["run"], left_out, prompt)


def _draw_not_judged(canvas: Canvas, report: Report, left_out: LeftOut) -> None:
    """The rules that could not judge: all of them where they may be why there is no answer, or where all is asked for."""
    rows = report["not_judged"]
    # Advice that could not be given leaves no doubt in the answer.
    doubts = [row for row in rows if not row.get("advisory")] if report["verdict"]["state"] == "undetermined" else []
    if not left_out.verbose:
        # A reason that is the answer's stands there.
        rows = [row for row in rows if not row.get("in_verdict")]
    shown = rows if left_out.verbose else [row for row in rows if row in doubts or row.get("pressing")]
    left_out.count(len(rows) - len(shown), "rule not judged", "rules not judged")
    if shown:
        # Of many reasons the last are cut.
        _labelled(canvas, "Not judged", _not_judged(sorted(shown, key=lambda row: not row.get("pressing", False)), left_out))


def _draw_overhead(canvas: Canvas, report: Report, left_out: LeftOut) -> None:
    # What a profiler cost is in its trace's times; the trace's note says how much that may be.
    if "trace" in report["run"] or report["overhead"].get("may_exceed"):
        return
    cost = report["overhead"]
    if left_out.verbose or (cost["share"] or 0.0) >= _OVERHEAD_SHOWN:
        _labelled(canvas, "Overhead", _overhead(report))
    else:
        left_out.name("overhead")


def _labelled(canvas: Canvas, label: str, text: str, style: str = "dim") -> None:
    canvas.prose(text, label=label.ljust(_LABEL_CELLS), label_style=style)


def _not_judged(rows: list[NotJudgedRow], left_out: LeftOut) -> str:
    """The rules by their reasons: rules that share one are named together."""
    rules_of: dict[str, list[str]] = {}
    for row in rows:
        rules_of.setdefault(row["reason"], []).append(row["rule"])
    shown = len(rules_of) if left_out.verbose else _REASONS_SHOWN
    texts = [f"{', '.join(rules)} ({reason})" for reason, rules in list(rules_of.items())[:shown]]
    left_out.count(sum(len(rules) for rules in list(rules_of.values())[shown:]), "rule not judged", "rules not judged")
    return "; ".join(texts)


def _not_said(report: Report) -> list[HealthRow]:
    """The doubts without those that are told at the top: what is missing, and other trainings where each of these is named."""
    told = in_turn_line(report["run"].get("in_turn", [])) is not None
    return [row for row in report["health"] if not (_is_damage(row) or (told and row["name"] == _OTHER_TRAININGS))]


def _is_damage(row: HealthRow) -> bool:
    """Whether it says what is missing of the recording: nothing below is to be read without it."""
    return row["name"] in DAMAGE and row["severity"] == "data_loss"


def _doubt(row: HealthRow) -> str:
    times = f" x{row['count']:,}" if row["count"] > 1 else ""
    return f"{row['name']}{times}: {row['remedy']}"


def _draw_health(canvas: Canvas, rows: list[HealthRow], left_out: LeftOut) -> None:
    order = {severity: rank for rank, severity in enumerate(("error", "data_loss", "notice"))}
    doubts = sorted((row for row in rows if row["severity"] in order), key=lambda row: order[row["severity"]])
    shown = len(doubts) if left_out.verbose else _HEALTH_SHOWN
    for row in doubts[:shown]:
        label = row["severity"].replace("_", " ").capitalize()
        _labelled(canvas, label, _doubt(row), _SEVERITY_STYLE[row["severity"]])
    left_out.count(len(doubts[shown:]), "doubt")


def _recording_share(cost: Overhead, share: float) -> float:
    """What of the share is not the profiler's, which somebody has asked for."""
    return share - sum(part["share"] for part in cost.get("parts", []) if part["name"] == CostPart.PROFILER)


def _overhead(report: Report) -> str:
    """What recording cost: first whether it is more than is promised, and what of it is not the recorder's. Of a share that is not known,
    only how long it was.
    """
    cost = report["overhead"]
    if cost["us_per_step"] is None:
        return UNKNOWN
    text = f"{format_duration(cost['us_per_step'] * 1e3)} a step"
    if cost["share"] is not None:
        text = f"{_shares(cost, cost['share'])}; {text}"
    once = cost.get("once_ms", 0.0)
    return f"slowstep itself took {text}{f', and {format_duration(once * 1e6)} once' if once >= _ONCE_SHOWN_MS else ''}"


def _shares(cost: Overhead, share: float) -> str:
    """The share of the time that all took, the profiler's apart, and what recording took more than it is to."""
    parts = {part["name"]: part["share"] for part in cost.get("parts", [])}
    recording, limit = _recording_share(cost, share), cost.get("limit_share")
    of = "" if CostPart.PROFILER in parts else " of the time"
    text = f"{format_share(recording)}{of}"
    if limit is not None and not cost.get("held", True):
        named = ", ".join(f"{name} {format_share(part)}" for name, part in parts.items() if name != CostPart.PROFILER)
        # Of a share that is just above its limit, a digit more.
        text = f"{recording * 100:.2f} %{of} ({named})"
    if (timing := cost.get("call_timing_share_at_most") or 0.0) >= _TIMING_SHOWN:
        text += f", and up to {format_share(timing)} to time function calls"
    if limit is not None:
        # Of short steps it is more than half a percent.
        text += f" (limit {limit * 100:.2g} %)"
    if CostPart.PROFILER not in parts:
        return text
    return f"{format_share(share)} of the time: the profiler of --capture {format_share(parts[CostPart.PROFILER])}, recording {text}"
