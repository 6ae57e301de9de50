"""What a source is: it recognises its own format by content, and reads it into a Timeline."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from slowstep.timeline.timeline import Timeline


@dataclass(frozen=True, kw_only=True, slots=True)
class Source:
    """One format. `sniff(head, path)` sees the first bytes (none of a folder); `read(path)` raises UnreadableInput for anything else."""

    name: str
    sniff: Callable[[bytes, Path], bool]
    read: Callable[[Path], Timeline]
