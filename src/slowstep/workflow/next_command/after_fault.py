"""After a fault of slowstep's own: what shows all that is known of it. The same training again would meet the same fault."""

from __future__ import annotations

from pathlib import Path

from slowstep.command_words import analyze
from slowstep.document.next_step import NextStep
from slowstep.report.fault_log import DEBUG


def after_fault(recording: Path) -> NextStep:
    """The command, for a recording or a trace."""
    return NextStep(command=f"{DEBUG}=1 {analyze(recording)}")
