"""The fall-back for levers that could not be switched in the training: short runs with them from the start on, beside runs as it is."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from slowstep.errors import SlowstepError
from slowstep.prove.own_runs import OF_BUDGET, START_UP_S, Open, OwnRuns, longest_s
from slowstep.prove.reruns import WARMUP_SHARE, rerun, seconds_needed
from slowstep.prove.stats.design import FEWEST_PAIRS
from slowstep.prove.stats.repeated import AllRepeated, RepeatedRuns
from slowstep.prove.stats.verdicts import ArmState
from slowstep.prove.step_pace import find_pace
from slowstep.prove.whole_run import RunRequest, WholeRunLimits
from slowstep.reasons import SAID, Reason, Wording
from slowstep.record.experiment.lever_text import parse_spec
from slowstep.record.launching.command import Command
from slowstep.units import format_duration

ReportDict = dict[str, Any]

TOO_LONG: Final = Wording("runs-take-too-long", "{runs} runs take {needed:duration}: give --budget {budget_s}s or more, and no other lever")
FOLDER: Final = "re-runs"
# More than so many rounds would be another experiment: whoever wants it asks for more time.
MOST_ROUNDS: Final = 8
# What is counted of a run lasts so long, in so many steps at least and at most.
_COUNTED_S: Final = 4.0
_STEPS: Final = (32, 400)


@dataclass(frozen=True, kw_only=True, slots=True)
class Design:
    """The runs that fit into the time: `levers` are all of those that are tried, `run_s` is what one run takes, about."""

    levers: tuple[str, ...]
    rounds: int
    control: bool
    steps: int
    run_s: float

    @property
    def runs(self) -> int:
        """All of them, with those as it is."""
        return self.rounds * (len(self.levers) + 1 + self.control)

    @property
    def needed_s(self) -> float:
        """How long all of them take, about."""
        return self.runs * self.run_s


class RerunLevers:
    """Compares them, and says before how long that takes."""

    def __init__(
        self, command: Command, environ: Mapping[str, str], folder: Path, open_sandbox: Open, *, budget_s: float, say: Callable[[str], None]
    ) -> None:
        self._runs = OwnRuns(command, environ, folder / FOLDER, open_sandbox)
        self._budget_s, self._say = budget_s, say

    def __call__(self, report: ReportDict, notes: Sequence[Mapping[str, Any]], seed: int) -> AllRepeated:
        """What was found; nothing where no lever needs it. `notes` are the levers' own, from the training."""
        places = places_of(report, notes)
        if not places:
            return AllRepeated()
        design = designed(tuple(places), report, OF_BUDGET * self._budget_s)
        unmeasured = RepeatedRuns(state=ArmState.UNMEASURED, reason=self._too_long(report))
        late = {name: unmeasured for name in places if name not in design.levers}
        if not design.levers:
            return AllRepeated(levers=late)
        self._announce(design)
        limits = WholeRunLimits(steps=design.steps, seconds=longest_s(design.run_s))
        asked = {name: RunRequest(levers=(parse_spec(name),), loader=places[name]) for name in design.levers}
        try:
            found = rerun(
                lambda variables: self._runs.made(variables, limits.seconds),
                asked,
                limits,
                rounds=design.rounds,
                seed=seed,
                control=design.control,
                within_s=longest_s(design.needed_s),
                takes_s=design.needed_s,
                tell=self._say,
            )
        except (SlowstepError, OSError) as error:
            # What the experiment has found is worth more.
            unmeasured = RepeatedRuns(state=ArmState.UNMEASURED, reason=SAID(said=str(error)))
            found = AllRepeated(levers=dict.fromkeys(asked, unmeasured))
        finally:
            self._runs.remove()
        return AllRepeated(levers={**found.levers, **late}, control=found.control, interrupted=found.interrupted)

    def _announce(self, design: Design) -> None:
        each = f"{design.rounds} rounds of {design.runs // design.rounds} runs, {design.steps} steps each"
        which = ", ".join(design.levers)
        self._say(f"Compares whole runs for {which}, which cannot be switched in a running training. {each}: {_time(design.needed_s)}")

    def _too_long(self, report: ReportDict) -> Reason:
        """With one lever alone."""
        runs = 2 * FEWEST_PAIRS
        needed_s = runs * _run_s(report)
        return TOO_LONG(runs=runs, needed=needed_s * 1e9, budget_s=math.ceil(needed_s / OF_BUDGET))


def places_of(report: ReportDict, notes: Sequence[Mapping[str, Any]]) -> dict[str, int]:
    """Where the loader is built that the levers change there: of all that were refused, and for no reason that holds in any run."""
    refused = {row["lever"] for row in report["experiments"] if row["state"] == ArmState.NOT_APPLICABLE}
    return {note["name"]: note["rerun"] for note in notes if note.get("rerun") is not None and note.get("name") in refused}


def designed(levers: tuple[str, ...], report: ReportDict, allowed_s: float) -> Design:
    """As many levers as fit with the fewest rounds that give a verdict, in as many rounds as fit then; a control where all of it does."""
    run_s, steps = _run_s(report), steps_of(report)
    fit = int(allowed_s / (FEWEST_PAIRS * run_s)) - 1
    levers = levers[: max(fit, 0)]
    control = (len(levers) + 2) * MOST_ROUNDS * run_s <= allowed_s
    rounds = min(MOST_ROUNDS, int(allowed_s / ((len(levers) + 1) * run_s)))
    return Design(levers=levers, rounds=rounds, control=control, steps=steps, run_s=run_s)


def steps_of(report: ReportDict) -> int:
    """How many steps a run makes: those that are counted hold what recurs whole, where it is not rarer than they are."""
    pace = find_pace(report, epochs_first=True)
    least, most = _STEPS
    counted = min(max(math.ceil(_COUNTED_S * 1e3 / pace.step_ms), least), most)
    if pace.period_steps <= most:
        counted = math.ceil(counted / pace.period_steps) * pace.period_steps
    return math.ceil(counted / (1 - WARMUP_SHARE))


def _run_s(report: ReportDict) -> float:
    startup_s = report["run"]["startup_s"] or START_UP_S
    return seconds_needed(1, startup_s=startup_s, step_s=find_pace(report).step_ms / 1e3, steps=steps_of(report))


def _time(seconds: float) -> str:
    return format_duration(seconds * 1e9)
