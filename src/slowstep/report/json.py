"""The report as a file: report.json, written whole or not at all."""

from __future__ import annotations

import contextlib
import json
import os
import uuid
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from slowstep.errors import UnwritableOutput

if TYPE_CHECKING:
    from collections.abc import Mapping

_OWN_MARKS: Final = (b'"slowstep/report/', b'"slowstep/bench/')
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
        raise UnwritableOutput(f"The report cannot be written to {target}: {error.strerror or error}. {_remedy(target)}") from error


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


def _replace(target: Path, text: str) -> None:
    draft = target.with_name(f".{target.name}.{uuid.uuid4().hex[:8]}.tmp")
    try:
        with draft.open("x", encoding="utf-8") as stream:
            stream.write(text)
        os.replace(draft, target)
    finally:
        with contextlib.suppress(OSError):
            draft.unlink()


def _remedy(target: Path) -> str:
    if target.is_dir():
        return "Name a file, not a folder."
    if not target.parent.is_dir():
        return f"Make the folder {target.parent} first."
    return "Name a file in a folder that you may write to and that has room."
