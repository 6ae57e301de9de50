"""`%load_ext slowstep` and the cell magic `%%slowstep`."""

from __future__ import annotations

import argparse
import shlex
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any, Final, NoReturn

from slowstep.errors import BadUsage, SlowstepError
from slowstep.units import parse_duration
from slowstep.workflow.sessions.session import record

MAGIC: Final = "slowstep"
_HELP: Final = ("-h", "--help")


class _Words(argparse.ArgumentParser):
    """Options of the magic: a mistake in them must not end the kernel."""

    def error(self, message: str) -> NoReturn:
        raise BadUsage(f"%%{MAGIC}: {message}. {' '.join(self.format_usage().split())}")


def _duration(text: str) -> float:
    try:
        return parse_duration(text)
    except ValueError as error:
        raise argparse.ArgumentTypeError(str(error)) from error


def _whole_number(least: int) -> Callable[[str], int]:
    """What reads an option's number."""

    def read(text: str) -> int:
        if not text.isdecimal() or int(text) < least:
            raise argparse.ArgumentTypeError(f"{text}: give a whole number, {least} or more")
        return int(text)

    return read


def _words() -> _Words:
    words = _Words(prog=f"%%{MAGIC}", add_help=False, allow_abbrev=False, description="Record this cell, and show the report below it.")
    words.add_argument("--level", type=int, default=1, metavar="N", help="how much is recorded: 0 steps and waits, 1 causes, 2 everything")
    words.add_argument("--steps", type=_whole_number(1), metavar="N", help="end the recording after N steps")
    words.add_argument("--for", type=_duration, dest="seconds", metavar="TIME", help="end it after a time, such as 60s or 2m")
    words.add_argument("--out", metavar="DIR", help="folder for recordings (default: slowstep_runs)")
    words.add_argument("--warmup", type=_whole_number(0), metavar="N", help="leave out the first N steps (default: found)")
    words.add_argument("--verbose", action="store_true", help="show all that was measured")
    return words


def read_options(line: str) -> dict[str, Any]:
    """The options behind `%%slowstep`, as `slowstep.record()` takes them. Raises BadUsage."""
    try:
        return vars(_words().parse_args(shlex.split(line)))
    except ValueError as error:
        raise BadUsage(f"%%{MAGIC} {line}: {str(error).lower()}") from error


def load_ipython_extension(shell: Any) -> None:
    """Called by `%load_ext slowstep`."""

    def slowstep(line: str, cell: str | None = None) -> None:
        if cell is None or set(line.split()) & set(_HELP):
            print(_words().format_help())
            return
        try:
            with _tracebacks_held_back(shell) as held_back, record(**read_options(line)):
                # The line of the magic counts, so that lines are numbered as the notebook shows them.
                result = shell.run_cell("\n" + cell)
        except SlowstepError as error:
            raise _usage_error(error) from None
        raised = result.error_before_exec or result.error_in_exec
        if raised is not None:
            # The cell fails below the report, by its own traceback.
            raised._render_traceback_ = lambda: held_back[-1] if held_back else []
            raise raised

    slowstep.__doc__ = _words().format_help()
    shell.register_magic_function(slowstep, "line_cell", MAGIC)


@contextmanager
def _tracebacks_held_back(shell: Any) -> Iterator[list[list[str]]]:
    """The tracebacks that would have been shown inside, in their order."""
    held_back: list[list[str]] = []
    # A kernel sets one of its own on its shell.
    before = vars(shell).get("_showtraceback")
    shell._showtraceback = lambda _kind, _error, lines: held_back.append(lines)
    try:
        yield held_back
    finally:
        if before is None:
            del shell._showtraceback
        else:
            shell._showtraceback = before


def _usage_error(error: SlowstepError) -> Exception:
    """What IPython shows as one line."""
    from IPython.core.error import UsageError

    return UsageError(str(error))


def unload_ipython_extension(shell: Any) -> None:
    """Called by `%unload_ext slowstep`."""
    for kind in ("line", "cell"):
        shell.magics_manager.magics[kind].pop(MAGIC, None)
