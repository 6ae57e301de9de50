"""A training under experiment that takes no time: its steps are made by a formula, its clock by whoever waits.

It walks a plan as `record/experiment/switch.py` does: the first step of a block and those in which an arm settles are flagged, an arm that
fails is noted and passed over. `gains` are what its levers truly gain.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from slowstep.prove.executor import Ending, Progress
from slowstep.prove.stats.plan import Plan
from slowstep.prove.stats.readings import ExperimentSteps
from slowstep.record.writing.format import PLAN_DONE, PLAN_NONE, PLAN_POSTED, PLAN_TAKEN

# Before the plan is posted.
UPDATES = 40


@dataclass(kw_only=True)
class FakeTraining:
    """How it behaves. Step numbers count from the moment when the plan is taken up."""

    step_ms: float = 20.0
    gains: Mapping[int, float] = field(default_factory=dict)
    spread: float = 0.0  # standard deviation of the logarithm of a step's time
    alike: float = 0.0  # how much of it a step has from the one before
    delay_share: float = 0.0  # mean share of a step in which its thread waits for a core; exponential, and on top of the step
    samples: Mapping[int, int] = field(default_factory=dict)  # by arm; 32 for the others
    knows_samples: bool = True
    knows_delay: bool = True
    every: int = 0  # every so many steps something comes back that takes `event_ms`, but not in the arms without events
    event_ms: float = 0.0
    without_events: frozenset[int] = frozenset()
    settling: Mapping[int, int] = field(default_factory=dict)  # steps until a block of an arm has settled; 1 for the others
    not_applicable: Mapping[int, str] = field(default_factory=dict)
    fails_in_block: Mapping[int, int] = field(default_factory=dict)  # by arm: it fails in the first block of it from that one on
    trains: bool = True
    takes_up: bool = True
    ends_at_step: int | None = None
    hangs_at_step: int | None = None
    interrupt_at_s: float | None = None
    cut_at_s: float | None = None  # the executor ends it, for `problem`
    problem: str = "it took too much room"
    seed: int = 0


class FakeExecutor:
    """Give `clock` and `sleep` of it to the runner."""

    folder = Path("nowhere")

    def __init__(self, training: FakeTraining) -> None:
        self.training, self.now_s = training, 0.0
        self.ended = 0
        self._plan: Plan | None = None
        self._state = PLAN_NONE
        self._alive = True
        self._walk: _Walk | None = None

    def clock(self) -> float:
        return self.now_s

    def sleep(self, seconds: float) -> None:
        self.now_s += seconds
        interrupt_at_s = self.training.interrupt_at_s
        if interrupt_at_s is not None and self.now_s >= interrupt_at_s:
            self.training.interrupt_at_s = None
            raise KeyboardInterrupt
        if self._plan is not None and self.training.trains and self.training.takes_up and self._walk is None:
            self._walk, self._state = _Walk(self.training, self._plan), PLAN_TAKEN
        if self._walk is not None and self._alive:
            self._walk.go_on(seconds)
            self._alive = not (self._walk.script_ended or self._is_cut())
            self._state = PLAN_DONE if self._walk.done else self._state

    def _is_cut(self) -> bool:
        return self.training.cut_at_s is not None and self.now_s >= self.training.cut_at_s

    def start(self) -> None:
        """It runs already."""

    def poll(self) -> Progress:
        return Progress(
            updates=UPDATES if self.training.trains else 0,
            plan=self._state,
            alive=self._alive,
            exit_code=None if self._alive else 0,
            training_s=self.training.step_ms * UPDATES / 1000 if self.training.trains else None,
            problem=self.training.problem if self._is_cut() else None,
        )

    def post(self, plan: Plan) -> None:
        self._plan, self._state = plan, PLAN_POSTED

    def steps(self) -> ExperimentSteps:
        return made_steps(self._walk.rows if self._walk is not None else [])

    def lever_notes(self) -> list[dict[str, Any]]:
        return [] if self._walk is None else list(self._walk.notes)

    def end(self) -> Ending:
        self.ended += 1
        killed, self._alive = self._alive, False
        return Ending(exit_code=None if killed else 0, killed=killed, left=(), output="")


def made_steps(rows: list[tuple[int, int, int, int, int, bool]]) -> ExperimentSteps:
    """Steps of rows: arm, block, ns, samples, delay ns, settling. No input is waited for."""
    columns = np.array(rows, dtype=np.int64).reshape(-1, 6).T
    return ExperimentSteps(
        arm=columns[0],
        block=columns[1],
        ns=columns[2],
        samples=columns[3],
        delay_ns=columns[4],
        settling=columns[5].astype(np.bool_),
        input_ns=columns[2] * 0,
    )


class _Walk:
    """Walks a plan, step by step."""

    def __init__(self, training: FakeTraining, plan: Plan) -> None:
        self._training, self._plan = training, plan
        self._draw = np.random.default_rng(training.seed)
        self._log, self._left_s, self._number = 0.0, 0.0, 0
        self._block, self._counted, self._to_settle = -1, 0, 0
        self._gone = set(training.not_applicable)
        self.rows: list[tuple[int, int, int, int, int, bool]] = []
        self.notes = [_note(plan, arm, "not applicable", reason) for arm, reason in training.not_applicable.items()]
        self.done = self.script_ended = False
        self._next()

    def go_on(self, seconds: float) -> None:
        self._left_s += seconds
        while self._left_s > 0 and not self.done and not self.script_ended:
            if self._number == self._training.hangs_at_step:
                return
            if self._number == self._training.ends_at_step:
                self.script_ended = True
                return
            self._step()

    def _step(self) -> None:
        arm, training = self._plan.blocks[self._block], self._training
        delay_ns = int(self._draw.exponential(training.delay_share) * training.step_ms * 1e6) if training.delay_share else 0
        ns = int(self._work_ms(arm) * 1e6) + delay_ns
        settling = self._to_settle > 0
        samples = training.samples.get(arm, 32) if training.knows_samples else -1
        self.rows.append((arm, self._block, ns, samples, delay_ns if training.knows_delay else -1, settling))
        self._left_s -= ns / 1e9
        self._number += 1
        self._to_settle -= settling
        self._counted += not settling
        if self._counted == 2 and arm not in self._gone and self._block >= training.fails_in_block.get(arm, len(self._plan.blocks)):
            self._gone.add(arm)
            self.notes.append(_note(self._plan, arm, "failed", "RuntimeError: made to fail"))
        if self._counted == self._plan.steps:
            self._next()

    def _work_ms(self, arm: int) -> float:
        training = self._training
        self._log = training.alike * self._log + np.sqrt(1 - training.alike**2) * self._draw.standard_normal()
        ms = training.step_ms * float(np.exp(training.spread * self._log)) / training.gains.get(arm, 1.0)
        is_event = training.every and self._number % training.every == 0 and arm not in training.without_events
        return ms + (training.event_ms if is_event else 0.0)

    def _next(self) -> None:
        self._counted = 0
        self._block += 1
        while self._block < len(self._plan.blocks) and self._plan.blocks[self._block] in self._gone:
            self._block += 1
        self.done = self._block >= len(self._plan.blocks)
        if not self.done:
            self._to_settle = self._training.settling.get(self._plan.blocks[self._block], 1)


def _note(plan: Plan, arm: int, state: str, reason: str) -> dict[str, Any]:
    return {"kind": "lever", "arm": arm, "name": plan.arms[arm].name, "state": state, "reason": reason}
