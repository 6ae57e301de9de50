"""After the report of a trace whose verdict names no rule: what would tell more than this trace did."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Final

from slowstep.diagnosis.law import Diagnosis
from slowstep.diagnosis.missing_ranks import LATE_ONE_MAY_BE_MISSING
from slowstep.diagnosis.trace_view import LATE_ONE_NOT_SEEN
from slowstep.document.next_step import NextStep, explain
from slowstep.frameworks._known import DEFAULT, words_of_profiler
from slowstep.timeline.trace import TraceFacts
from slowstep.workflow.next_command.typed import analyze
from slowstep.workflow.traces.find import is_recording

# What a trace leaves open, a recording of the training itself answers, with a trace of a few of its steps. No trace names the script.
RECORD: Final = "slowstep run YOUR_SCRIPT.py"
CAPTURE: Final = "slowstep run --capture YOUR_SCRIPT.py"
ALL_RANKS: Final = "slowstep analyze FOLDER_OF_ALL_RANKS"
ANOTHER: Final = "slowstep analyze NEW_TRACE"
# Of verdicts that need them.
ASK_FOR_ALL: Final = (LATE_ONE_NOT_SEEN, LATE_ONE_MAY_BE_MISSING)
# As `slowstep run --capture` names what it makes.
CAPTURED: Final = re.compile(r"capture-\d+\.json(\.gz)?")


def after_trace(diagnosis: Diagnosis, facts: TraceFacts, path: Path, *, is_inference: bool = False, is_chosen: bool = False) -> NextStep:
    """No command where the verdict is no open question, or nothing that is known helps. `is_chosen`: of one of several steps."""
    return NextStep(command=_command(diagnosis, facts, path, is_inference=is_inference, is_chosen=is_chosen))


def _command(diagnosis: Diagnosis, facts: TraceFacts, path: Path, *, is_inference: bool, is_chosen: bool) -> str | None:
    if diagnosis.verdict.state != "undetermined":
        return None
    if is_chosen:
        return analyze(path)
    explained = explain(diagnosis.findings[0].rule) if diagnosis.findings else None
    if is_inference:
        # It is no training that could be recorded: what is known of it stands here.
        return explained
    if diagnosis.verdict.reason is not None and diagnosis.verdict.reason.of(*ASK_FOR_ALL):
        return ALL_RANKS
    if CAPTURED.fullmatch(path.name):
        return analyze(path.parent) if is_recording(path.parent) else RECORD
    if words_of_profiler(facts.framework).name != DEFAULT:
        # Of others' trainings nothing is captured: a better trace tells more.
        return explained or ANOTHER
    return CAPTURE
