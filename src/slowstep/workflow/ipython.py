"""`%load_ext slowstep` and the cell magic `%%slowstep`."""

from __future__ import annotations

import argparse
import shlex
from typing import Any, Final, NoReturn

from slowstep.errors import BadUsage
from slowstep.units import parse_duration
from slowstep.workflow.session import record

MAGIC: Final = "slowstep"


class _Words(argparse.ArgumentParser):
    """Options of the magic: a mistake in them must not end the kernel."""

    def error(self, message: str) -> NoReturn:
        raise BadUsage(f"%%{MAGIC}: {message}. {self.format_usage().strip()}")


def _duration(text: str) -> float:
    try:
        return parse_duration(text)
    except ValueError as error:
        raise argparse.ArgumentTypeError(str(error)) from error


def read_options(line: str) -> dict[str, Any]:
    """The options behind `%%slowstep`, as `slowstep.record()` takes them. Raises BadUsage."""
    words = _Words(prog=f"%%{MAGIC}", add_help=False)
    words.add_argument("--level", type=int, default=1)
    words.add_argument("--steps", type=int)
    words.add_argument("--for", type=_duration, dest="seconds", metavar="TIME")
    words.add_argument("--out", metavar="DIR")
    words.add_argument("--warmup", type=int)
    words.add_argument("--verbose", action="store_true")
    return vars(words.parse_args(shlex.split(line)))


def load_ipython_extension(shell: Any) -> None:
    """Called by `%load_ext slowstep`."""

    def slowstep(line: str, cell: str) -> None:
        """Record this cell and show the report below it.

        %%slowstep [--level N] [--steps N] [--for TIME] [--out DIR] [--warmup N] [--verbose]
        """
        with record(**read_options(line)):
            # The line of the magic counts, so that lines are numbered as the notebook shows them.
            result = shell.run_cell("\n" + cell)
        error = result.error_before_exec or result.error_in_exec
        if error is not None:
            # The traceback stands above the report already; the cell must fail all the same.
            error._render_traceback_ = list
            raise error

    shell.register_magic_function(slowstep, "cell", MAGIC)


def unload_ipython_extension(shell: Any) -> None:
    """Called by `%unload_ext slowstep`."""
    shell.magics_manager.magics["cell"].pop(MAGIC, None)
