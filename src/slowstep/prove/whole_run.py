"""One whole short run of the user's script in an experiment: with levers on from the beginning, other seeds, or its losses recorded."""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from enum import StrEnum
from typing import Any, Final

from slowstep.prove.executor import Executor
from slowstep.prove.seen_losses import why_unseen
from slowstep.prove.stats.losses import LossReader, UpdateLosses
from slowstep.prove.stats.plan import Arm, Plan
from slowstep.prove.stats.readings import ExperimentSteps
from slowstep.reasons import SAID, Reason, Wording
from slowstep.record.experiment.lever import LeverSpec
from slowstep.record.experiment.losses import UNSEEN
from slowstep.record.writing import format as fmt


class WholeRunState(StrEnum):
    """Why a run ended."""

    DONE = "done"
    NOT_APPLICABLE = "not-applicable"
    FAILED = "failed"
    SCRIPT_ENDED = "script-ended"
    TOO_SLOW = "too-slow"
    LOSSES_UNSEEN = "losses-unseen"
    IDLE = "idle"  # the lever was on and did nothing

    @property
    def in_words(self) -> str:
        """As it is said where no reason is known."""
        return self.value.replace("-", " ")


OWN_END: Final = Wording("run-ended-itself", "it ended by itself with exit code {code}")
FEW_SEEN: Final = Wording("few-steps-in-time", "{seen} of {steps} steps were seen in {seconds:g} s")
NEVER_READY: Final = Wording("lever-never-ready", "{levers} was not ready before the run was over")
LOOK_EVERY_S: Final = 0.1
# The whole plan of a run: as it is, one block without end. What makes its steps visible.
_ENDLESS: Final = Plan(seed=0, steps=2**31, arms=(Arm(name="as-is"),), blocks=(0,))


# Makes a training ready that is asked for these variables. Each in a sandbox of its own: a run that finds the checkpoint of the one before
# it goes on from there.
MakeExecutor = Callable[[Mapping[str, str]], Executor]


@dataclass(frozen=True, kw_only=True, slots=True)
class RunRequest:
    """What is asked of one run: levers from the beginning, an offset to its seeds (None: seeds as they are), losses recorded.

    `loader` is where the script builds the loader that its levers change there (record/experiment/building.py);
    None: they are switched on later.
    """

    levers: tuple[LeverSpec, ...] = ()
    loader: int | None = None
    seed_offset: int | None = None
    losses: bool = False

    def variables(self) -> dict[str, str]:
        """The variables that say so to the training's process."""
        found = {}
        if self.levers:
            found[fmt.ENV_LEVERS] = json.dumps([asdict(spec) for spec in self.levers])
        if self.loader is not None:
            found[fmt.ENV_LOADER] = str(self.loader)
        if self.seed_offset is not None:
            # The order of a set of texts may be the order of the data.
            found |= {fmt.ENV_SEEDS: str(self.seed_offset), "PYTHONHASHSEED": "0"}
        if self.losses:
            found[fmt.ENV_LOSSES] = "1"
        return found


@dataclass(frozen=True, kw_only=True, slots=True)
class WholeRunLimits:
    """`steps` end a run, and so do `seconds`, whichever comes first. The clock and sleeping are injected."""

    steps: int
    seconds: float
    clock: Callable[[], float] = time.monotonic
    sleep: Callable[[float], None] = time.sleep


@dataclass(frozen=True, kw_only=True, slots=True)
class Ran:
    """One run: what it was asked, why it ended, what it left. `reason` says more of an end that was none of ours.

    `on_from` is the number of updates before the lever was on; None where it never was, and in runs without one.
    """

    asked: RunRequest
    state: WholeRunState
    seconds: float
    reason: Reason | None = None
    on_from: int | None = None
    effect: int = 0
    steps: ExperimentSteps | None = None
    losses: UpdateLosses | None = None
    facts: dict[str, Any] = field(default_factory=dict)


def run_once(make: MakeExecutor, asked: RunRequest, limits: WholeRunLimits) -> Ran:
    """One run from its start to its end; nothing of it is left, whatever happens. Ctrl-C ends it, and is passed on."""
    began_s = limits.clock()
    executor = make(asked.variables())
    try:
        executor.start()
        state = _watched(executor, asked, limits, began_s)
        said = _said_of(executor.lever_notes())
        steps = None if asked.losses else executor.steps()
        losses = LossReader(executor.folder).read() if asked.losses else None
        unseen = why_unseen(executor.notes(UNSEEN)) if state is WholeRunState.LOSSES_UNSEEN else None
    finally:
        ending = executor.end()
    told = said.get("reason") or ending.problem
    reason = unseen if told is None else SAID(said=str(told))
    if state is WholeRunState.SCRIPT_ENDED and reason is None:
        reason = OWN_END(code=ending.exit_code)
    if state is WholeRunState.TOO_SLOW:
        seen = len(losses) if losses is not None else len(steps.ns) if steps is not None else 0
        reason = FEW_SEEN(seen=seen, steps=limits.steps, seconds=limits.seconds)
    if asked.levers and state is WholeRunState.DONE and said.get("updates") is None:
        state, reason = WholeRunState.NOT_APPLICABLE, NEVER_READY(levers=" and ".join(spec.name for spec in asked.levers))
    return Ran(
        asked=asked,
        state=state,
        seconds=limits.clock() - began_s,
        reason=reason,
        on_from=said.get("updates"),
        effect=said.get("effect", 0),
        steps=steps,
        losses=losses,
        facts=said.get("facts", {}),
    )


def _watched(executor: Executor, asked: RunRequest, limits: WholeRunLimits, began_s: float) -> WholeRunState:
    """Until the run has made its steps, or ends, or a lever cannot be had, or a loss is not finite, or none will be seen."""
    reader = LossReader(executor.folder)
    is_posted = asked.losses
    while True:
        progress = executor.poll()
        if not is_posted and progress.updates:
            executor.post(_ENDLESS)
            is_posted = True
        if (ended := _state_of(executor, asked)) is not None:
            return ended
        made = reader.read() if asked.losses else executor.steps().ns
        if len(made) >= limits.steps or (isinstance(made, UpdateLosses) and made.first_not_finite is not None):
            return WholeRunState.DONE
        if not progress.alive:
            return WholeRunState.SCRIPT_ENDED
        if limits.clock() - began_s > limits.seconds:
            return WholeRunState.TOO_SLOW
        limits.sleep(LOOK_EVERY_S)


def _state_of(executor: Executor, asked: RunRequest) -> WholeRunState | None:
    states = {note.get("state") for note in executor.lever_notes()}
    if fmt.LEVER_FAILED in states:
        return WholeRunState.FAILED
    if fmt.LEVER_NOT_APPLICABLE in states:
        return WholeRunState.NOT_APPLICABLE
    return WholeRunState.LOSSES_UNSEEN if asked.losses and executor.notes(UNSEEN) else None


def _said_of(notes: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    """All that the notes of levers say, the later one where two say the same."""
    return {key: value for note in notes for key, value in note.items() if key in ("reason", "updates", "effect", "facts")}
