"""The capture of a few steps in a recording's folder: read and measured as any trace."""

from __future__ import annotations

from pathlib import Path

from slowstep.analyses.measure_trace import measure_trace
from slowstep.analyses.measurements import Measurements
from slowstep.analyses.steps.captures import Capture
from slowstep.errors import UnreadableInput
from slowstep.sources._source import PLAIN
from slowstep.workflow.traces.find import known


def measure_capture(folder: Path, capture: Capture) -> Measurements | None:
    """What the trace of a capture tells; None where none was written. Raises UnreadableInput or OSError."""
    if capture.file is None:
        return None
    path = folder / capture.file
    found = known(path)
    if found is None:
        raise UnreadableInput("it is no trace")
    return measure_trace(found.source.read(path, PLAIN))
