"""Diagnoses in a process of its own: a notebook goes on training, and gets no threads of polars that its loaders would fork."""

from __future__ import annotations

import json
import subprocess
import sys
from typing import TYPE_CHECKING, Any, Final

from slowstep.errors import NothingRecorded, SlowstepError, UnreadableInput
from slowstep.record.launching.isolated import isolated_argv, isolated_environment, printed_answer

if TYPE_CHECKING:
    from pathlib import Path

_CODE: Final = """\
import json, sys
from pathlib import Path
from slowstep.errors import NothingRecorded, SlowstepError
from slowstep.faults import is_fault
from slowstep.report.fault_log import describe
from slowstep.report.json import REPORT_FILE, dumps, write
from slowstep.workflow.diagnose_recordings import diagnose_recording
folder, warmup = Path(sys.argv[2]), json.loads(sys.argv[3])
try:
    report = diagnose_recording(folder, warmup=warmup)
    write(report, folder / REPORT_FILE)
except SlowstepError as error:
    print(json.dumps({"error": str(error), "nothing": isinstance(error, NothingRecorded)}))
except BaseException as error:
    if not is_fault(error):
        raise
    print(json.dumps({"error": describe(error, "the diagnosis", folder), "nothing": False}))
else:
    print(dumps(report))
"""


def diagnose_in_subprocess(folder: Path, *, warmup: int | None = None) -> dict[str, Any]:
    """The report of a recording, which is kept in it as report.json. Raises what diagnose_recording does, or UnreadableInput."""
    words = isolated_argv(_CODE, str(folder), json.dumps(warmup))
    try:
        done = subprocess.run(
            words, env=isolated_environment(), stdin=subprocess.DEVNULL, capture_output=True, text=True, encoding="utf-8", check=False
        )
    except OSError as error:
        raise UnreadableInput(f"The diagnosis could not be started with {sys.executable!r}: {error}.") from error
    try:
        answer = printed_answer(done)
    except ValueError as last:
        raise UnreadableInput(f"The diagnosis failed ({last}); please report it.") from None
    if "error" in answer:
        raise (NothingRecorded if answer["nothing"] else SlowstepError)(answer["error"])
    return answer
