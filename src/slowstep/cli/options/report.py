"""The options that several commands share which make a report, or show it."""

from __future__ import annotations

from typing import Annotated

import typer

from slowstep.cli.numbers import whole_number

Json = Annotated[str | None, typer.Option("--json", metavar="FILE", help="Write the report as JSON to FILE, - for standard output.")]
Out = Annotated[str | None, typer.Option("--out", metavar="DIR", help="Folder for recordings (default: slowstep_runs).")]
Verbose = Annotated[
    bool,
    typer.Option("--verbose", help="Show all that was measured: every finding, value and threshold, and what could not be judged."),
]
Warmup = Annotated[
    int | None,
    typer.Option(
        "--warmup",
        metavar="N",
        parser=whole_number("--warmup", least=0),
        help="Leave out the first N steps of a recording (default: until they are even).",
    ),
]
