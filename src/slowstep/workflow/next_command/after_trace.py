"""After the report of a trace: what would tell more than this trace did, or what its verdict is about."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Final

from slowstep.analyses.steps.whole_steps import COPY_AGAIN
from slowstep.command_words import analyze, explain
from slowstep.diagnosis.law import Diagnosis
from slowstep.diagnosis.missing_ranks import LATE_ONE_MAY_BE_MISSING
from slowstep.diagnosis.trace_doubts import CUT_OFF_NO_STEP, CUT_OFF_TRAINS
from slowstep.diagnosis.trace_view import LATE_ONE_NOT_SEEN
from slowstep.document.next_step import NextStep
from slowstep.frameworks._known import DEFAULT, words_of_profiler
from slowstep.timeline.trace import TraceFacts
from slowstep.workflow.next_command.command_lines import or_explained
from slowstep.workflow.runs import is_recording_folder

# What a trace leaves open, a recording of the training itself answers, with a trace of a few of its steps. No trace names the script.
RECORD: Final = "slowstep run YOUR_SCRIPT.py"
CAPTURE: Final = "slowstep run --capture YOUR_SCRIPT.py"
ALL_RANKS: Final = "slowstep analyze FOLDER_OF_ALL_RANKS"
ANOTHER: Final = "slowstep analyze NEW_TRACE"
# Of verdicts that need them.
ASK_FOR_ALL: Final = (LATE_ONE_NOT_SEEN, LATE_ONE_MAY_BE_MISSING)
# Of verdicts about a file that is not whole.
CUT_OFF: Final = (CUT_OFF_TRAINS, CUT_OFF_NO_STEP)
WHOLE_AGAIN: Final = f"{COPY_AGAIN}, or profile again where the original is cut off, too"
# As `slowstep run --capture` names what it makes.
CAPTURED: Final = re.compile(r"capture-\d+\.(json(\.gz)?|xplane\.pb)")


def after_trace(diagnosis: Diagnosis, facts: TraceFacts, path: Path, *, is_inference: bool = False, is_chosen: bool = False) -> NextStep:
    """What a verdict that is open asks for, or the rule of one that is not. `is_chosen`: of one of several steps."""
    reason = diagnosis.verdict.reason
    if diagnosis.verdict.state == "undetermined" and reason is not None and reason.of(*CUT_OFF) and not _is_beside_its_recording(path):
        return NextStep(first=WHOLE_AGAIN, command=analyze(path))
    step = NextStep(command=_command(diagnosis, facts, path, is_inference=is_inference, is_chosen=is_chosen))
    return or_explained(step, state=diagnosis.verdict.state, rule=diagnosis.verdict.rule)


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
    if _is_beside_its_recording(path):
        return analyze(path.parent)
    if CAPTURED.fullmatch(path.name):
        return RECORD
    if words_of_profiler(facts.framework).name != DEFAULT:
        # Of others' trainings nothing is captured: a better trace tells more.
        return explained or ANOTHER
    return CAPTURE


def _is_beside_its_recording(path: Path) -> bool:
    """Whether it is a trace that `slowstep run --capture` made, in the folder of its recording."""
    return CAPTURED.fullmatch(path.name) is not None and is_recording_folder(path.parent)
