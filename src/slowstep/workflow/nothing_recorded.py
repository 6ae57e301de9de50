"""What is said after a command in which nothing of a training was recorded: it waits for none of what trainings are measured with."""

from __future__ import annotations

from pathlib import Path

from slowstep.analyses.steps.untrained import describe_unseen
from slowstep.errors import UnreadableInput
from slowstep.record.launching.folder import LAUNCHER_NOTES
from slowstep.sources._recording.notes import read_notes
from slowstep.sources._recording.run import run_facts


def describe_nothing(folder: Path) -> str:
    """Why a recording has nothing to diagnose that no process has written anything into. Raises UnreadableInput where it cannot be read."""
    try:
        launcher = read_notes(folder / LAUNCHER_NOTES)
    except OSError as error:
        why = error.strerror or error
        raise UnreadableInput(f"{folder} cannot be read: {why}. Check that it exists and that you may read it.") from error
    return describe_unseen(run_facts(folder.name, [launcher]), launcher.health)
