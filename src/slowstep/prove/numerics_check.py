"""The check of levers that change numbers: after the experiment, whole short runs of the training with the lever and without it."""

from __future__ import annotations

import math
from collections.abc import Callable, Container, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from slowstep.prove.claims_check import PLAIN_RUNS, are_to_be_checked, check_claims
from slowstep.prove.own_runs import OF_BUDGET, START_UP_S, Open, OwnRuns, longest_s
from slowstep.prove.reruns import SEED_OFFSETS, check, seconds_needed
from slowstep.prove.seen_losses import why_never
from slowstep.prove.stats.numerics import CONVERGENCE_STEPS
from slowstep.prove.stats.verdicts import GainVerdict
from slowstep.prove.whole_run import WholeRunLimits, WholeRunState
from slowstep.reason_words import sentence
from slowstep.record.experiment.lever import NUMERICS, ORDER
from slowstep.record.experiment.lever_text import parse_spec
from slowstep.record.launching.command import Command
from slowstep.units import format_duration

ReportDict = dict[str, Any]

# The fewest of which anything is said about convergence, and those before the lever is on.
STEPS: Final = CONVERGENCE_STEPS + 10
RUNS_FOLDER: Final = "losses"
RUNS: Final = 2 * len(SEED_OFFSETS)
# Of a check that the budget had no room for: the one that has, in seconds.
NEEDED: Final = "needed_budget_s"


@dataclass(frozen=True, kw_only=True, slots=True)
class Checked:
    """What was found, by lever; empty where none needs it."""

    by_lever: dict[str, dict[str, Any]]
    interrupted: bool = False


class NumericsCheck:
    """Compares the losses of runs with and without each measured lever that changes them; says before how long that takes."""

    def __init__(
        self, command: Command, environ: Mapping[str, str], folder: Path, open_sandbox: Open, *, budget_s: float, say: Callable[[str], None]
    ) -> None:
        self._runs = OwnRuns(command, environ, folder / RUNS_FOLDER, open_sandbox)
        self._recording = folder
        self._budget_s, self._say = budget_s, say

    def __call__(self, report: ReportDict, loader_place: int | None = None) -> Checked:
        """Compare them for each lever that needs it, and then whether those that claim the same numbers have them, where it is known at
        which place the script builds its loader; Ctrl-C leaves out the rest.
        """
        rows = report["experiments"]
        levers = [row["lever"] for row in rows if _is_worth_it(row)]
        claiming = are_to_be_checked(rows) if loader_place is not None else []
        if (levers or claiming) and (reason := why_never(self._recording)) is not None:
            return Checked(by_lever={lever: {"says": f"losses not compared: {sentence(reason)}"} for lever in [*levers, *claiming]})
        found: dict[str, dict[str, Any]] = {}
        try:
            for lever in levers:
                found[lever] = self._checked(lever, report)
            if claiming and loader_place is not None:
                self._check_claims(claiming, loader_place, report, found)
        except KeyboardInterrupt:
            left = {lever: {"says": "losses not compared: interrupted"} for lever in [*levers, *claiming] if lever not in found}
            return Checked(by_lever=found | left, interrupted=True)
        finally:
            self._runs.remove()
        return Checked(by_lever=found)

    def _check_claims(self, levers: list[str], place: int, report: ReportDict, found: dict[str, dict[str, Any]]) -> None:
        runs = PLAIN_RUNS + len(levers)
        needed_s = self._needed_s(runs, report)
        takes = f"{runs} runs of {STEPS} steps, {format_duration(needed_s * 1e9)}"
        if needed_s > OF_BUDGET * self._budget_s:
            budget_s = math.ceil(needed_s / OF_BUDGET)
            says = f"input and losses not compared: it takes {takes}; --budget {budget_s}s has room for it"
            found.update({lever: {"says": says} for lever in levers})
            return
        self._say(f"Compares input and losses with and without {', '.join(levers)}: {takes}")
        limits = WholeRunLimits(steps=STEPS, seconds=longest_s(needed_s / runs))
        check_claims(lambda variables: self._runs.made(variables, limits.seconds), levers, place, limits, found, self._say)

    def _needed_s(self, runs: int, report: ReportDict) -> float:
        startup_s, step_s = report["run"]["startup_s"] or START_UP_S, 1.0 / report["throughput"]["steps_per_s"]
        return seconds_needed(runs, startup_s=startup_s, step_s=step_s, steps=STEPS)

    def _checked(self, lever: str, report: ReportDict) -> dict[str, Any]:
        needed_s = self._needed_s(RUNS, report)
        takes = f"{RUNS} runs of {STEPS} steps, {format_duration(needed_s * 1e9)}"
        if needed_s > OF_BUDGET * self._budget_s:
            budget_s = math.ceil(needed_s / OF_BUDGET)
            return {"says": f"losses not compared: it takes {takes}; give --budget {budget_s}s or more", NEEDED: budget_s}
        self._say(f"Compares the losses with and without {lever}: {takes}")
        limits = WholeRunLimits(steps=STEPS, seconds=longest_s(needed_s / RUNS))
        done = check(
            lambda variables: self._runs.made(variables, limits.seconds), parse_spec(lever), limits, takes_s=needed_s, tell=self._say
        )
        if done.numerics is None:
            how = "not" if done.state is WholeRunState.IDLE else "could not be"
            return {"says": f"losses {how} compared: {done.state.in_words if done.reason is None else sentence(done.reason)}"}
        return done.numerics.as_row()


def changes_numbers_alone(changes: Container[str]) -> bool:
    """Whether a lever that changes these changes numbers alone: other data have other losses in any case."""
    return NUMERICS in changes and ORDER not in changes


def longest_check(budget_s: float) -> str:
    """How long comparing one lever's losses takes at most, by the estimate without which it is not begun."""
    return format_duration(OF_BUDGET * budget_s * 1e9)


def _is_worth_it(row: dict[str, Any]) -> bool:
    """Whether a lever changes numbers alone and may gain something."""
    return changes_numbers_alone(row["changes"]) and row["state"] == "measured" and row["verdict"] != GainVerdict.REFUTED
