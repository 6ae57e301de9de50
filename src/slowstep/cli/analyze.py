"""`slowstep analyze PATH`: the report of a recording that was made before."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Annotated

import typer

from slowstep.report.json import dumps, write
from slowstep.report.terminal import show
from slowstep.workflow.diagnose import diagnose_recording


def analyze(
    path: Annotated[Path, typer.Argument(help="A recording: the folder that `slowstep run` made.")],
    json: Annotated[
        str | None, typer.Option("--json", metavar="FILE", help="Write the report as JSON to FILE, - for standard output.")
    ] = None,
    warmup: Annotated[
        int | None, typer.Option("--warmup", metavar="N", min=0, help="Leave out the first N steps; found by itself without it.")
    ] = None,
    rank: Annotated[
        int | None, typer.Option("--rank", metavar="N", min=0, help="Show this rank; without it the one that the others wait for, else 0.")
    ] = None,
) -> None:
    """Diagnose a recording: where the time goes, what the bottleneck is, what fixing it would gain."""
    report = diagnose_recording(path, warmup=warmup, rank=rank)
    if json == "-":
        sys.stdout.write(dumps(report))
        return
    if json is not None:
        write(report, json)
    show(report, sys.stdout)
