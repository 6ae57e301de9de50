"""A training under experiment that takes no time: a recording that was made by hand, played on a clock of its own."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from made_experiments import write_steps
from slowstep.prove.executor import Ending, Progress
from slowstep.prove.stats.plan import Plan
from slowstep.prove.stats.readings import ExperimentSteps, StepReader
from slowstep.record.writing.format import PLAN_DONE, PLAN_FILE, PLAN_NONE, PLAN_TAKEN

# After what was recorded by hand, and always the same: reports of equal trainings are equal.
STARTS_AT_S = 3600.0


@dataclass(kw_only=True)
class Stage:
    """How it behaves, in seconds since its start: when it begins to train, ends by itself and so, and how fast it goes."""

    trains_at_s: float | None = 2.0
    ends_at_s: float | None = None
    exit_code: int = 0
    step_ms: float = 20.0
    gains: Mapping[int, float] = field(default_factory=dict)
    rounds: int = 12
    notes: tuple[dict[str, Any], ...] = ()
    interrupt_at_s: float | None = None
    output: str = "the last words"
    arm_at_end: int = 0
    arms_before: tuple[int, ...] = ()
    is_done: bool = False  # the plan is walked to its end
    problem: str | None = None  # why it was ended at `ends_at_s`
    made: tuple[dict[str, Any], ...] = ()  # which calls made what


class StagedTraining:
    """Plays the recording in `folder`; a plan that is posted is walked at once. Give `clock` and `sleep` of it to whoever waits."""

    def __init__(self, folder: Path, stage: Stage) -> None:
        self.folder, self.stage = folder, stage
        self.began_s = self.now_s = STARTS_AT_S
        self.plan: Plan | None = None
        self.started = self.ends = 0
        self._ending: Ending | None = None

    def clock(self) -> float:
        return self.now_s

    def sleep(self, seconds: float) -> None:
        self.now_s += seconds
        at_s = self.stage.interrupt_at_s
        if at_s is not None and self.now_s - self.began_s >= at_s:
            self.stage.interrupt_at_s = None
            raise KeyboardInterrupt

    def start(self) -> None:
        self.started += 1

    def poll(self) -> Progress:
        training_s = None if self.stage.trains_at_s is None else self.now_s - self.began_s - self.stage.trains_at_s
        trains = training_s is not None and training_s >= 0
        return Progress(
            updates=int((training_s or 0.0) * 1e3 / self.stage.step_ms) + 1 if trains else 0,
            plan=PLAN_NONE if self.plan is None else PLAN_DONE if self.stage.is_done else PLAN_TAKEN,
            alive=self._is_alive,
            exit_code=None if self._is_alive else self.stage.exit_code,
            training_s=training_s if trains else None,
        )

    def post(self, plan: Plan) -> None:
        self.plan = plan
        (self.folder / PLAN_FILE).write_text(plan.dumps())
        write_steps(
            self.folder,
            plan,
            self.stage.gains,
            from_ns=int(self.now_s * 1e9),
            rounds=self.stage.rounds,
            notes=self.stage.notes,
            step_ms=self.stage.step_ms,
        )

    def steps(self) -> ExperimentSteps:
        return StepReader(self.folder / "100-1.rec").read()

    def lever_notes(self) -> list[dict[str, Any]]:
        return list(self.stage.notes)

    def notes(self, kind: str) -> list[dict[str, Any]]:
        """What became of the levers, and which arm was on last, where the stage says so."""
        if kind == "lever":
            return self.lever_notes()
        if kind == "made":
            return list(self.stage.made)
        arms = (*self.stage.arms_before, self.stage.arm_at_end)
        return [{"kind": "arm", "arm": arm} for arm in arms] if kind == "arm" and self.plan is not None else []

    def end(self) -> Ending:
        self.ends += 1
        if self._ending is None:
            killed = self._is_alive or self.stage.problem is not None
            exit_code = None if killed else self.stage.exit_code
            self._ending = Ending(exit_code=exit_code, killed=killed, left=(), output=self.stage.output, problem=self.stage.problem)
        return self._ending

    @property
    def _is_alive(self) -> bool:
        return self._ending is None and (self.stage.ends_at_s is None or self.now_s - self.began_s < self.stage.ends_at_s)
