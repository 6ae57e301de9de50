"""What a fault of slowstep's own leaves: a line that says what to report, and a log file with all that one needs to find it."""

from __future__ import annotations

import contextlib
import os
import platform
import sys
import tempfile
import time
import traceback
from collections.abc import Iterator, Sequence
from importlib import metadata
from pathlib import Path
from typing import Final

from slowstep.faults import Fault, one_line
from slowstep.record.framework import known_frameworks
from slowstep.record.system.redact import redact_command, redact_text

LOG: Final = "internal-error.log"
# Set, it shows the traceback on standard error too.
DEBUG: Final = "SLOWSTEP_DEBUG"
# What slowstep itself computes and draws with; the frameworks that it knows stand beside them.
_OWN_LIBRARIES: Final = ("polars", "numpy", "msgspec", "typer", "rich")
_MOST_TRACEBACKS: Final = 10


def describe(error: BaseException, doing: str, folder: Path | str | None = None) -> str:
    """One line for the user on an unexpected error; its log is kept in `folder`, or in the user's cache where there is none."""
    return f"{doing} failed by a fault of slowstep's own ({shown(error)}). {report_it([Fault(doing, error)], folder)}"


def shown(error: BaseException) -> str:
    """An error in one line without secrets."""
    return redact_text(one_line(error))


def report_it(faults: Sequence[Fault], folder: Path | str | None) -> str:
    """What to do about faults, as a sentence; their log is kept."""
    if os.environ.get(DEBUG):
        for fault in faults:
            traceback.print_exception(fault.error, file=sys.stderr)
    log = keep_log(faults, folder)
    return "Please report it." if log is None else f"Please report it with this file: {log}"


def keep_log(faults: Sequence[Fault], folder: Path | str | None) -> Path | None:
    """Where the log of faults was written, readable by nobody else; None where it could not be written anywhere."""
    text = "\n".join(_lines(faults))
    for place in _places(folder):
        with contextlib.suppress(OSError):
            return _write(place, text)
    return None


def _places(folder: Path | str | None) -> Iterator[Path]:
    """Where a log may lie, the best place first."""
    if folder is not None:
        yield Path(folder) / LOG
    name = f"{time.strftime('%Y%m%d-%H%M%S')}-{os.getpid()}-{LOG}"
    base = os.environ.get("XDG_CACHE_HOME") or os.path.join(os.path.expanduser("~"), ".cache")
    yield Path(base) / "slowstep" / "errors" / name
    yield Path(tempfile.gettempdir()) / f"slowstep-{name}"


def _write(path: Path, text: str) -> Path:
    if path.name != LOG:
        path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    with contextlib.suppress(FileNotFoundError):
        path.unlink()
    # It is made anew, so that it is no link of somebody else's.
    handle = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
    with open(handle, "w", encoding="utf-8", errors="backslashreplace") as stream:
        stream.write(text)
    return path


def _lines(faults: Sequence[Fault]) -> Iterator[str]:
    yield f"slowstep {_version('slowstep')}, Python {platform.python_version()}, {platform.platform()}"
    names = dict.fromkeys((*_OWN_LIBRARIES, *_frameworks()))
    yield ", ".join(f"{name} {version}" for name in names if (version := _version(name)) is not None)
    yield f"command: {' '.join(redact_command(sys.argv))}"
    yield f"written: {time.strftime('%Y-%m-%dT%H:%M:%S%z')}"
    for fault in faults[:_MOST_TRACEBACKS]:
        yield f"\nin {fault.task}:"
        yield redact_text("".join(traceback.format_exception(fault.error)))
    if len(faults) > _MOST_TRACEBACKS:
        yield f"\nand {len(faults) - _MOST_TRACEBACKS} more"


def _frameworks() -> list[str]:
    """What has installed packages of the frameworks, as it is called: TensorFlow is installed under several names."""
    found: list[str] = []
    # What a log tells of may be that a framework's files, or what is installed, cannot be read.
    with contextlib.suppress(Exception):
        installed = metadata.packages_distributions()
        found += [name for framework in known_frameworks() for package in framework.packages for name in installed.get(package, ())]
    return found


def _version(library: str) -> str | None:
    try:
        return metadata.version(library)
    except metadata.PackageNotFoundError:
        return None
