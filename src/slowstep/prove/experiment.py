"""An experiment as it was asked for and as it ended: what neither the recording's steps nor its plan tell.

Kept as `experiment.json` in the recording's folder. Steps, plan and notes of levers stand there already, and what was measured is computed
from them again for every report; which finding a lever was tried for, where it ran and why it ended can be computed from nothing.
"""

from __future__ import annotations

import os
from dataclasses import dataclass, field
from pathlib import Path
from typing import Annotated, Any, Final

import msgspec

from slowstep.errors import UnreadableInput
from slowstep.prove.choose import Choice, Untried
from slowstep.prove.ended_by import EndedBy
from slowstep.prove.lever_faults import LeverFault
from slowstep.prove.patch.change import ScriptChange
from slowstep.prove.stats.repeated import AllRepeated
from slowstep.reasons import SAID, Reason
from slowstep.record.writing.format import EXPERIMENT_FILE

# Version 1: the first, whose reasons are sentences. Version 2: they are codes with values.
VERSION: Final = 2
# What had sentences for reasons.
_SAID: Final = ("untried", "faults", "starts", "repeated")

NotNegative = Annotated[float, msgspec.Meta(ge=0)]


@dataclass(frozen=True, kw_only=True, slots=True)
class SandboxPlace:
    """Where the training ran: in which sandbox, what may be said of it, and its writing speed there by that outside (None: unknown)."""

    kind: str
    claims: str
    warnings: tuple[str, ...] = ()
    write_ratio: NotNegative | None = None

    @property
    def isolates_files(self) -> bool:
        """Whether a start of the script does not meet the files of another one. Of a copy: those in it."""
        return self.kind != "none"


@dataclass(frozen=True, kw_only=True, slots=True)
class ScriptStart:
    """One start of the script: the updates that it made, the rounds of the experiment in it, and whether it came to its own end. `reason`
    is why no other one followed, None where that is said by how the experiment ended.
    """

    updates: int
    rounds: int
    came_to_its_end: bool
    reason: Reason | None = None


@dataclass(frozen=True, kw_only=True, slots=True)
class Experiment:
    """`choices` are those of the plan's arms, after the two without levers. `precision` is the width that an interval should have.

    `until_ns` (CLOCK_MONOTONIC) is where the recording for the diagnosis ends, None where all of it is for that. `floor_ns` is what
    receiving batches costs a step. `repeated` are levers that whole runs were made with, `faults` those that the script could not go on
    with: it may have been started again without them. `problem` is why the training had to be ended before its time. `options` are the
    words that chose the levers, to be used again; `kept` are those of other options that were given, to be used whichever levers are tried.
    `needed_s` is the shortest budget that its plan may do with, None without a plan.
    `changes` are what levers would be in the script, by lever: found when it ended, since the script may have another source later.
    `starts` are those of the script, where there was more than one.
    """

    choices: tuple[Choice, ...]
    untried: tuple[Untried, ...]
    precision: NotNegative
    budget_s: NotNegative
    place: SandboxPlace
    until_ns: int | None = None
    floor_ns: NotNegative = 0.0
    ended_by: EndedBy = EndedBy.RUNNING
    exit_code: int | None = None
    problem: str | None = None
    numerics: dict[str, dict[str, Any]] = field(default_factory=dict)
    repeated: AllRepeated = field(default_factory=AllRepeated)
    faults: tuple[LeverFault, ...] = ()
    options: tuple[str, ...] = ()
    kept: tuple[str, ...] = ()
    needed_s: NotNegative | None = None
    changes: dict[str, ScriptChange] = field(default_factory=dict)
    starts: tuple[ScriptStart, ...] = ()
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
        found = msgspec.json.decode(path.read_bytes())
        version = found.get("version") if isinstance(found, dict) else None
        if not isinstance(version, int) or version <= VERSION:
            return msgspec.convert(_of_reasons(found) if version == 1 else found, type=Experiment)
        raise UnreadableInput(f"{path} was written by a newer slowstep (version {version}, this one reads {VERSION}): upgrade slowstep.")
    except FileNotFoundError:
        return None
    except (OSError, msgspec.MsgspecError) as error:
        raise UnreadableInput(f"{path} cannot be read ({error}). Remove it to see the diagnosis without the experiment.") from error


def _of_reasons(found: dict[str, Any]) -> dict[str, Any]:
    """What a file of version 1 holds, as one of version 2 holds it."""
    return {**found, **{name: _as_reasons(found[name]) for name in _SAID if name in found}, "version": VERSION}


def _as_reasons(node: Any) -> Any:
    if isinstance(node, list):
        return [_as_reasons(each) for each in node]
    if not isinstance(node, dict):
        return node
    said = node.get("reason")
    reason = {"reason": msgspec.to_builtins(SAID(said=said))} if isinstance(said, str) else {}
    return {name: _as_reasons(value) for name, value in node.items()} | reason
