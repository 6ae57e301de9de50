"""Proves what a diagnosis predicts: the unmodified training, in a sandbox, with levers on and off in interleaved blocks of steps."""

from __future__ import annotations

import time
from collections.abc import Mapping
from pathlib import Path
from typing import Final

from slowstep.prove.choose import USUAL
from slowstep.prove.claims_check import claims_the_same
from slowstep.prove.executor import Executor, LiveExecutor
from slowstep.prove.experiment import SandboxPlace
from slowstep.prove.lead_in import LeadLimits
from slowstep.prove.lever_check import check
from slowstep.prove.numerics_check import NumericsCheck, changes_numbers_alone, longest_check
from slowstep.prove.rerun_levers import RerunLevers
from slowstep.prove.sandboxed_run import SandboxedRun, sandboxed_run
from slowstep.record.experiment.implementations import broken_levers, known_levers
from slowstep.record.experiment.lever import Lever
from slowstep.record.launching.folder import remove_folder
from slowstep.record.writing.format import LATER_STARTS_FOLDER
from slowstep.units import format_about, format_duration, format_share
from slowstep.workflow.fresh_start import StartInto, fresh_start, starts_of
from slowstep.workflow.progress import Tell
from slowstep.workflow.prove_act import ProveAct
from slowstep.workflow.prove_ended import Ended
from slowstep.workflow.prove_request import ProveRequest
from slowstep.workflow.prove_starts import MakeStart

# What is left to do when the time for everything else is over: killing, reading, reporting.
_AFTER_S: Final = 60.0


def prove(asked: ProveRequest, environ: Mapping[str, str], tell: Tell, *, limits: LeadLimits | None = None) -> Ended:
    """Prove: the lead-in, the diagnosis, the experiment, the report. Nothing of it is left running, whatever happens.

    Raises BadUsage before anything has started, NoSandbox where the user's files could not be kept from harm.
    """
    levers, limits = known_levers(), limits or LeadLimits()
    for spec in asked.levers:
        check(spec, levers, filled_in=frozenset(USUAL))
    with sandboxed_run(asked.words, environ, out=asked.out, allow_writes=asked.allow_writes, kind=asked.sandbox) as place:
        sandbox, whole_s = place.sandbox, limits.whole_s + asked.budget_s + _AFTER_S
        start_into = starts_of(place, environ, time.monotonic() + whole_s)

        for line in _announced(asked, levers, place, limits, whole_s):
            tell.say(line)
        ended = ProveAct(
            LiveExecutor(place.command, place.folder, sandbox, environ, limit_s=whole_s),
            asked,
            levers=levers,
            place=SandboxPlace(kind=sandbox.kind, claims=sandbox.claims, warnings=sandbox.warnings, write_ratio=sandbox.write_ratio),
            say=tell.say,
            phase=tell.phase,
            limits=limits,
            check=NumericsCheck(place.command, environ, place.folder, place.opened, budget_s=asked.budget_s, say=tell.say),
            without_fault=fresh_start(place.folder, start_into),
            later=_later_start(place.folder, start_into),
            rerun=RerunLevers(place.command, environ, place.folder, place.opened, budget_s=asked.budget_s, say=tell.say),
        ).run()
    if ended.left_nothing:
        # It would be taken for one of a training that left nothing.
        remove_folder(str(place.folder))
    return ended


def _later_start(recorded: Path, start_into: StartInto) -> MakeStart:
    """How the script is started again beside what was recorded of it."""

    def make(number: int) -> Executor:
        folder = recorded / LATER_STARTS_FOLDER / str(number)
        folder.mkdir(mode=0o700, parents=True)
        return start_into(folder)

    return make


def _announced(asked: ProveRequest, levers: Mapping[str, Lever], place: SandboxedRun, limits: LeadLimits, whole_s: float) -> list[str]:
    """What will be done, where, and how long that takes at most: said before it begins."""
    which = "every lever" if asked.everything else ", ".join(map(str, asked.levers)) or "the levers that its findings name"
    budget, longest = (format_duration(seconds * 1e9) for seconds in (asked.budget_s, whole_s))
    usual, precise = format_about(limits.enough_s + asked.budget_s), format_share(asked.precision)
    return [
        place.announced,
        f"Records and diagnoses it for about {format_about(limits.enough_s)}, then tests {which} for up to {budget}",
        f"Takes about {usual} once training starts, less where gains are known to {precise} before (stops after {longest} at the latest)",
        *_losses_announced(asked, levers),
        *(f"Leaves out the lever {name}: {error}" for name, error in broken_levers().items()),
        *place.sandbox.warnings,
    ]


def _losses_announced(asked: ProveRequest, levers: Mapping[str, Lever]) -> list[str]:
    """The time for comparing losses and input, which the budget does not hold; of levers that the findings will name nobody knows which."""
    longest = longest_check(asked.budget_s)
    if not asked.everything and not asked.levers:
        return [f"Then compares input and losses with and without those that gain, where that can be told (each for {longest} at most)"]
    if asked.everything:
        tried = [lever for lever in levers.values() if lever.takes is None or lever.takes_optional or lever.name in USUAL]
    else:
        tried = [levers[spec.name] for spec in asked.levers]
    named = list(dict.fromkeys(lever.name for lever in tried if changes_numbers_alone(lever.changes)))
    claiming = list(dict.fromkeys(lever.name for lever in tried if claims_the_same(lever.name, tuple(lever.changes))))
    lines = (
        [f"Then compares the losses with and without {', '.join(named)}, where it may gain (each for {longest} at most)"] if named else []
    )
    if claiming:
        lines.append(f"Then compares input and losses with and without {', '.join(claiming)}, where it gains (for {longest} at most)")
    return lines
