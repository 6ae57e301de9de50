"""The command `slowstep`: the one place where errors become messages and exit codes."""

from __future__ import annotations

import os
import sys

from slowstep import __version__
from slowstep.cli import VERSION_OPTIONS


def main() -> None:
    """Run the command line with this process's arguments, and end the process with the exit code."""
    words = sys.argv[1:]
    if len(words) == 1 and words[0] in VERSION_OPTIONS:
        # Before anything is imported that it does not need: scripts ask for it.
        print(f"slowstep {__version__}")
        return
    # Imported here for the same reason.
    from slowstep.cli.border import ended_by, ignore_interrupts
    from slowstep.report.streams import write_plainly

    _occupy_standard_streams()
    write_plainly(sys.stdout, sys.stderr)
    try:
        from slowstep.cli.commands import obey

        sys.exit(obey(words))
    except SystemExit:
        raise
    except BaseException as error:  # noqa: BLE001 - the border: nobody is to read a traceback
        sys.exit(ended_by(error, words))
    finally:
        ignore_interrupts()
        _detach_closed_streams()


def _occupy_standard_streams() -> None:
    # A stream that came closed stays closed for the command (these are not inherited), but no file of ours may get its number.
    while True:
        handle = os.open(os.devnull, os.O_RDWR)
        if handle > 2:
            os.close(handle)
            return


def _detach_closed_streams() -> None:
    """Discard what nobody reads any more, and all that is written to it from now on. Raises nothing.

    Python would complain about such a stream once more at its own end, and end with 120.
    """
    for stream in (sys.stdout, sys.stderr):
        if stream is None:
            continue
        try:
            stream.flush()
        except ValueError:  # closed by somebody: nothing of it is left
            continue
        except OSError:
            _discard(stream.fileno())


def _discard(descriptor: int) -> None:
    try:
        nowhere = os.open(os.devnull, os.O_WRONLY)
    except OSError:
        return
    os.dup2(nowhere, descriptor)
    os.close(nowhere)
