"""`slowstep compare BEFORE AFTER`: is the second run faster than the first, by how much, and where was the time won or lost."""

from __future__ import annotations

import re
import sys
from pathlib import Path
from typing import Annotated, Any, Final

import typer
from typer.core import TyperCommand

from slowstep.cli.border import say
from slowstep.cli.progress import progress_on
from slowstep.cli.user_command import check_json_target
from slowstep.errors import BadUsage
from slowstep.report.comparison import Comparison, is_slower_by
from slowstep.report.json import dumps, show_and_write
from slowstep.sources._source import HowRead
from slowstep.units import format_share
from slowstep.workflow.compare import compare_runs

TRIPPED: Final = 3
NOT_JUDGED: Final = 4

_EXAMPLES: Final = """\b
Examples:
  slowstep compare slowstep_runs/A slowstep_runs/B
  slowstep compare main.json branch.json --fail-above 5%

\b
Exit codes: 3 where AFTER is surely slower than --fail-above allows, 4 where that
cannot be judged.
"""

app = typer.Typer(add_completion=False, pretty_exceptions_enable=False, rich_markup_mode=None)


class CompareCommand(TyperCommand):
    """A command of two runs."""

    def collect_usage_pieces(self, ctx: Any) -> list[str]:
        """What stands behind the command's name in the help text."""
        return ["[OPTIONS]", "BEFORE", "AFTER"]


@app.command("compare", cls=CompareCommand, epilog=_EXAMPLES)
def compare(
    before: Annotated[Path, typer.Argument(metavar="BEFORE", hidden=True, show_default=False)],
    after: Annotated[Path, typer.Argument(metavar="AFTER", hidden=True, show_default=False)],
    json: Annotated[
        str | None, typer.Option("--json", metavar="FILE", help="Write the comparison as JSON to FILE, - for standard output.")
    ] = None,
    fail_above: Annotated[
        str | None,
        typer.Option("--fail-above", metavar="SHARE", help="End with exit code 3 where AFTER is surely slower by more, such as 5%."),
    ] = None,
) -> None:
    """Compare two runs: how much faster the second is, with an interval, what differs, and in which stage the time was won or lost.

    BEFORE and AFTER are recordings (folders in slowstep_runs), traces, or report.json files.
    """
    allowed = None if fail_above is None else _share(fail_above)
    check_json_target(json)
    with progress_on(sys.stderr) as progress:
        comparison = compare_runs(before, after, how=HowRead(progress=progress))
    if json == "-":
        sys.stdout.write(dumps(comparison))
    else:
        # Imported here: what is not there is refused without it.
        from slowstep.report.comparison_terminal import show

        show_and_write(lambda: show(comparison, sys.stdout), comparison, json)
    if allowed is not None:
        _hold(comparison, allowed)


def _hold(comparison: Comparison, allowed: float) -> None:
    """Raises Exit where the gate is tripped, or where nothing can be said: a gate that cannot be judged must not pass unseen."""
    slower = is_slower_by(comparison, allowed)
    if slower:
        say(f"slowstep: AFTER is surely slower than BEFORE by more than {format_share(allowed)} of its throughput.")
        raise typer.Exit(TRIPPED)
    if slower is None:
        say("slowstep: --fail-above cannot be judged: the ratio has no interval. Record both runs, for 30 steps or more.")
        raise typer.Exit(NOT_JUDGED)


def _share(text: str) -> float:
    match = re.fullmatch(r"(\d+(?:\.\d+)?)(%?)", text.strip())
    share = None if match is None else float(match[1]) / (100 if match[2] else 1)
    if share is None or not 0 <= share < 1:
        raise BadUsage(f"--fail-above {text}: give a share of the throughput such as 5% or 0.05.")
    return share
