"""Syntax trees of source files, for tests of how the code is written."""

from __future__ import annotations

import ast
import gc
from collections.abc import Iterable
from pathlib import Path


def parsed(paths: Iterable[Path]) -> dict[Path, ast.Module]:
    """The trees of files. While they are made no garbage is collected: there is none, and each collection walks through all trees."""
    was_enabled = gc.isenabled()
    gc.disable()
    try:
        return {path: ast.parse(path.read_text(encoding="utf-8")) for path in paths}
    finally:
        if was_enabled:
            gc.enable()
