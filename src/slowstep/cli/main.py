"""The command `slowstep`: its subcommands, and the one place where errors become messages and exit codes."""

from __future__ import annotations

import os
import sys
from typing import Annotated

import typer

from slowstep import __version__
from slowstep.cli.freed_memory import give_back_freed_memory
from slowstep.cli.run import RunCommand, run
from slowstep.errors import SlowstepError

app = typer.Typer(
    name="slowstep",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
    rich_markup_mode=None,
)


def _say_version(wanted: bool) -> None:
    if wanted:
        print(f"slowstep {__version__}")
        raise typer.Exit


@app.callback()
def slowstep(
    version: Annotated[bool, typer.Option("--version", callback=_say_version, is_eager=True, help="Show the version and exit.")] = False,
) -> None:
    """Why is my training slow, and what would fixing it gain?"""


app.command("run", cls=RunCommand)(run)


def main() -> None:
    """Run the command line with this process's arguments, and end the process with the exit code."""
    _occupy_standard_streams()
    _add_other_commands()
    try:
        app()
    except SlowstepError as error:
        print(f"slowstep: {error}", file=sys.stderr)
        sys.exit(error.exit_code)


def _add_other_commands() -> None:
    # `run` starts somebody's training: it does not wait for what the other commands import.
    if sys.argv[1:2] == ["run"]:
        return
    if sys.argv[1:2] == ["analyze"]:
        give_back_freed_memory()
    from slowstep.cli.analyze import analyze
    from slowstep.cli.bench import app as bench
    from slowstep.cli.explain import explain
    from slowstep.cli.prove import prove
    from slowstep.cli.user_command import UserCommand

    app.command("analyze")(analyze)
    app.command("prove", cls=UserCommand)(prove)
    app.add_typer(bench, name="bench")
    app.command("explain")(explain)


def _occupy_standard_streams() -> None:
    # A stream that came closed stays closed for the command (these are not inherited), but no file of ours may get its number.
    while True:
        handle = os.open(os.devnull, os.O_RDWR)
        if handle > 2:
            os.close(handle)
            return
