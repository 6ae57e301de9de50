"""Syntax trees of source files, for tests of how the code is written."""

from __future__ import annotations

import ast
import gc
import re
from collections.abc import Iterable, Iterator
from pathlib import Path


def parsed(paths: Iterable[Path], *, holding: re.Pattern[str] | None = None) -> dict[Path, ast.Module]:
    """The trees of files, or of those whose text has what is looked for: to parse all takes seconds. While they are made no garbage is
    collected: there is none, and each collection walks through all trees.
    """
    was_enabled = gc.isenabled()
    gc.disable()
    try:
        return {path: ast.parse(text) for path, text in _read(paths) if holding is None or holding.search(text)}
    finally:
        if was_enabled:
            gc.enable()


def _read(paths: Iterable[Path]) -> Iterator[tuple[Path, str]]:
    return ((path, path.read_text(encoding="utf-8")) for path in paths)
