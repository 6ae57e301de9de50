"""`slowstep runs [FOLDER]`: the recordings that were made here, the newest first."""

from __future__ import annotations

import json as json_format
import os
import sys
from pathlib import Path
from typing import Annotated, Final

import typer

from slowstep.cli.user_command import check_json_target
from slowstep.errors import UnreadableInput
from slowstep.record.launching.folder import analyze_words
from slowstep.workflow.runs import last_run, row_of, runs_document, runs_here

_EXAMPLES: Final = """\b
Examples:
  slowstep runs                the recordings in slowstep_runs
  slowstep runs DIR --json -   those in another folder, for a program
"""

app = typer.Typer(add_completion=False, pretty_exceptions_enable=False, rich_markup_mode=None)


@app.command("runs", epilog=_EXAMPLES)
def runs(
    folder: Annotated[Path, typer.Argument(metavar="FOLDER", hidden=True, show_default=False)] = Path(),
    json: Annotated[
        str | None, typer.Option("--json", metavar="FILE", help="Write the list as JSON to FILE, - for standard output.")
    ] = None,
) -> None:
    """List the recordings: when, how many steps, how fast, what was found, what fixing it would gain, and how large they are.

    FOLDER is where they were made, or a folder of recordings: without it the current one.
    """
    if not os.path.isdir(folder):
        raise UnreadableInput(f"{folder} is no folder. Give the one in which `slowstep run` was started, or a folder of recordings.")
    check_json_target(json)
    last = last_run(folder)
    document = runs_document(folder, [row_of(run) for run in reversed(runs_here(folder))])
    if json == "-":
        sys.stdout.write(json_format.dumps(document, indent=2) + "\n")
        return
    from slowstep.report.json import show_and_write
    from slowstep.report.runs_table import show_runs

    show_and_write(lambda: show_runs(document["runs"], sys.stdout, command=analyze_words(str(last))), document, json)
