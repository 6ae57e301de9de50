"""The command `slowstep`: its subcommands, and the one place where errors become messages and exit codes."""

from __future__ import annotations

import os
import sys
from typing import Annotated, Final

import typer

from slowstep import __version__
from slowstep.cli.closed_streams import detach_closed_streams
from slowstep.cli.freed_memory import give_back_freed_memory
from slowstep.cli.run import RunCommand, run
from slowstep.errors import INTERRUPTED_CODE, SlowstepError

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
    try:
        _add_other_commands(sys.argv[1] if len(sys.argv) > 1 else "")
        app()
    except SlowstepError as error:
        print(f"slowstep: {error}", file=sys.stderr)
        sys.exit(error.exit_code)
    except KeyboardInterrupt:  # while commands are imported; inside of them typer ends alike
        sys.exit(INTERRUPTED_CODE)
    finally:
        detach_closed_streams()


def _add_other_commands(asked: str) -> None:
    """The one that is asked for, or all. `run` starts somebody's training: nobody waits for what the other commands import."""
    if asked == "analyze":
        give_back_freed_memory(sys.argv[2:])
    for name, add in _OTHERS.items():
        if asked == name or asked not in {"run", *_OTHERS}:
            add()


def _add_analyze() -> None:
    from slowstep.cli.analyze import analyze

    app.command("analyze")(analyze)


def _add_prove() -> None:
    from slowstep.cli.prove import prove
    from slowstep.cli.user_command import UserCommand

    app.command("prove", cls=UserCommand)(prove)


def _add_bench() -> None:
    from slowstep.cli.bench import app as bench

    app.add_typer(bench, name="bench")


def _add_explain() -> None:
    from slowstep.cli.explain import explain

    app.command("explain")(explain)


_OTHERS: Final = {"analyze": _add_analyze, "prove": _add_prove, "bench": _add_bench, "explain": _add_explain}


def _occupy_standard_streams() -> None:
    # A stream that came closed stays closed for the command (these are not inherited), but no file of ours may get its number.
    while True:
        handle = os.open(os.devnull, os.O_RDWR)
        if handle > 2:
            os.close(handle)
            return
