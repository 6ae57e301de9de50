"""Starts a process of slowstep's own beside the user's command: with the standard library, slowstep, and nothing of the user's."""

from __future__ import annotations

import os
import sys
from typing import Final

import slowstep

_CODE: Final = "import sys; sys.path.insert(0, sys.argv.pop(1)); from {module} import main; main()"


def helper(module: str, *words: str) -> tuple[str, ...]:
    """The words that run `main` of a module, isolated from PYTHON variables, site packages and the folder it is started in."""
    home = os.path.dirname(slowstep.__path__[0])
    return (sys.executable, "-I", "-S", "-B", "-c", _CODE.format(module=module), home, *words)
