"""The report as a file: report.json, written whole or not at all."""

from __future__ import annotations

import contextlib
import errno
import json
import os
import uuid
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from slowstep.errors import UnwritableOutput

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

# What it is called in the folder of the recording.
REPORT_FILE: Final = "report.json"
_OWN_MARKS: Final = (b'"slowstep/report/', b'"slowstep/comparison/', b'"slowstep/runs/')
_OWN_HEAD_BYTES: Final = 200


def dumps(report: Mapping[str, Any]) -> str:
    """The report as JSON text. Raises ValueError for NaN and infinity, which JSON does not have: unknown is null."""
    return json.dumps(report, indent=2, allow_nan=False) + "\n"


def write(report: Mapping[str, Any], path: Path | str) -> None:
    """Write the report to a file, which is complete or as it was before.

    An earlier report is replaced, any other file is left alone. Raises UnwritableOutput where the file cannot be
    written or is somebody else's.
    """
    target, text = Path(path), dumps(report)
    try:
        if target.exists() and not target.is_file():
            _write_into(target, text)
        else:
            _refuse_foreign(target)
            _replace(target.resolve(), text)
    except OSError as error:
        raise _unwritable(target, error) from error


def check_target(path: Path | str) -> None:
    """Find out whether a report could be written to a file, before there is one. Raises UnwritableOutput as `write` does."""
    target = Path(path)
    try:
        if not target.exists() or target.is_file():
            _refuse_foreign(target)
            _try_draft(target.resolve())
        elif not os.access(target, os.W_OK):
            # It is not opened: who reads a pipe would take that for all there is.
            raise PermissionError(errno.EACCES, os.strerror(errno.EACCES))
    except OSError as error:
        raise _unwritable(target, error) from error


def is_report(path: Path) -> bool:
    """Whether a file is a document of slowstep's own. Raises nothing: what cannot be read is none."""
    try:
        with path.open("rb") as stream:
            head = stream.read(_OWN_HEAD_BYTES)
    except OSError:
        return False
    return any(mark in head for mark in _OWN_MARKS)


def show_and_write(show: Callable[[], None], report: Mapping[str, Any], path: Path | str | None) -> None:
    """Show a report, then write it to a file, if one is given: what cannot be written is seen at least, and written is what nobody sees."""
    try:
        show()
    finally:
        if path is not None:
            write(report, path)


def _write_into(device: Path, text: str) -> None:
    """A pipe or device is written into: replacing it by a file would break it for everybody else."""
    with device.open("w", encoding="utf-8") as stream:
        stream.write(text)


def _refuse_foreign(target: Path) -> None:
    try:
        with target.open("rb") as stream:
            head = stream.read(_OWN_HEAD_BYTES)
    except FileNotFoundError:
        return
    if head and not any(mark in head for mark in _OWN_MARKS):
        raise UnwritableOutput(f"{target} exists and is no report of slowstep, so it is left as it is. Name another file or remove it.")


def _try_draft(target: Path) -> None:
    """Make what a report is drafted in, and take it away again: what else tells whether one may write there is not always right."""
    draft = _draft(target)
    draft.touch(exist_ok=False)
    draft.unlink()


def _draft(target: Path) -> Path:
    return target.with_name(f".{target.name}.{uuid.uuid4().hex[:8]}.tmp")


def _replace(target: Path, text: str) -> None:
    draft = _draft(target)
    try:
        with draft.open("x", encoding="utf-8") as stream:
            stream.write(text)
        os.replace(draft, target)
    finally:
        with contextlib.suppress(OSError):
            draft.unlink()


def _unwritable(target: Path, error: OSError) -> UnwritableOutput:
    return UnwritableOutput(f"the report cannot be written to {target}: {error.strerror or error}. {_remedy(target)}")


def _remedy(target: Path) -> str:
    if target.is_dir():
        return "Name a file, not a folder."
    if not target.parent.is_dir():
        return f"Make the folder {target.parent} first."
    return "Name a file in a folder that you may write to and that has room."
