"""`slowstep analyze PATH...`: the report of a recording that was made before, or of a profiler's traces."""

from __future__ import annotations

import os
import sys
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Annotated, Any, Final

import typer

from slowstep.cli.border import say
from slowstep.cli.export_options import Export, ExportTo, chosen_exporter
from slowstep.cli.numbers import whole_number
from slowstep.cli.progress import progress_on
from slowstep.cli.report_options import Json, Verbose, Warmup
from slowstep.cli.trace_options import BatchSizeOption, MemoryOption, StepOption, parse_memory, parse_step
from slowstep.cli.user_command import check_json_target
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
from slowstep.workflow.export import export_document
from slowstep.workflow.given import Given, what_is_given
from slowstep.workflow.traces.trace_memory import events_within
from slowstep.workflow.traces.traces import TraceRequest

_EXAMPLES: Final = """\b
Examples:
  slowstep analyze                       the last run in slowstep_runs
  slowstep analyze trace.json.gz         a trace of torch.profiler
  slowstep analyze rank0.json rank1.json
  slowstep analyze trace.json --export chrome
"""

app = typer.Typer(add_completion=False, pretty_exceptions_enable=False, rich_markup_mode=None)


@dataclass(frozen=True, kw_only=True, slots=True)
class _Asked:
    """What is asked for beyond the report of what was given: other steps or another rank than it is made of by itself."""

    warmup: int | None
    rank: int | None
    of_trace: TraceRequest

    @property
    def anything(self) -> bool:
        """Whether a report that was made already does not answer it."""
        return self.warmup is not None or self.rank is not None or self.of_trace != TraceRequest()


@dataclass(frozen=True, kw_only=True, slots=True)
class _Output:
    """Where the report goes: to the screen, or as JSON to a file or standard output (`-`), and what is exported, and to where."""

    json: str | None
    verbose: bool
    exporter: Exporter | None
    export_to: Path | None


@app.command("analyze", epilog=_EXAMPLES)
def analyze(
    paths: Annotated[list[Path] | None, typer.Argument(metavar="PATH", hidden=True, show_default=False)] = None,
    json: Json = None,
    warmup: Warmup = None,
    rank: Annotated[
        int | None,
        typer.Option(
            "--rank",
            metavar="N",
            parser=whole_number("--rank", least=0),
            help="Show this rank; without it the one that the others wait for, else 0.",
        ),
    ] = None,
    step: StepOption = None,
    batch_size: BatchSizeOption = None,
    memory: MemoryOption = None,
    export: Export = None,
    export_to: ExportTo = None,
    verbose: Verbose = False,
) -> None:
    """Diagnose a recording or a trace: where the time goes, what the bottleneck is, what fixing it would gain.

    PATH is a recording (a folder that `slowstep run` made), a trace, a folder of them, or a report.json. Without it, the last run is shown.
    """
    asked = _Asked(warmup=warmup, rank=rank, of_trace=TraceRequest(step=parse_step(step), batch_size=batch_size))
    output = _Output(json=json, verbose=verbose, exporter=chosen_exporter(export, export_to), export_to=export_to)
    check_json_target(json)
    given = what_is_given(paths or [])
    needs_more = asked.anything or (output.exporter is not None and output.exporter.write_document is None)
    if given.document is None or (given.is_benched and needs_more):
        _diagnose(given, asked, output, parse_memory(memory))
    elif needs_more:
        raise BadUsage(f"{given.paths[0]} is a report, made already. Give the recording or the trace that it is of, with the same options.")
    else:
        _show_made(given, given.document, output)


def _diagnose(given: Given, asked: _Asked, output: _Output, memory_bytes: int | None) -> None:
    """Make the report of a recording or of traces, show it, and export what is asked for."""
    paths, rank = list(given.paths), given.rank if asked.rank is None else asked.rank
    with progress_on(sys.stderr) as progress:
        how = HowRead(memory_bytes=memory_bytes, most_events=events_within(memory_bytes), progress=progress)
        report = analyze_paths(paths, warmup=asked.warmup, rank=rank, asked=asked.of_trace, how=how)
    _say_which(report, () if given.chosen else given.paths)
    if given.is_benched:
        benched = analyze_words(str(given.paths[0]))
        say(f"slowstep: these are the steps before slowstep bench stopped the training; what it measured: {benched}")
    _write(report, output)
    if output.exporter is not None:
        # Last: what cannot be written costs nobody the report.
        with progress_on(sys.stderr) as progress:
            how = replace(how, progress=progress)
            place = export_by(output.exporter, paths, report, output.export_to, asked=asked.of_trace, how=how)
        _say_written(place, output)


def _show_made(given: Given, document: dict[str, Any], output: _Output) -> None:
    """Show a report as it was written, and export it."""
    path = given.paths[0]
    if given.chosen:
        _say_which(document, ())
    try:
        # What somebody has changed is no fault of ours.
        with raising():
            _write(document, output)
    except (KeyError, TypeError, ValueError, AttributeError, IndexError) as error:
        raise UnreadableInput(f"{path} is a report that lacks something, or was changed ({type(error).__name__}: {error}).") from error
    if output.exporter is not None:
        _say_written(export_document(output.exporter, path, document, output.export_to), output)


def _write(report: dict[str, Any], output: _Output) -> None:
    if output.json == "-":
        sys.stdout.write(dumps(report))
    else:
        show_and_write(lambda: show(report, sys.stdout, verbose=output.verbose), report, output.json)


def _say_written(place: Path, output: _Output) -> None:
    if output.json != "-":
        print_line(f"Written     {place}", sys.stdout)


def _say_which(report: dict[str, Any], asked: Sequence[Path]) -> None:
    """Which recording the report is of, where it was chosen here."""
    # Of traces, the last line of the report says which one was read.
    recording = None if "trace" in report["run"] else report["run"].get("recording")
    if recording is not None and Path(recording).resolve() not in {path.resolve() for path in asked}:
        shown = os.path.relpath(recording)
        say(f"slowstep: the last run here is {recording if shown.startswith('.') else shown}")
