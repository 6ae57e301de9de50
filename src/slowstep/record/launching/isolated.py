"""Starts slowstep's own code in a process beside this one: isolated, so that no file of the user's takes the place of a library."""

from __future__ import annotations

import json
import os
import sys
from typing import TYPE_CHECKING, Any, Final

from slowstep.record.injection import inject

if TYPE_CHECKING:
    import subprocess

# What only this process can import comes last.
_BEGIN: Final = "import json, sys; sys.path += [entry for entry in json.loads(sys.argv[1]) if entry not in sys.path]\n"


def isolated_argv(code: str, *words: str) -> list[str]:
    """The command line that runs `code`, whose `sys.argv[2:]` are `words`."""
    paths = [os.path.dirname(inject.PACKAGE_FOLDER), *filter(None, sys.path)]
    return [sys.executable, "-I", "-c", _BEGIN + code, json.dumps(paths), *words]


def isolated_environment() -> dict[str, str]:
    """The environment that such a process gets: a recording around this one is none of its."""
    return {name: value for name, value in os.environ.items() if name not in inject.SPOKEN}


def printed_answer(ended: subprocess.CompletedProcess[str]) -> dict[str, Any]:
    """The JSON object that such a process has printed. Raises ValueError, with its last words, where it printed something else."""
    try:
        answer: dict[str, Any] = json.loads(ended.stdout)
    except ValueError:
        raise ValueError((ended.stderr.strip().splitlines() or [f"exit code {ended.returncode}"])[-1]) from None
    return answer
