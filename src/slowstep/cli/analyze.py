"""`slowstep analyze PATH...`: the report of a recording that was made before, or of a profiler's traces."""

from __future__ import annotations

import os
import re
import sys
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Annotated, Any, Final

import typer

from slowstep.analyses.measure_trace import ChosenStep
from slowstep.cli.border import say
from slowstep.cli.numbers import whole_number
from slowstep.cli.progress import progress_on
from slowstep.cli.user_command import check_json_target
from slowstep.cli.verbose import Verbose
from slowstep.errors import BadUsage, UnreadableInput
from slowstep.exporters._exporter import Exporter
from slowstep.record.launching.folder import analyze_words
from slowstep.report.drawn_parts import raising
from slowstep.report.json import dumps, show_and_write
from slowstep.report.streams import print_line
from slowstep.report.terminal import show
from slowstep.sources._source import HowRead
from slowstep.workflow.analyze import analyze as analyze_paths
from slowstep.workflow.export import export as export_by
from slowstep.workflow.export import export_document, exporters
from slowstep.workflow.given import Given, what_is_given
from slowstep.workflow.traces.trace_memory import events_within
from slowstep.workflow.traces.traces import TraceRequest

UNITS = {"": 1, "k": 1 << 10, "m": 1 << 20, "g": 1 << 30}


_EXAMPLES: Final = """\b
Examples:
  slowstep analyze                       the last run in slowstep_runs
  slowstep analyze trace.json.gz         a trace of torch.profiler
  slowstep analyze rank0.json rank1.json
  slowstep analyze trace.json --export chrome
"""

app = typer.Typer(add_completion=False, pretty_exceptions_enable=False, rich_markup_mode=None)


@app.command("analyze", epilog=_EXAMPLES)
def analyze(
    paths: Annotated[
        list[Path] | None,
        typer.Argument(metavar="PATH", hidden=True, show_default=False),
    ] = None,
    json: Annotated[
        str | None, typer.Option("--json", metavar="FILE", help="Write the report as JSON to FILE, - for standard output.")
    ] = None,
    warmup: Annotated[
        int | None,
        typer.Option(
            "--warmup",
            metavar="N",
            parser=whole_number("--warmup", least=0),
            help="Leave out the first N steps of a recording (default: until they are even).",
        ),
    ] = None,
    rank: Annotated[
        int | None,
        typer.Option(
            "--rank",
            metavar="N",
            parser=whole_number("--rank", least=0),
            help="Show this rank; without it the one that the others wait for, else 0.",
        ),
    ] = None,
    step: Annotated[
        str | None, typer.Option("--step", metavar="N|slowest|median", help="Look at one step of a trace: by its number, or its length.")
    ] = None,
    batch_size: Annotated[
        int | None,
        typer.Option(
            "--batch-size",
            metavar="N",
            parser=whole_number("--batch-size", least=1),
            help="Samples in a step of the trace, where it does not tell them.",
        ),
    ] = None,
    memory: Annotated[
        str | None, typer.Option("--memory", metavar="SIZE", help="Take at most so much memory, e.g. 500M: of a long trace the last steps.")
    ] = None,
    export: Annotated[
        str | None,
        typer.Option(
            "--export",
            metavar="|".join(exporters()),
            help=f"Write it for other programs. {' '.join(f'{name}: {each.writes}.' for name, each in exporters().items())}",
        ),
    ] = None,
    export_to: Annotated[
        Path | None,
        typer.Option(
            "--export-to",
            metavar="PATH",
            help=f"Where; without it {' or '.join(f'TRACE{each.suffix}' for each in exporters().values())} in the current folder.",
        ),
    ] = None,
    verbose: Verbose = False,
) -> None:
    """Diagnose a recording or a trace: where the time goes, what the bottleneck is, what fixing it would gain.

    PATH is a recording (a folder that `slowstep run` made), a trace, a folder of them, or a report.json. Without it, the last run is shown.
    """
    asked = TraceRequest(step=_step(step), batch_size=batch_size)
    exporter = _exporter(export, export_to)
    check_json_target(json)
    given = what_is_given(paths or [])
    changed = warmup is not None or rank is not None or asked != TraceRequest()
    needs_more = changed or (exporter is not None and exporter.write_document is None)
    if given.document is not None and not (given.is_benched and needs_more):
        if needs_more:
            raise BadUsage(
                f"{given.paths[0]} is a report, made already. Give the recording or the trace that it is of, with the same options."
            )
        _show_document(given, given.document, json, verbose=verbose)
        if exporter is not None:
            _say_written(export_document(exporter, given.paths[0], given.document, export_to), json)
        return
    paths, rank = list(given.paths), given.rank if rank is None else rank
    with progress_on(sys.stderr) as progress:
        limit = _bytes(memory)
        how = HowRead(memory_bytes=limit, most_events=events_within(limit), progress=progress)
        report = analyze_paths(paths, warmup=warmup, rank=rank, asked=asked, how=how)
    _say_which(report, () if given.chosen else given.paths)
    if given.is_benched:
        benched = analyze_words(str(given.paths[0]))
        say(f"slowstep: these are the steps before slowstep bench stopped the training; what it measured: {benched}")
    if json == "-":
        sys.stdout.write(dumps(report))
    else:
        show_and_write(lambda: show(report, sys.stdout, verbose=verbose), report, json)
    if exporter is not None:
        # Last: what cannot be written costs nobody the report.
        with progress_on(sys.stderr) as progress:
            place = export_by(exporter, paths, report, export_to, asked=asked, how=replace(how, progress=progress))
        _say_written(place, json)


