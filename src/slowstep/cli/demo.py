"""`slowstep demo`: put a small training that is slower than it need be into this folder, and record it as any other."""

from __future__ import annotations

import os
import subprocess
from importlib.resources import files
from pathlib import Path
from typing import Final

import typer

from slowstep.cli.border import say
from slowstep.errors import BadUsage
from slowstep.record.launching.command import find_python

SCRIPT: Final = "slowstep_demo.py"
# Enough for a verdict: a few seconds. The script goes on for minutes, so that `slowstep prove` can try fixes in it.
_RUN: Final = ("run", "--steps", "300", "--stop", SCRIPT)
# What starts Python and looks for a package takes, on a busy machine with a cold disk.
_ASKED_FOR_S: Final = 60.0
_HAS_PYTORCH: Final = "import importlib.util, sys; sys.exit(importlib.util.find_spec('torch') is None)"
_EXAMPLES: Final = f"""\b
Afterwards:
  slowstep prove {SCRIPT}     measure what the fix gains
  slowstep demo                       again, after you have mended it
"""

app = typer.Typer(add_completion=False, pretty_exceptions_enable=False, rich_markup_mode=None)


@app.command("demo", epilog=_EXAMPLES)
def demo() -> None:
    """Record a small training with a known bottleneck: half a minute, PyTorch and no data needed.

    The script is put into the current folder, to look at and to mend; one that is there already is recorded as it is.
    """
    python = find_python(os.environ)
    if not _has_pytorch(python):
        raise BadUsage(f"the demo trains with PyTorch, and {python} has none. Install it there (pip install torch), and try again.")
    say(_put_script(Path(SCRIPT)))
    # Imported here: whoever has no PyTorch need not wait for it.
    from slowstep.cli.commands import obey

    raise typer.Exit(obey(list(_RUN)))


def _has_pytorch(python: str) -> bool:
    try:
        return subprocess.run([python, "-c", _HAS_PYTORCH], timeout=_ASKED_FOR_S, check=False).returncode == 0
    except (OSError, subprocess.SubprocessError):
        return False


def _put_script(path: Path) -> str:
    """Write the script where there is none; what became of it, in words. Raises BadUsage where it cannot be written."""
    text = files("slowstep.cli").joinpath(SCRIPT).read_text(encoding="utf-8")
    try:
        with path.open("x", encoding="utf-8") as file:
            file.write(text)
    except FileExistsError:
        return f"slowstep: recording {SCRIPT}, which is here already."
    except OSError as error:
        raise BadUsage(f"{SCRIPT} cannot be written here: {error.strerror or error}. Change into a folder of your own first.") from None
    return f"slowstep: wrote {SCRIPT}, a training with one thing wrong. Recording it: slowstep {' '.join(_RUN)}"
