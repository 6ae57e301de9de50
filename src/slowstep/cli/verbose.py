"""The option `--verbose` of the commands that show a report."""

from __future__ import annotations

from typing import Annotated

import typer

Verbose = Annotated[
    bool,
    typer.Option("--verbose", help="Show all that was measured: every finding, value and threshold, and what could not be judged."),
]
