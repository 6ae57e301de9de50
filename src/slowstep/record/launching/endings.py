"""Whether the recorders of a run have written their last lines."""

from __future__ import annotations

import os
from typing import Final

# The first line of a process's notes begins with its role, and the last one is short.
_LOOK_BYTES: Final = 4096


def recorders_have_ended(folder: str, pid: int | None) -> bool:
    """Whether the recorders in all processes that train have written their last line; `pid` is the first of them."""
    if pid is None:
        return False
    names = [name for name in os.listdir(folder) if name.endswith(".jsonl")]
    return any(name.startswith(f"{pid}-") for name in names) and all(_has_ended(os.path.join(folder, name)) for name in names)


def _has_ended(path: str) -> bool:
    with open(path, "rb") as file:
        head = file.read(_LOOK_BYTES)
        file.seek(max(0, os.path.getsize(path) - _LOOK_BYTES))
        tail = file.read()
    # Loader's workers may be idle, and then notice late.
    return b'"role":"trainer"' not in head or b'"kind":"end"' in tail
