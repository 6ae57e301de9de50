"""The capture of a few steps in a recording's folder: read, measured and judged as any trace."""

from __future__ import annotations

from pathlib import Path

from slowstep.analyses.measure_trace import measure_trace
from slowstep.analyses.steps.captures import Capture
from slowstep.diagnosis.engine import diagnose
from slowstep.document.captured import Captured, with_capture, without_capture
from slowstep.document.sections import Sections
from slowstep.errors import SlowstepError
from slowstep.faults import Attempts
from slowstep.sources._source import PLAIN
from slowstep.workflow.traces.find import known


def join_capture(sections: Sections, folder: Path, capture: Capture, attempt: Attempts) -> Sections:
    """The sections of a recording with what the capture in its folder shows, or why there is none.

    The faults of what is done with it go to `attempt`.
    """
    if capture.file is None:
        return without_capture(sections, "no-capture", "notice", capture.reason or "why is not known")
    path = folder / capture.file
    try:
        found = known(path)
        if found is None:
            raise SlowstepError("it is no trace")
        timeline = found.source.read(path, PLAIN)
    except (SlowstepError, OSError) as error:
        return without_capture(sections, "capture-unreadable", "data_loss", str(error) or type(error).__name__)
    m = measure_trace(timeline)
    diagnosis = diagnose(m)
    attempt.faults += [*m.faults, *diagnosis.faults]
    captured = Captured(capture=capture, path=path, m=m, diagnosis=diagnosis)
    return with_capture(sections, captured, may_be_healthy=not attempt.faults)
