"""What every part of the device benchmark has in common: its arguments, its result as it grows, and what it says without a device."""

from __future__ import annotations

import argparse
import json
import sys
import time
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import torch

NO_DEVICE = "no device"


@dataclass(kw_only=True)
class Result:
    """What is known so far, written at each change: a part may be ended at any time."""

    path: Path
    folder: Path
    ends_at: float
    known: dict[str, Any] = field(default_factory=dict)

    def add(self, name: str, value: Any) -> None:
        """Keep one more thing."""
        self.known[name] = value
        # At once: whoever reads it after the part was ended gets the whole of the last change.
        growing = self.path.with_suffix(".part")
        growing.write_text(json.dumps(self.known))
        growing.replace(self.path)

    def has_time(self, seconds: float) -> bool:
        """Whether so many seconds are left."""
        return time.monotonic() + seconds <= self.ends_at


def begin(about: str) -> Result:
    """Read the arguments. Ends the process, well, where the part needs a device and there is none."""
    result = begin_anywhere(about)
    if not torch.cuda.is_available():
        result.add("skipped", NO_DEVICE)
        sys.exit(0)
    return result


def begin_anywhere(about: str) -> Result:
    """The same for a part that has something to do without a device, too."""
    parser = argparse.ArgumentParser(description=about)
    parser.add_argument("--result", type=Path, required=True, help="file for what was found, as JSON")
    parser.add_argument("--folder", type=Path, required=True, help="where traces and recordings may lie")
    parser.add_argument("--seconds", type=float, default=120.0, help="how long it may take")
    given = parser.parse_args()
    given.folder.mkdir(parents=True, exist_ok=True)
    return Result(path=given.result, folder=given.folder, ends_at=time.monotonic() + given.seconds)
