"""`slowstep bench data|compute`: one half of a training alone, and what both halves make together."""

from __future__ import annotations

import os
import sys
from typing import Annotated, Final

import typer

from slowstep.cli.durations import parse_duration
from slowstep.cli.prove_progress import tell_on
from slowstep.cli.user_command import UserCommand, check_json_target
from slowstep.errors import BadUsage
from slowstep.record import format as contract
from slowstep.report.bench_terminal import show
from slowstep.report.json import dumps, write
from slowstep.workflow.bench import bench as bench_training
from slowstep.workflow.bench_act import Asked, Measured, What
from slowstep.workflow.bench_report import make_report

SANDBOXES: Final = ("overlay", "copy")
FAILED: Final = 1
NOTHING: Final = 2
INTERRUPTED: Final = 130

app = typer.Typer(no_args_is_help=True, add_completion=False, rich_markup_mode=None, help="Measure one half of a training alone.")

_Command = Annotated[list[str], typer.Argument(metavar="CMD...", help="train.py ARGS, -m MODULE ARGS, or any command that starts Python.")]
_Budget = Annotated[str, typer.Option("--budget", metavar="TIME", help="Measure for so long, such as 60s or 3m; the start is extra.")]
_Json = Annotated[str | None, typer.Option("--json", metavar="FILE", help="Write the report as JSON; - is standard output.")]
_Out = Annotated[str | None, typer.Option("--out", metavar="DIR", help="Folder for recordings (default: slowstep_runs).")]
_Writes = Annotated[bool, typer.Option("--allow-writes", help="Where no sandbox is possible, let the training change your files.")]
_Sandbox = Annotated[str | None, typer.Option("--sandbox", metavar="overlay|copy", help="Use this kind of sandbox and no other.")]
_Seed = Annotated[int | None, typer.Option("--seed", min=0, metavar="N", help="Draw the order of the blocks from this seed.")]


@app.command("data", cls=UserCommand)
def data(
    command: _Command,
    budget: _Budget = "60s",
    json: _Json = None,
    out: _Out = None,
    allow_writes: _Writes = False,
    sandbox: _Sandbox = None,
    seed: _Seed = None,
) -> None:
    """Measure the training's own loader alone: its speed, its parts, more and fewer workers, and what binds it.

    The training runs in a sandbox, and is thrown away. Options of slowstep stand before the command.
    """
    _bench(_asked("data", command, budget, out, sandbox, seed, allow_writes=allow_writes), json)


@app.command("compute", cls=UserCommand)
def compute(
    command: _Command,
    budget: _Budget = "60s",
    json: _Json = None,
    out: _Out = None,
    allow_writes: _Writes = False,
    sandbox: _Sandbox = None,
    seed: _Seed = None,
) -> None:
    """Measure the training on cached batches: what its compute could do if its input cost nothing.

    The training runs in a sandbox, and is thrown away. Options of slowstep stand before the command.
    """
    _bench(_asked("compute", command, budget, out, sandbox, seed, allow_writes=allow_writes), json)


def _asked(
    what: What, words: list[str], budget: str, out: str | None, sandbox: str | None, seed: int | None, *, allow_writes: bool
) -> Asked:
    if os.environ.get(contract.ENV_DISABLE):
        raise BadUsage(f"{contract.ENV_DISABLE} is set, so nothing can be measured. Unset it.")
    if sandbox is not None and sandbox not in SANDBOXES:
        raise BadUsage(f"--sandbox {sandbox}: give {' or '.join(SANDBOXES)}.")
    seconds = parse_duration(budget)
    return Asked(what=what, words=tuple(words), budget_s=seconds, out=out, allow_writes=allow_writes, sandbox=sandbox, seed=seed)


def _bench(asked: Asked, json: str | None) -> None:
    check_json_target(json)
    with tell_on(sys.stderr) as tell:
        measured = bench_training(asked, os.environ, say=tell.say, phase=tell.phase)
    _say_failure(measured)
    if measured.notes or measured.plan is not None:
        report = make_report(measured, asked)
        if json == "-":
            sys.stdout.write(dumps(report))
        else:
            if json is not None:
                write(report, json)
            show(report, sys.stdout)
    raise typer.Exit(_code(measured))


def _say_failure(measured: Measured) -> None:
    """What went wrong with the training itself, and the end of what it printed then."""
    ending = measured.ending
    if ending is not None and ending.exit_code:
        print(f"slowstep: the command ended with exit code {ending.exit_code}. The last that it printed:", file=sys.stderr)
        for line in ending.output.splitlines():
            print(f"    {line}", file=sys.stderr)
    if not measured.notes:
        print(f"slowstep: {measured.reason or 'nothing was measured'}.", file=sys.stderr)


def _code(measured: Measured) -> int:
    if measured.ended_by == "interrupted":
        return INTERRUPTED
    if any(note["part"] == "drain" for note in measured.notes):
        return 0
    return FAILED if measured.ending is not None and measured.ending.exit_code else NOTHING
