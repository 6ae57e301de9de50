"""The acts of `slowstep bench`, one after the other, in a training that an executor runs."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, Final

from slowstep.analyses.machine.load import Load
from slowstep.errors import INTERRUPTED_CODE, UNTRIED_CODE, NothingRecorded, UnreadableInput
from slowstep.levers.mock_loader import ACROSS_EPOCHS
from slowstep.prove.executor import Ending, Executor, Progress, surely_ended
from slowstep.prove.first_updates import EMPTY_INPUT, FIRST_STEP, START_S, NeverTrained, start_up
from slowstep.prove.recorded import load_since
from slowstep.prove.stats.design import draw_seed, make_plan
from slowstep.prove.stats.plan import Arm, Plan
from slowstep.prove.stats.readings import ExperimentSteps, no_steps
from slowstep.reasons import SAID, Reason, Wording
from slowstep.record.experiment.lever import LeverSpec
from slowstep.record.experiment.tasks import UNKNOWN
from slowstep.record.launching.command import Command
from slowstep.record.writing import format as contract
from slowstep.units import format_count
from slowstep.workflow.bench_request import BenchEndedBy, BenchRequest
from slowstep.workflow.progress import TellPhase

TASK: Final = "bench_data"
CACHED: Final = Arm(name="mock-loader", levers=(LeverSpec(name="mock-loader", value=ACROSS_EPOCHS),))
# Of the time for all, what the loader gets; the rest is for blocks of steps.
LOADER_SHARE: Final = {"data": 0.6, "compute": 0.15}
_TICK_S: Final = 0.1
NOTHING_READ: Final = Wording("no-readable-loader", "this training reads none that slowstep bench can read alone")
UNMEASURABLE: Final = Wording("loader-unmeasurable", "the loader cannot be measured: {reason}")
BY_CTRL_C: Final = Wording("bench-interrupted", "interrupted by Ctrl-C")
TOO_SLOW_STEPS: Final = Wording("bench-slow-steps", "only {steps:count training step} in {seconds:.0f} s")
NO_STEP: Final = Wording("bench-no-step", "no step in {seconds:.0f} s")
STILL_AT_LOADER: Final = Wording(
    "still-at-loader", "the loader was still being measured after {seconds:.0f} s ({doing}); the rest was left out"
)
ENDED_UNTRAINED: Final = Wording("bench-ended-untrained", "the script ended{how} before its first training step{input}")
ENDED_AFTER: Final = Wording("bench-ended-after", "the script ended{how} after {steps:count training step}")
_WITH_CODE: Final = Wording("with-exit-code", " with exit code {code}")
_NO_INPUT: Final = Wording("input-is-empty", f"; {EMPTY_INPUT}")
# By what loaders are distinguished from each other.
_DESCRIBED: Final = ("dataset", "dataset_length", "batch_size", "num_workers", "collate")


@dataclass(frozen=True, kw_only=True, slots=True)
class BenchLimits:
    """How long is waited, in seconds. The lead-in ends after `updates`, the first `enough_s` ago, or `few`, the first `slow_s` ago."""

    start_s: float = START_S
    updates: int = 10
    enough_s: float = 2.0
    few: int = 3
    slow_s: float = 20.0
    still_s: float = 60.0
    closing_s: float = 3.0
    # A task may take so many times its time: slow batches, and workers that start slowly.
    overtime: float = 3.0


@dataclass(slots=True)
class BenchMeasurements:
    """All that was measured, as far as it came; `reason` says what stopped it. `load`: of the machine meanwhile, None if not read.
    `is_asynchronous`: calls of the training return before their work is done.

    `startup_s` is the part of `duration_s` before the first update, which no budget holds; None where none came.
    """

    command: Command
    ended_by: BenchEndedBy = BenchEndedBy.DONE
    reason: Reason | None = None
    notes: list[dict[str, Any]] = field(default_factory=list)
    plan: Plan | None = None
    is_asynchronous: bool = False
    steps: ExperimentSteps = field(default_factory=no_steps)
    lever_notes: list[dict[str, Any]] = field(default_factory=list)
    block_notes: list[dict[str, Any]] = field(default_factory=list)
    loaders: int = 1
    updates: int = 0
    duration_s: float = 0.0
    startup_s: float | None = None
    ending: Ending | None = None
    place: dict[str, Any] = field(default_factory=dict)
    load: Load | None = None

    @property
    def left_nothing(self) -> bool:
        """Whether it was interrupted before the training did anything: its recording is worth nothing."""
        return self.ended_by == BenchEndedBy.INTERRUPTED and not self.updates and not self.notes

    @property
    def code(self) -> int:
        """What `slowstep bench` ends with."""
        if self.ended_by == BenchEndedBy.INTERRUPTED:
            return INTERRUPTED_CODE
        if any(note["state"] == contract.LEVER_NOT_UNDONE for note in self.lever_notes):
            return 4
        if any(note["part"] == "drain" for note in self.notes):
            return 0
        if self.ending is not None and self.ending.exit_code:
            return 1
        return UNTRIED_CODE if self.ended_by == BenchEndedBy.NEVER_TRAINED else NothingRecorded.exit_code

    @property
    def came_untrained_to_its_end(self) -> bool:
        """Whether the script ended well, without a step that was seen."""
        return self.ended_by == BenchEndedBy.NEVER_TRAINED and self.ending is not None and self.ending.exit_code == 0


class Stopped(Exception):
    """The measuring ends here: what was measured until now is what there is."""

    def __init__(self, ended_by: BenchEndedBy, reason: Reason) -> None:
        super().__init__(reason.code)
        self.ended_by, self.reason = ended_by, reason


class BenchAct:
    """The phases one after the other, in a training that an executor runs."""

    def __init__(
        self,
        executor: Executor,
        asked: BenchRequest,
        measured: BenchMeasurements,
        phase: TellPhase,
        limits: BenchLimits,
        *,
        clock: Callable[[], float] = time.monotonic,
        sleep: Callable[[float], None] = time.sleep,
    ) -> None:
        self._executor, self._asked, self._measured, self._phase, self._limits = executor, asked, measured, phase, limits
        self._clock, self._sleep = clock, sleep
        self._loader_s = asked.budget_s * LOADER_SHARE[asked.what]
        self._measuring_from_ns: int | None = None

    def run(self) -> BenchMeasurements:
        """All phases. Ctrl-C ends it: what was measured until then is told."""
        measured, began_s = self._measured, self._clock()
        try:
            self._executor.start()
            step_s = self._lead_in(began_s)
            measured.loaders = len({_loader_of(note) for note in self._executor.notes("iterator")})
            self._read_loader()
            self._walk_blocks(step_s)
        except Stopped as end:
            measured.ended_by, measured.reason = end.ended_by, end.reason
        except KeyboardInterrupt:
            measured.ended_by, measured.reason = BenchEndedBy.INTERRUPTED, BY_CTRL_C()
        except Exception:
            raise
        except BaseException:
            # By a signal: nobody reads a report then, but its recording may be worth nothing.
            measured.ended_by = BenchEndedBy.INTERRUPTED
            raise
        finally:
            self._collect()
            measured.ending = surely_ended(self._executor)
        measured.load = self._load()
        measured.duration_s = self._clock() - began_s
        return measured

    def _lead_in(self, began_s: float) -> float:
        """Wait for the first updates; returns the seconds of a step, of the later half of them: the first ones are slow."""
        limits, seen = self._limits, list[tuple[float, int]]()
        try:
            for progress, trained_s in start_up(self._executor, limits.start_s, clock=self._clock, sleep=self._sleep):
                self._phase("starting", 0.0, format_count(progress.updates, "step") if progress.updates else FIRST_STEP)
                seen.append((self._clock(), progress.updates))
                if trained_s is None:
                    continue
                if self._measured.startup_s is None:
                    self._measured.startup_s = max(self._clock() - began_s - trained_s, 0.0)
                enough = progress.updates >= limits.updates and trained_s >= limits.enough_s
                if enough or (progress.updates >= limits.few and trained_s >= limits.slow_s):
                    return _step_s(seen)
                if trained_s > limits.slow_s + limits.still_s:
                    raise Stopped(BenchEndedBy.STOOD_STILL, TOO_SLOW_STEPS(steps=progress.updates, seconds=trained_s))
        except NeverTrained as error:
            raise Stopped(BenchEndedBy.NEVER_TRAINED, SAID(said=str(error))) from error
        raise self._ended(self._executor.poll())

    def _read_loader(self) -> None:
        is_data = self._asked.what == "data"
        arguments = {"seconds": self._loader_s, "parts": is_data, "sweep": is_data}
        self._measuring_from_ns = int(self._clock() * 1e9)
        self._executor.post(Plan(seed=0, steps=0, arms=(), blocks=(), task=TASK, arguments=arguments))
        began_s = self._clock()
        while not (ends := [note for note in self._tell_task(began_s) if note["part"] == "end"]):
            self._check(self._executor.poll(), began_s, self._limits.overtime * self._loader_s + self._limits.still_s)
            self._sleep(_TICK_S)
        if ends[0]["state"] == UNKNOWN:
            raise Stopped(BenchEndedBy.DONE, UNMEASURABLE(reason=NOTHING_READ()))
        told = [ends[0].get("reason"), *(note["reason"] for note in self._executor.notes("task") if note["part"] == "loader")]
        if said := next(filter(None, told), None):
            raise Stopped(BenchEndedBy.DONE, UNMEASURABLE(reason=SAID(said=said)))

    def _tell_task(self, began_s: float) -> list[dict[str, Any]]:
        self._phase("loader", min((self._clock() - began_s) / self._loader_s, 1.0), self._doing())
        return self._executor.notes("task")

    def _doing(self) -> str:
        """What the task does now."""
        notes = self._executor.notes("task")
        return next((note["doing"] for note in reversed(notes) if note["part"] == "begins"), "waiting for the training to pause")

    def _is_on_processor(self) -> bool:
        """Whether the parameters that are trained are."""
        return {note.get("device") for note in self._executor.notes("optimizer")} == {"cpu"}

    def _walk_blocks(self, step_s: float) -> None:
        """As it is, as it is once more, and on cached batches, until the time is over, the plan, or the script."""
        budget_s = self._asked.budget_s - self._loader_s
        self._measured.plan = self._plan_blocks(step_s, budget_s)
        self._executor.post(self._measured.plan)
        self._watch_blocks(budget_s)

    def _plan_blocks(self, step_s: float, budget_s: float) -> Plan:
        seed = draw_seed() if self._asked.seed is None else self._asked.seed
        step_ms, epoch = max(step_s * 1e3, 1e-3), self._epoch()
        ahead = self._measured.is_asynchronous = any(note.get("asynchronous") for note in self._executor.notes("facts"))
        return make_plan(
            [CACHED],
            seed=seed,
            step_ms=step_ms,
            period_steps=epoch,
            is_asynchronous=ahead,
            shares_cores=ahead and self._is_on_processor(),
            budget_s=budget_s,
        )

    def _watch_blocks(self, budget_s: float) -> None:
        """Wait for what was posted. Raises Stopped where the script stands still, or has ended."""
        began_s, last_s, last = self._clock(), self._clock(), 0
        while (at_s := self._clock()) - began_s < budget_s:
            progress = self._executor.poll()
            if progress.plan == contract.PLAN_DONE:
                return
            if not progress.alive:
                raise self._ended(progress)
            steps = self._executor.steps()
            if len(steps.ns) > last:
                last, last_s = len(steps.ns), at_s
            elif at_s - last_s > self._limits.still_s:
                raise Stopped(BenchEndedBy.STOOD_STILL, NO_STEP(seconds=self._limits.still_s))
            self._phase(
                "compute", (at_s - began_s) / budget_s, f"{format_count(last, 'step')}, with its own loader and cached batches in turn"
            )
            self._sleep(_TICK_S)
        self._end_blocks()

    def _epoch(self) -> int:
        """The batches of an epoch, as far as the loader says: what a change of epoch costs is to be in each block as often."""
        drains = [note for note in self._executor.notes("task") if note["part"] == "drain"]
        return max(next((note["epoch_batches"] for note in drains if note.get("epoch_batches")), 1), 1)

    def _end_blocks(self) -> None:
        """Post a plan of nothing in the place of the other: its levers are removed, and say what they measured."""
        self._executor.post(Plan(seed=0, steps=1, arms=(Arm(name="as-is"),), blocks=()))
        until_s = self._clock() + self._limits.closing_s
        while self._clock() < until_s:
            progress = self._executor.poll()
            if progress.plan == contract.PLAN_DONE or not progress.alive:
                return
            self._sleep(_TICK_S)

    def _check(self, progress: Progress, began_s: float, limit_s: float) -> None:
        if not progress.alive:
            raise self._ended(progress)
        if self._clock() - began_s > limit_s:
            raise Stopped(BenchEndedBy.STOOD_STILL, STILL_AT_LOADER(seconds=limit_s, doing=self._doing()))

    def _ended(self, progress: Progress) -> Stopped:
        if progress.problem is not None:
            return Stopped(BenchEndedBy.STOOD_STILL, SAID(said=progress.problem))
        how = None if progress.exit_code in (0, None) else _WITH_CODE(code=progress.exit_code)
        if not progress.updates:
            return Stopped(BenchEndedBy.NEVER_TRAINED, ENDED_UNTRAINED(how=how, input=None if how is None else _NO_INPUT()))
        return Stopped(BenchEndedBy.SCRIPT_ENDED, ENDED_AFTER(how=how, steps=progress.updates))

    def _load(self) -> Load | None:
        """What others used of the machine while it was measured."""
        if self._measuring_from_ns is None:
            return None
        cores = next((note.get("cores") for note in self._measured.notes if note["part"] == "loader"), None)
        try:
            return load_since(self._executor.folder, self._measuring_from_ns, cores)
        except (OSError, UnreadableInput):
            return None

    def _collect(self) -> None:
        """What the training has written until now, whatever came between."""
        measured, executor = self._measured, self._executor
        try:
            measured.updates = executor.poll().updates
            measured.notes, measured.steps = executor.notes("task"), executor.steps()
            measured.lever_notes, measured.block_notes = executor.lever_notes(), executor.notes("block")
        except (OSError, AssertionError):
            # It was not even started.
            pass


def _loader_of(iterator: dict[str, Any]) -> tuple[object, ...]:
    """What an iterator's loader is: one that is built anew in each epoch stays the same. Its number alone where nothing describes it."""
    if iterator.get("dataset") is None:
        return (iterator["loader"],)
    return tuple(iterator.get(name) for name in _DESCRIBED)


def _step_s(seen: list[tuple[float, int]]) -> float:
    """The seconds of a step by the later half of those that were seen: times, and updates by then."""
    at_s, updates = seen[-1]
    middle_s, by_then = next(each for each in seen if each[1] >= updates // 2)
    return (at_s - middle_s) / max(updates - by_then, 1)
