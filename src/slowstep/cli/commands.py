"""The subcommands of `slowstep`, each loaded when it is asked for: nobody waits for what another one imports."""

from __future__ import annotations

from dataclasses import dataclass
from importlib import import_module
from typing import Annotated, Any, Final

import typer
from typer.core import TyperGroup

from slowstep import __version__
from slowstep.cli import VERSION_OPTIONS
from slowstep.cli.border import say
from slowstep.cli.mistakes import Mistake, explained
from slowstep.cli.narrow_help import made_narrow, narrow_width
from slowstep.cli.offer import offered
from slowstep.errors import INTERRUPTED_CODE

_EXAMPLES: Final = """\b
Begin with:
  slowstep run train.py            record a training, and say what makes it slow
  slowstep prove train.py          measure what the fixes gain
  slowstep analyze trace.json.gz   the same answer from a profiler's trace

\b
Exit codes: run ends with that of your command; 125 to 127 where it could not
be started. The others: 0 done, 1 your command failed, 2 bad usage or unreadable
input, 3 prove, bench: the script ended before anything was tried; compare: slower
than --fail-above allows, 4 not trustworthy.
"""


@dataclass(frozen=True, slots=True)
class _Home:
    """The module whose `app` is the subcommand, and the line that stands for it in the list."""

    module: str
    summary: str


# In the order in which one meets them.
_HOMES: Final = {
    "run": _Home("slowstep.cli.run", "Run a training, record it, and say what makes it slow."),
    "analyze": _Home("slowstep.cli.analyze", "Show the report of a recording or of profiler traces."),
    "prove": _Home("slowstep.cli.prove", "Measure by experiment which fix makes a training faster."),
    "bench": _Home("slowstep.cli.bench", "Measure the loader, or the compute, of a training alone."),
    "compare": _Home("slowstep.cli.compare", "Say how much faster one run is than another, and where."),
    "demo": _Home("slowstep.cli.demo", "Record a bundled training with a known bottleneck."),
    "runs": _Home("slowstep.cli.runs", "List the recordings that were made here."),
    "explain": _Home("slowstep.cli.explain", "Explain a rule or a lever."),
}


class Commands(TyperGroup):
    """The subcommands, none of which is imported before it is needed."""

    def list_commands(self, ctx: Any) -> list[str]:
        """Their names, in the order of the help text."""
        return list(_HOMES)

    def get_command(self, ctx: Any, cmd_name: str) -> Any:
        """The subcommand, imported now; None where there is none of this name."""
        home = _HOMES.get(cmd_name)
        if home is not None and cmd_name not in self.commands:
            found = typer.main.get_command(import_module(home.module).app)
            self.commands[cmd_name] = found if narrow_width() is None else made_narrow(found)
        return self.commands.get(cmd_name)

    def format_commands(self, ctx: Any, formatter: Any) -> None:
        """Their list, of which nothing is cut."""
        with formatter.section("Commands"):
            formatter.write_dl([(name, home.summary) for name, home in _HOMES.items()])


app = typer.Typer(
    name="slowstep",
    cls=Commands,
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
    rich_markup_mode=None,
    context_settings={"help_option_names": ["-h", "--help"]},
    epilog=_EXAMPLES,
)


def _say_version(wanted: bool) -> None:
    if wanted:
        print(f"slowstep {__version__}")
        raise typer.Exit


@app.callback()
def slowstep(
    version: Annotated[
        bool, typer.Option(*VERSION_OPTIONS, callback=_say_version, is_eager=True, help="Show the version and exit.")
    ] = False,
) -> None:
    """Why is my training slow, and what would fixing it gain?"""


def obey(words: list[str]) -> int:
    """Do what a command line says; the exit code. Raises SlowstepError for what cannot be done."""
    meant = offered(words, list(_HOMES), _takes)
    if meant is not None:
        words = list(meant)
    if words[:1] == ["analyze"]:
        # Before polars is imported.
        from slowstep.cli.freed_memory import give_back_freed_memory

        give_back_freed_memory(words[1:])
    try:
        command, width = typer.main.get_command(app), narrow_width()
        command = command if width is None else made_narrow(command)
        code = command.main(args=words, prog_name="slowstep", standalone_mode=False, terminal_width=width)
    except typer.Abort:
        return INTERRUPTED_CODE
    except Mistake as mistake:
        say(explained(mistake))
        return int(mistake.exit_code)
    return code if isinstance(code, int) else 0


def _takes(name: str) -> frozenset[str]:
    """The options of a subcommand."""
    command = typer.main.get_command(import_module(_HOMES[name].module).app)
    return frozenset(option for parameter in command.params for option in parameter.opts if option.startswith("-"))
