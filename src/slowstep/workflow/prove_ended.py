"""How a proof ended: its report, or why there is none, and the exit code."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Final

from slowstep.errors import INTERRUPTED_CODE, UNTRIED_CODE, NothingRecorded
from slowstep.prove.ended_by import EndedBy
from slowstep.prove.executor import Ending
from slowstep.prove.first_updates import EMPTY_INPUT
from slowstep.prove.patch.change import NOT_SEEN, ScriptChange
from slowstep.workflow.next_command.after_experiment import ended_untried

NOT_TRUSTED: Final = "the experiment is not to be trusted"
NOTHING_PROVED: Final = "no gain was proved"
NO_CALL: Final = ScriptChange(reason=NOT_SEEN)
TOO_EARLY: Final = "interrupted before enough of the training was seen for a report"


@dataclass(frozen=True, kw_only=True, slots=True)
class Ended:
    """The report, None where the training left nothing to make one of; then `reason` says why.

    `exit_code` is the command's own, None where it was killed; `output` is the end of what it printed where it failed. `left_nothing`: it
    was interrupted before there was anything to report on, or nothing was recorded at all, and its recording is worth nothing.
    `changes` are what levers would be in the script, by lever.
    """

    report: dict[str, Any] | None
    ended_by: EndedBy
    exit_code: int | None
    reason: str | None = None
    output: str = ""
    left_nothing: bool = False
    changes: Mapping[str, ScriptChange] = field(default_factory=dict)

    @property
    def change(self) -> ScriptChange:
        """What was proved to gain most, as a change of the script; where it is none, or nothing was proved, the reason."""
        facts = {} if self.report is None else self.report["run"].get("experiment") or {}
        if facts.get("trustworthy") is False:
            return ScriptChange(reason=NOT_TRUSTED)
        outcome = facts.get("outcome")
        return ScriptChange(reason=NOTHING_PROVED) if outcome is None else self.changes.get(outcome["lever"], NO_CALL)

    @property
    def code(self) -> int:
        """What `slowstep prove` ends with."""
        if self.ended_by == EndedBy.INTERRUPTED:
            return INTERRUPTED_CODE
        if self.exit_code and self.ended_by != EndedBy.LEVER_ENDED:
            return 1
        if self.report is None:
            return UNTRIED_CODE
        if self.report["run"]["experiment"]["trustworthy"] is False:
            return 4
        return UNTRIED_CODE if ended_untried(self.report) and self.report["verdict"]["state"] != "healthy" else 0


def why_nothing(ended: Ended, ending: Ending, error: NothingRecorded) -> str:
    """Why there is no report. Of a command that failed, how it ended comes first: the lead-in did not know that yet. Whoever pressed Ctrl-C
    needs no advice on trainings that are not seen.
    """
    if ended.ended_by == EndedBy.INTERRUPTED:
        return TOO_EARLY
    if not ended.exit_code or ending.problem:
        # Of a script that came to its end more is known now than in the lead-in.
        came_to_its_end = ended.ended_by == EndedBy.SCRIPT_ENDED and not ending.problem
        return str(error) if came_to_its_end else ended.reason or str(error)
    return f"{error} {EMPTY_INPUT.capitalize()}."
