"""Accelerators of this machine that this process may open, seen from their device files: no driver is asked, and nothing is initialised."""

from __future__ import annotations

import os
import re
from collections.abc import Mapping
from typing import Final

_NODES: Final = {"nvidia": ("/dev", re.compile(r"nvidia\d+$")), "amd": ("/dev/dri", re.compile(r"renderD\d+$"))}

# By these a user hides them from the runtimes of both makes.
_HIDING: Final = ("CUDA_VISIBLE_DEVICES", "HIP_VISIBLE_DEVICES")


def accelerators() -> dict[str, int]:
    """How many of each make may be opened."""
    found = {make: sum(map(_opens, _paths(folder, name))) for make, (folder, name) in _NODES.items()}
    if not os.path.exists("/dev/kfd"):
        # Without the compute driver a render node is a display.
        found["amd"] = 0
    return {make: count for make, count in found.items() if count}


def are_hidden(environment: Mapping[str, object]) -> bool:
    """Whether these environment variables let a process see no accelerator at all."""
    return any(str(environment[name]).strip() in ("", "-1") for name in _HIDING if name in environment)


def _paths(folder: str, name: re.Pattern[str]) -> list[str]:
    try:
        return [os.path.join(folder, entry) for entry in os.listdir(folder) if name.match(entry)]
    except OSError:
        return []


def _opens(path: str) -> bool:
    return os.access(path, os.R_OK | os.W_OK)
