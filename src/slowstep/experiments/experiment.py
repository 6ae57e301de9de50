"""An experiment as it was asked for and as it ended: what neither the recording's steps nor its plan tell.

Kept as `experiment.json` in the recording's folder. Steps, plan and notes of levers stand there already, and what was measured is computed
from them again for every report; which finding a lever was tried for, where it ran and why it ended can be computed from nothing.
"""

from __future__ import annotations

import os
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final, Literal

import msgspec

from slowstep.errors import UnreadableInput
from slowstep.experiments.choose import Choice, Untried
from slowstep.record.format import EXPERIMENT_FILE

# Version 1: the first.
VERSION: Final = 1

EndedBy = Literal["precision", "budget", "script ended", "plan done", "interrupted", "never trained", "nothing to try", "killed"]


@dataclass(frozen=True, kw_only=True, slots=True)
class Place:
    """Where the training ran: in which sandbox, what may be said of it, and its writing speed there by that outside (None: unknown)."""

    kind: str
    claims: str
    warnings: tuple[str, ...] = ()
    write_ratio: float | None = None


@dataclass(frozen=True, kw_only=True, slots=True)
class Experiment:
    """`precision` is the width that an interval should have, as a share of its value; `reached` the widest of all in the end.

    `until_ns` (CLOCK_MONOTONIC) is where the recording for the diagnosis ends, None where all of it is for that. `floor_ns` is what the
    receipt of a batch costs a step that has its batches ready. `ended_by` "killed" stands there while the experiment runs.
    """

    choices: tuple[Choice, ...]
    untried: tuple[Untried, ...]
    precision: float
    budget_s: float
    place: Place
    until_ns: int | None = None
    floor_ns: float = 0.0
    ended_by: EndedBy = "killed"
    exit_code: int | None = None
    numerics: dict[str, dict[str, Any]] = field(default_factory=dict)
    version: int = VERSION


def save(experiment: Experiment, folder: Path) -> None:
    """Write it into a recording's folder, whole or not at all. Raises OSError."""
    draft = folder / f".{EXPERIMENT_FILE}.tmp"
    draft.write_bytes(msgspec.json.format(msgspec.json.encode(experiment), indent=1))
    os.replace(draft, folder / EXPERIMENT_FILE)


def load(folder: Path) -> Experiment | None:
    """The experiment of a recording; None where it is a plain one. Raises UnreadableInput for a file that is damaged, or newer."""
    path = folder / EXPERIMENT_FILE
    try:
        return msgspec.json.decode(path.read_bytes(), type=Experiment)
    except FileNotFoundError:
        return None
    except (OSError, msgspec.MsgspecError) as error:
        raise UnreadableInput(f"{path} cannot be read ({error}). Remove it to see the diagnosis without the experiment.") from error
