"""`slowstep analyze PATH...`: the report of a recording that was made before, or of a profiler's traces."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Final

import typer

from slowstep.cli.numbers import whole_number
from slowstep.cli.options.export import Export, ExportTo, check_export
from slowstep.cli.options.report import Json, Verbose, Warmup
from slowstep.cli.options.trace import BatchSizeOption, MemoryOption, StepOption, parse_memory, parse_step
from slowstep.cli.user_command import check_json_target
from slowstep.workflow.given import what_is_given
from slowstep.workflow.traces.trace_request import TraceRequest

_EXAMPLES: Final = """\b
Examples:
  slowstep analyze                       the last run in slowstep_runs
  slowstep analyze trace.json.gz         a trace of torch.profiler
  slowstep analyze rank0.json rank1.json
  slowstep analyze trace.json --export chrome
"""

_Rank = Annotated[
    int | None,
    typer.Option(
        "--rank",
        metavar="N",
        parser=whole_number("--rank", least=0),
        help="Show this rank; without it the one that the others wait for, else 0.",
    ),
]

app = typer.Typer(add_completion=False, pretty_exceptions_enable=False, rich_markup_mode=None)


@app.command("analyze", epilog=_EXAMPLES)
def analyze(
    paths: Annotated[list[Path] | None, typer.Argument(metavar="PATH", hidden=True, show_default=False)] = None,
    json: Json = None,
    warmup: Warmup = None,
    rank: _Rank = None,
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
    asked = TraceRequest(step=parse_step(step), batch_size=batch_size)
    memory_bytes = parse_memory(memory)
    check_export(export, export_to)
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
