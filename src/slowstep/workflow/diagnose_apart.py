"""Diagnoses in a process of its own: a notebook goes on training, and gets no threads of polars that its loaders would fork."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from typing import TYPE_CHECKING, Any, Final

import slowstep
from slowstep.errors import NothingRecorded, SlowstepError, UnreadableInput
from slowstep.record import inject

if TYPE_CHECKING:
    from pathlib import Path

# Isolated (-I), so that no file of the user's takes the place of a library; what only this process can import comes last.
_CODE: Final = """\
import json, sys
sys.path += [entry for entry in json.loads(sys.argv[1]) if entry not in sys.path]
from pathlib import Path
from slowstep.errors import NothingRecorded, SlowstepError
from slowstep.report.json import dumps, write
from slowstep.workflow.diagnose import diagnose_recording
folder, warmup = Path(sys.argv[2]), json.loads(sys.argv[3])
try:
    report = diagnose_recording(folder, warmup=warmup)
    write(report, folder / "report.json")
except SlowstepError as error:
    print(json.dumps({"error": str(error), "nothing": isinstance(error, NothingRecorded)}))
else:
    print(dumps(report))
"""


def diagnose_apart(folder: Path, *, warmup: int | None = None) -> dict[str, Any]:
    """The report of a recording, which is kept in it as report.json. Raises what diagnose_recording does, or UnreadableInput."""
    own = os.path.dirname(slowstep.__path__[0])
    words = [sys.executable, "-I", "-c", _CODE, json.dumps([own, *filter(None, sys.path)]), str(folder), json.dumps(warmup)]
    variables = {name: value for name, value in os.environ.items() if name not in inject.SPOKEN}
    try:
        done = subprocess.run(words, env=variables, stdin=subprocess.DEVNULL, capture_output=True, text=True, encoding="utf-8", check=False)
    except OSError as error:
        raise UnreadableInput(f"The diagnosis could not be started with {sys.executable!r}: {error}.") from error
    try:
        answer: dict[str, Any] = json.loads(done.stdout)
    except ValueError:
        last = (done.stderr.strip().splitlines() or [f"exit code {done.returncode}"])[-1]
        raise UnreadableInput(f"The diagnosis failed ({last}); please report it.") from None
    if "error" in answer:
        raise (NothingRecorded if answer["nothing"] else SlowstepError)(answer["error"])
    return answer
