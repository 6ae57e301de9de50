"""Starts a process of slowstep's own beside the user's command: with the standard library, slowstep, and nothing of the user's."""

from __future__ import annotations

import os
import sys
from typing import Final

from slowstep.record.injection.inject import PACKAGE_FOLDER

_CODE: Final = "import sys; sys.path.insert(0, sys.argv.pop(1)); from {module} import main; main()"


def helper(module: str, *words: str) -> tuple[str, ...]:
    """The words that run `main` of a module, isolated from PYTHON variables, site packages and the folder it is started in."""
    return (sys.executable, "-I", "-S", "-B", "-c", _CODE.format(module=module), os.path.dirname(PACKAGE_FOLDER), *words)
