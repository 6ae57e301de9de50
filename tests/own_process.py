"""Runs files of tests in a process of their own, where those of all others leave them out."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterable
from pathlib import Path
from typing import Final

import pytest

from how_many import is_quick

# Set in such a process.
_VARIABLE: Final = "SLOWSTEP_TESTS_IN_OWN_PROCESS"
_ROOT: Final = Path(__file__).parents[1]


def left_out(files: Iterable[str]) -> list[str]:
    """Those of these files that this process is not to collect, for `collect_ignore`."""
    return [] if _VARIABLE in os.environ else list(files)


def pass_by_themselves(files: Iterable[Path], *, limit_s: float) -> bool:
    """Assert that the tests of some files pass, but for nightly ones, and in `make check` slow ones, run one after the other. Whether there
    are any.
    """
    marked = "not slow and not nightly" if is_quick() else "not nightly"
    environment = {name: value for name, value in os.environ.items() if not name.startswith("PYTEST_")}
    words = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "-m", marked, *map(str, files)]
    ran = subprocess.run(words, env=environment | {_VARIABLE: "1"}, cwd=_ROOT, capture_output=True, text=True, timeout=limit_s, check=False)
    if ran.returncode == pytest.ExitCode.NO_TESTS_COLLECTED:
        return False
    assert ran.returncode == 0, ran.stdout + ran.stderr
    return True
