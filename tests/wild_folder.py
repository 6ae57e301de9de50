"""The wild suite's modules can be imported while a test module runs that imports this fixture."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

WILD = Path(__file__).parents[1] / "benchmarks" / "wild"


@pytest.fixture(scope="module", autouse=True)
def wild_folder():
    kept = sys.path[:]
    sys.path[:0] = [str(WILD), str(WILD.parent)]
    yield WILD
    sys.path[:] = kept