def _show_document(given: Given, document: dict[str, Any], json: str | None, *, verbose: bool) -> None:
    """Show a report as it was written."""
    path = given.paths[0]
    if given.chosen:
        _say_which(document, ())
    try:
        if json == "-":
            sys.stdout.write(dumps(document))
        else:
            # What somebody has changed is no fault of ours.
            with raising():
                show_and_write(lambda: show(document, sys.stdout, verbose=verbose), document, json)
    except (KeyError, TypeError, ValueError, AttributeError, IndexError) as error:
        raise UnreadableInput(f"{path} is a report that lacks something, or was changed ({type(error).__name__}: {error}).") from error


def _say_written(place: Path, json: str | None) -> None:
    if json != "-":
        print_line(f"Written     {place}", sys.stdout)


def _say_which(report: dict[str, Any], asked: Sequence[Path]) -> None:
    """Which recording the report is of, where it was chosen here."""
    # Of traces, the last line of the report says which one was read.
    recording = None if "trace" in report["run"] else report["run"].get("recording")
    if recording is not None and Path(recording).resolve() not in {path.resolve() for path in asked}:
        shown = os.path.relpath(recording)
        say(f"slowstep: the last run here is {recording if shown.startswith('.') else shown}")


def _exporter(name: str | None, place: Path | None) -> Exporter | None:
    if name is None and place is None:
        return None
    known = exporters()
    if name is None:
        raise BadUsage(f"--export-to {place}: say what is to be written there, {' or '.join(f'--export {each}' for each in known)}.")
    if name not in known:
        raise BadUsage(f"--export {name}: give {' or '.join(known)}.")
    return known[name]


def _step(text: str | None) -> ChosenStep:
    if text is None or text == "slowest" or text == "median":
        return text  # type: ignore[return-value]
    try:
        return int(text)
    except ValueError:
        raise BadUsage(f"--step {text}: give a step's number, `slowest` or `median`.") from None


def _bytes(text: str | None) -> int | None:
    if text is None:
        return None
    match = re.fullmatch(r"(\d+(?:\.\d+)?)\s*([kmg]?)i?b?", text.strip().lower())
    if match is None or float(match[1]) <= 0:
        raise BadUsage(f"--memory {text}: give a size such as 500M or 2G.")
    return int(float(match[1]) * UNITS[match[2]])
