"""`slowstep analyze PATH...`: the report of a recording that was made before, or of a profiler's traces."""

from __future__ import annotations

import re
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Final

import typer

from slowstep.cli.numbers import whole_number
from slowstep.cli.plugin_texts import exporter_terms
from slowstep.cli.user_command import check_json_target
from slowstep.cli.verbose import Verbose
from slowstep.errors import BadUsage
from slowstep.workflow.given import what_is_given
from slowstep.workflow.traces.trace_request import TraceRequest

if TYPE_CHECKING:
    from slowstep.analyses.measure_trace import ChosenStep

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
            metavar="|".join(exporter_terms()),
            help=f"Write it for other programs. {' '.join(f'{name}: {each.writes}.' for name, each in exporter_terms().items())}",
        ),
    ] = None,
    export_to: Annotated[
        Path | None,
        typer.Option(
            "--export-to",
            metavar="PATH",
            help=f"Where; without it {' or '.join(f'TRACE{each.suffix}' for each in exporter_terms().values())} in the current folder.",
        ),
    ] = None,
    verbose: Verbose = False,
) -> None:
    """Diagnose a recording or a trace: where the time goes, what the bottleneck is, what fixing it would gain.

    PATH is a recording (a folder that `slowstep run` made), a trace, a folder of them, or a report.json. Without it, the last run is shown.
    """
    asked = TraceRequest(step=_step(step), batch_size=batch_size)
    memory_bytes = _bytes(memory)
    _check_export(export, export_to)
    check_json_target(json)
    given = what_is_given(paths or [])
    # Imported here: what cannot be meant, or is not there, is refused without what reads and draws.
    from slowstep.cli.analyze_report import ReportRequest, report_on

    report_on(
        given,
        ReportRequest(
            asked=asked, warmup=warmup, rank=rank, memory_bytes=memory_bytes, export=export, export_to=export_to, json=json, verbose=verbose
        ),
    )


def _check_export(name: str | None, place: Path | None) -> None:
    """Raises BadUsage for an exporter that there is not, and for a place without one."""
    known = exporter_terms()
    if name is None and place is not None:
        raise BadUsage(f"--export-to {place}: say what is to be written there, {' or '.join(f'--export {each}' for each in known)}.")
    if name is not None and name not in known:
        raise BadUsage(f"--export {name}: give {' or '.join(known)}.")


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
