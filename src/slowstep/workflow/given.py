"""What `slowstep analyze` was given, where it is neither a recording nor a trace: nothing, `last`, a report, a script."""

from __future__ import annotations

import json
import os
import re
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from slowstep.document.report import SCHEMA
from slowstep.errors import BadUsage, UnreadableInput
from slowstep.harmless import for_shell
from slowstep.record.launching.folder import DEFAULT_PARENT
from slowstep.report.json import REPORT_FILE, is_report
from slowstep.workflow.next_command.command_lines import or_compared
from slowstep.workflow.older_reports import with_codes
from slowstep.workflow.runs import is_recording_folder, last_run, runs_here
from slowstep.workflow.traces.named_paths import require

LAST: Final = "last"
_SCRIPTS: Final = (".py", ".sh")
_REPORT_NAME: Final = re.compile(r"report(?:-rank(\d+))?\.json")


@dataclass(frozen=True, kw_only=True, slots=True)
class Given:
    """What is to be read: paths, of `rank` where a report of that rank was named; or `document`, a report that stands for itself.

    `chosen` is whether it was chosen here, and not named. `is_benched`: the document is that of the recording at the path, in which one
    half of a training was measured alone: its own steps, which can be looked at all the same, do not tell what was measured.
    """

    paths: tuple[Path, ...]
    chosen: bool = False
    rank: int | None = None
    document: dict[str, Any] | None = None
    is_benched: bool = False


def what_is_given(paths: Sequence[Path]) -> Given:
    """What the words of the command line mean. Raises NoRecording where nothing was recorded here, BadUsage for a script, and
    UnreadableInput for what is not there, and for a damaged report.
    """
    if not paths or (_is_last(paths) and not os.path.exists(paths[0])):
        return _of_recording(last_run(Path()), chosen=True)
    paths = tuple(_by_name(path) for path in paths)
    for path in paths:
        _refuse_script(path)
        require(path)
    reports = [path for path in paths if os.path.isfile(path) and is_report(path)]
    if not reports:
        return _of_recording(paths[0]) if len(paths) == 1 else Given(paths=paths)
    if len(paths) > 1:
        raise BadUsage(f"{reports[0]} is a report of slowstep: give it alone{or_compared(paths)}")
    return _of_report(reports[0])


def _is_last(paths: Sequence[Path]) -> bool:
    return [str(path).lower() for path in paths] == [LAST]


def _by_name(path: Path) -> Path:
    """A recording may be named without the folder of recordings."""
    recording = Path(DEFAULT_PARENT) / path
    # Not by Path.exists, which raises where a folder on the way is closed: whoever reads it says so.
    return recording if not os.path.exists(path) and len(path.parts) == 1 and os.path.isdir(recording) else path


def _refuse_script(path: Path) -> None:
    if path.suffix in _SCRIPTS and not os.path.isdir(path):
        words = [*(["bash"] if path.suffix == ".sh" else []), str(path)]
        raise BadUsage(f"{path} is a script, and no recording or trace. To record it: slowstep run {for_shell(words)}")


def _of_report(path: Path) -> Given:
    """The recording that a report lies in, so that it is made again; the report itself where it lies elsewhere."""
    name = _REPORT_NAME.fullmatch(path.name)
    folder = path.absolute().parent
    if name is not None and is_recording_folder(folder):
        return _of_recording(path.parent, rank=None if name[1] is None else int(name[1]))
    return Given(paths=(path,), document=read_document(path))


def _of_recording(path: Path, *, rank: int | None = None, chosen: bool = False) -> Given:
    """What lies at a path: a report is made of it again, but for one of `slowstep bench`."""
    # Of a folder of recordings the last one is meant.
    last = path if is_recording_folder(path) else next(reversed(runs_here(path)), path)
    if is_report(last / REPORT_FILE) and is_recording_folder(last):
        # One that is damaged keeps nobody from the recording.
        with suppress(UnreadableInput):
            document = read_document(last / REPORT_FILE)
            if "bench" in document:
                return Given(paths=(last,), document=document, is_benched=True, chosen=chosen or last != path)
    return Given(paths=(path,), rank=rank, chosen=chosen)


def read_document(path: Path) -> dict[str, Any]:
    """A report of slowstep, as it was written. Raises UnreadableInput where it is damaged, or another version's."""
    try:
        document = json.loads(path.read_bytes())
    except OSError as error:
        raise UnreadableInput(f"{path} cannot be read: {error.strerror or error}.") from error
    except (ValueError, RecursionError) as error:
        raise UnreadableInput(f"{path} is a report of slowstep that is damaged: {error}. Give its recording instead.") from error
    schema = document.get("schema") if isinstance(document, dict) else None
    if schema != SCHEMA:
        raise UnreadableInput(f"{path} is a document of the kind {schema!r}; this version shows {SCHEMA}.")
    return with_codes(document)
