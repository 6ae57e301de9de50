"""Finds the XPlane file that is meant: a file, or the newest run in a TensorBoard log folder."""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path
from typing import Final

ENDING: Final = ".xplane.pb"
# Where profilers put runs, seen from a log folder, the folder above it, a run's own folder.
PLACES: Final = ("", "plugins/profile/*/", "*/plugins/profile/*/", "profile/*/", "*/")
# Folders of runs are named by their time, as 2026_11_21_12_57_23; copying a folder changes its times but not its name.
_TIME: Final = re.compile(r"\d{4}_\d\d_\d\d_\d\d_\d\d_\d\d$")
# What the first plane of a file begins with: an identifier at most, and a name that profilers use.
_FIRST_PLANE: Final = re.compile(
    rb"\x0a[\x80-\xff]{0,9}[\x00-\x7f](?:\x08[\x80-\xff]{0,9}[\x00-\x7f])?\x12[\x00-\x7f](?:/host:|/device:|#Chip|Task Environment)",
    re.DOTALL,
)


@dataclass(frozen=True, kw_only=True, slots=True)
class XplaneFiles:
    """The file to read, the files of other hosts of the same run, and how many older runs lie beside it."""

    file: Path
    other_hosts: tuple[Path, ...]
    other_runs: int


def is_xplane(head: bytes, path: Path) -> bool:
    """Whether a file is an XPlane file, by its name or its first bytes, or a folder holds one."""
    if path.is_dir():
        return bool(_runs(path))
    return path.name.endswith(ENDING) or _FIRST_PLANE.match(head) is not None


def find(path: Path) -> XplaneFiles | None:
    """What is to be read of a path; None where a folder holds no XPlane file."""
    if not path.is_dir():
        return XplaneFiles(file=path, other_hosts=(), other_runs=0)
    runs = _runs(path)
    if not runs:
        return None
    newest = max(runs, key=lambda folder: (bool(_TIME.search(folder.name)), folder.name, folder.stat().st_mtime_ns))
    first, *others = sorted(runs[newest])
    return XplaneFiles(file=first, other_hosts=tuple(others), other_runs=len(runs) - 1)


def _runs(path: Path) -> dict[Path, list[Path]]:
    """The files by the folder that they lie in: one folder is one run, with one file per host."""
    runs: dict[Path, list[Path]] = {}
    for place in PLACES:
        for file in path.glob(f"{place}*{ENDING}"):
            if file.is_file() and file not in runs.setdefault(file.parent, []):
                runs[file.parent].append(file)
    return runs
