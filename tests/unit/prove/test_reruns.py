"""Re-runs and their order, with trainings that are made up."""

from __future__ import annotations

import json
import struct
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from slowstep.prove import reruns, seen_losses
from slowstep.prove.stats.plan import Plan
from slowstep.prove.stats.readings import ExperimentSteps
from slowstep.prove.stats.repeated import AllRepeated
from slowstep.prove.whole_run import FEW_SEEN, NEVER_READY, OWN_END, RunRequest, WholeRunLimits, run_once
from slowstep.reasons import SAID
from slowstep.record.experiment.lever_text import parse_spec
from slowstep.record.experiment.losses import UNSEEN
from slowstep.record.writing import format as fmt

LEVER = parse_spec("autocast=bf16")
ON = {"kind": "lever", "arm": 1, "name": str(LEVER), "state": "on", "updates": 2}
EFFECT = {"kind": "lever", "arm": 1, "name": str(LEVER), "state": "effect", "effect": 10, "facts": {"autocast_dtype": "bfloat16"}}


class Clock:
    """A clock that only sleeping moves."""

    def __init__(self) -> None:
        self.now_s = 0.0

    def __call__(self) -> float:
        return self.now_s

    def sleep(self, seconds: float) -> None:
        self.now_s += seconds


@dataclass
class Training:
    """What one made-up run does: time of a step, its losses, what its lever says, when it ends by itself, and how far it is at first."""

    step_ms: float = 10.0
    losses: Callable[[int], float] = lambda step: 1.0
    passes: int = 1
    first: int = 0
    notes: tuple[dict[str, Any], ...] = ()
    samples: int = 4
    lasts: int = 10_000


@dataclass
class Fake:
    """An executor of made-up trainings."""

    training: Training
    folder: Path
    clock: Clock
    plan: Plan | None = None
    posted_s: float = 0.0
    ends: int = 0
    calls: list[str] = field(default_factory=list)

    def start(self) -> None:
        self.started_s = self.clock.now_s

    def poll(self) -> Any:
        made = self._made()
        return SimpleNamespace(updates=made, alive=made < self.training.lasts)

    def post(self, plan: Plan) -> None:
        self.plan, self.posted_s = plan, self.clock.now_s

    def steps(self) -> ExperimentSteps:
        count = 0 if self.plan is None else min(int((self.clock.now_s - self.posted_s) * 1000 / self.training.step_ms), self.training.lasts)
        full = np.ones(count, dtype=np.int64)
        return ExperimentSteps(
            arm=full * 0,
            block=full * 0,
            ns=full * int(self.training.step_ms * 1e6),
            samples=full * self.training.samples,
            delay_ns=full * 0,
            settling=full < 0,
            input_ns=full * 0,
        )

    def notes(self, kind: str) -> list[dict[str, Any]]:
        return [note for note in self.training.notes if note["kind"] == kind]

    def lever_notes(self) -> list[dict[str, Any]]:
        return self.notes("lever")

    def end(self) -> Any:
        self.ends += 1
        return SimpleNamespace(exit_code=0, killed=True, problem=None)

    def _made(self) -> int:
        made = self.training.first + int((self.clock.now_s - self.started_s) * 1000 / self.training.step_ms)
        made = min(made, self.training.lasts)
        self._write(made)
        return made

    def _write(self, made: int) -> None:
        bits = [struct.unpack("<q", struct.pack("<d", self.training.losses(step)))[0] for step in range(made)]
        records = [fmt.RECORD.pack(1, 1, loss, self.training.passes, 5, 1, 0, 0, fmt.LOSS) for loss in bits]
        (self.folder / "12-ab.rec").write_bytes(b"".join(records) + bytes(fmt.RECORD_BYTES))


class Trainings:
    """Makes executors, and remembers what was asked of them."""

    def __init__(self, place: Path, choose: Callable[[Mapping[str, str]], Training]) -> None:
        self._place, self._choose = place, choose
        self.clock = Clock()
        self.asked: list[dict[str, str]] = []
        self.made: list[Fake] = []

    def __call__(self, asked: Mapping[str, str]) -> Fake:
        folder = self._place / str(len(self.made))
        folder.mkdir()
        self.asked.append(dict(asked))
        self.made.append(Fake(training=self._choose(asked), folder=folder, clock=self.clock))
        return self.made[-1]

    def limits(self, steps: int = 50, seconds: float = 100.0) -> WholeRunLimits:
        return WholeRunLimits(steps=steps, seconds=seconds, clock=self.clock, sleep=self.clock.sleep)

    @property
    def order(self) -> str:
        """L for a run with the lever, A for one as it is."""
        return "".join("L" if fmt.ENV_LEVERS in asked else "A" for asked in self.asked)


def faster(asked: Mapping[str, str]) -> Training:
    return Training(step_ms=5.0, notes=(ON, EFFECT)) if fmt.ENV_LEVERS in asked else Training()


def test_what_is_asked_of_a_run_stands_in_its_environment() -> None:
    assert RunRequest().variables() == {}
    variables = RunRequest(levers=(LEVER,), seed_offset=0, losses=True).variables()
    assert json.loads(variables.pop(fmt.ENV_LEVERS)) == [{"name": "autocast", "value": "bf16", "every": 1}]
    assert variables == {fmt.ENV_SEEDS: "0", fmt.ENV_LOSSES: "1", "PYTHONHASHSEED": "0"}


ASKED = {str(LEVER): RunRequest(levers=(LEVER,))}
NAME = str(LEVER)


def repeated(trainings: Trainings, limits: WholeRunLimits | None = None, *, rounds: int = 4, **more: Any) -> AllRepeated:
    return reruns.rerun(trainings, ASKED, limits or trainings.limits(), rounds=rounds, seed=3, **more)


def test_a_round_has_a_run_of_each_in_random_order(tmp_path: Path) -> None:
    trainings = Trainings(tmp_path, faster)
    told: list[str] = []

    found = repeated(trainings, rounds=8, tell=told.append)

    pairs = [trainings.order[at : at + 2] for at in range(0, 16, 2)]
    assert {*pairs} == {"AL", "LA"}
    assert [made.ends for made in trainings.made] == [1] * 16
    lever = found.levers[NAME]
    assert (lever.state, lever.reason, lever.per, len(told)) == ("measured", None, "sample", 8)
    assert lever.ratios == pytest.approx((2.0,) * 8)
    assert (lever.effect, lever.facts) == (80, {"autocast_dtype": "bfloat16"})
    # The first fifth of a run's steps is its warm-up, and those beyond what was asked for are nobody's.
    assert lever.steps == 8 * 40
    assert (found.control, found.interrupted) == ((), False)


def test_levers_share_the_runs_as_it_is(tmp_path: Path) -> None:
    trainings = Trainings(tmp_path, lambda asked: Training(notes=(ON,)))
    other = parse_spec("threads=2")

    found = reruns.rerun(trainings, {**ASKED, "other": RunRequest(levers=(other,))}, trainings.limits(), rounds=3, seed=1)

    assert (trainings.order.count("A"), trainings.order.count("L")) == (3, 6)
    assert [each.rounds for each in found.levers.values()] == [3, 3]


def test_where_the_loader_is_built_is_told_to_the_runs_with_a_lever_only(tmp_path: Path) -> None:
    trainings = Trainings(tmp_path, faster)

    reruns.rerun(trainings, {NAME: RunRequest(levers=(LEVER,), loader=77)}, trainings.limits(), rounds=1, seed=1)

    assert [asked.get(fmt.ENV_LOADER) for asked in sorted(trainings.asked, key=len)] == [None, "77"]


def test_a_control_shows_how_runs_differ_by_themselves(tmp_path: Path) -> None:
    trainings = Trainings(tmp_path, faster)

    found = repeated(trainings, control=True)

    assert (trainings.order.count("A"), trainings.order.count("L")) == (8, 4)
    assert found.control == pytest.approx((1.0,) * 4)
    assert not found.is_doubtful


def test_ctrl_c_leaves_what_was_measured_until_then(tmp_path: Path) -> None:
    trainings = Trainings(tmp_path, faster)

    def interrupted(seconds: float) -> None:
        trainings.clock.sleep(seconds)
        if len(trainings.made) == 6:
            raise KeyboardInterrupt

    limits = WholeRunLimits(steps=50, seconds=100.0, clock=trainings.clock, sleep=interrupted)
    found = repeated(trainings, limits)

    assert found.interrupted
    assert (found.levers[NAME].state, found.levers[NAME].rounds) == ("measured", 2)
    assert [made.ends for made in trainings.made] == [1] * 6


def test_after_the_time_for_all_of_them_none_begins(tmp_path: Path) -> None:
    trainings = Trainings(tmp_path, lambda asked: Training(notes=(ON,)))

    found = repeated(trainings, within_s=2.0)

    # A run takes some 0.6 s.
    assert len(trainings.made) == 4
    assert (found.levers[NAME].rounds, found.interrupted) == (2, False)


def test_steps_before_the_lever_was_on_do_not_count(tmp_path: Path) -> None:
    late = {**ON, "updates": 40}
    trainings = Trainings(tmp_path, lambda asked: Training(notes=(late,)) if fmt.ENV_LEVERS in asked else Training())

    assert repeated(trainings, trainings.limits(steps=60), rounds=1).levers[NAME].steps == 20


def test_without_samples_steps_are_counted(tmp_path: Path) -> None:
    trainings = Trainings(tmp_path, lambda asked: Training(samples=-1, notes=(ON,)))

    assert repeated(trainings, rounds=1).levers[NAME].per == "step"


@pytest.mark.parametrize("state", ["not applicable", "failed"])
def test_a_lever_that_cannot_be_had_ends_them_and_says_why(tmp_path: Path, state: str) -> None:
    refused = {"kind": "lever", "arm": 1, "name": str(LEVER), "state": state, "reason": "the reason"}
    trainings = Trainings(tmp_path, lambda asked: Training(notes=(refused,)) if fmt.ENV_LEVERS in asked else Training())

    found = repeated(trainings).levers[NAME]

    assert (found.state, found.reason, found.ratios) == (state, SAID(said="the reason"), ())
    assert trainings.order.count("L") == 1
    assert len(trainings.made) <= 2


def test_a_lever_that_cannot_be_had_leaves_the_others_in_the_rounds(tmp_path: Path) -> None:
    refused = {"kind": "lever", "arm": 1, "name": "other", "state": "not applicable", "reason": "the reason"}

    def choose(asked: Mapping[str, str]) -> Training:
        return Training(notes=(refused,)) if "threads" in asked.get(fmt.ENV_LEVERS, "") else faster(asked)

    trainings = Trainings(tmp_path, choose)
    found = reruns.rerun(trainings, {**ASKED, "other": RunRequest(levers=(parse_spec("threads=2"),))}, trainings.limits(), rounds=3, seed=1)

    assert (found.levers[NAME].rounds, found.levers["other"].state) == (3, "not applicable")
    assert len(trainings.made) == 7


def test_a_lever_that_was_never_on_was_not_measured(tmp_path: Path) -> None:
    trainings = Trainings(tmp_path, lambda asked: Training())

    found = repeated(trainings).levers[NAME]

    assert (found.state, found.reason) == ("not applicable", NEVER_READY(levers="autocast"))


def test_a_script_that_ends_early_counts_for_the_steps_that_it_made(tmp_path: Path) -> None:
    trainings = Trainings(tmp_path, lambda asked: Training(lasts=30, notes=(ON,)))

    assert repeated(trainings, rounds=2).levers[NAME].state == "measured"


def test_a_script_that_ends_before_it_is_measured_is_no_fault_of_the_lever(tmp_path: Path) -> None:
    few = Trainings(tmp_path, lambda asked: Training(lasts=8) if fmt.ENV_LEVERS not in asked else faster(asked))

    found = repeated(few).levers[NAME]

    assert (found.state, found.reason) == ("unmeasured", reruns.AS_IS_FAILED(reason=OWN_END(code=0)))


def test_a_run_has_a_time_limit(tmp_path: Path) -> None:
    trainings = Trainings(tmp_path, lambda asked: Training(step_ms=60_000.0 if fmt.ENV_LEVERS in asked else 10.0, notes=(ON,)))

    found = repeated(trainings, trainings.limits(seconds=5.0), rounds=2).levers[NAME]

    assert (found.state, found.seconds) == ("failed", pytest.approx(5.1, abs=0.2))
    assert found.reason == FEW_SEEN(seen=0, steps=50, seconds=5.0)


def test_an_interrupted_run_is_ended(tmp_path: Path) -> None:
    trainings = Trainings(tmp_path, lambda asked: Training())

    def interrupt(seconds: float) -> None:
        raise KeyboardInterrupt

    limits = WholeRunLimits(steps=5, seconds=5.0, clock=trainings.clock, sleep=interrupt)
    with pytest.raises(KeyboardInterrupt):
        run_once(trainings, RunRequest(), limits)
    assert [made.ends for made in trainings.made] == [1]


def test_how_long_they_take_is_known_before() -> None:
    assert reruns.seconds_needed(6, startup_s=3.0, step_s=0.02, steps=100) == pytest.approx(30.0)


def test_losses_are_compared_with_and_without_for_three_seeds(tmp_path: Path) -> None:
    def choose(asked: Mapping[str, str]) -> Training:
        seed, is_changed = int(asked[fmt.ENV_SEEDS]), fmt.ENV_LEVERS in asked
        return Training(losses=lambda step: 1.0 + seed / 10_007 + 0.02 * is_changed * (step >= 2), notes=(ON, EFFECT) * is_changed)

    trainings = Trainings(tmp_path, choose)

    found = reruns.check(trainings, LEVER, trainings.limits(steps=60))

    assert trainings.order == "ALLAAL"
    assert [asked[fmt.ENV_SEEDS] for asked in trainings.asked] == ["0", "0", "10007", "10007", "20014", "20014"]
    assert {asked[fmt.ENV_LOSSES] for asked in trainings.asked} == {"1"}
    assert all(made.plan is None for made in trainings.made)
    assert (found.state, found.reason) == ("done", None)
    assert found.numerics is not None
    assert found.numerics.whole is not None
    assert found.numerics.whole.relative == pytest.approx(0.01)
    assert found.numerics.whole.spread == pytest.approx(1.0)
    assert found.numerics.same_input is True
    # The first two steps came before the lever.
    assert found.numerics.steps >= 58


def test_a_loss_that_is_not_finite_ends_the_arm(tmp_path: Path) -> None:
    def choose(asked: Mapping[str, str]) -> Training:
        is_changed = fmt.ENV_LEVERS in asked
        return Training(losses=lambda step: float("nan") if is_changed and step == 25 else 1.0, notes=(ON, EFFECT) * is_changed)

    trainings = Trainings(tmp_path, choose)

    found = reruns.check(trainings, LEVER, trainings.limits(steps=1000))

    assert trainings.order == "AL"
    assert found.numerics is not None
    assert [(bad.with_lever, bad.step) for bad in found.numerics.not_finite] == [(True, 26)]
    # It was ended long before its thousand steps.
    assert trainings.clock.now_s < 12


def test_losses_that_are_equal_because_the_lever_did_nothing_are_not_compared(tmp_path: Path) -> None:
    trainings = Trainings(tmp_path, lambda asked: Training(notes=(ON,) if fmt.ENV_LEVERS in asked else ()))

    found = reruns.check(trainings, LEVER, trainings.limits(steps=60))

    assert trainings.order == "AL"
    assert (found.state, found.numerics) == ("idle", None)
    assert found.reason is not None
    assert found.reason.code == reruns.IDLE.code


def test_a_lever_without_meaning_has_no_numerics(tmp_path: Path) -> None:
    refused = {"kind": "lever", "arm": 1, "name": str(LEVER), "state": "not applicable", "reason": "the reason"}
    trainings = Trainings(tmp_path, lambda asked: Training(notes=(refused,)) if fmt.ENV_LEVERS in asked else Training())

    found = reruns.check(trainings, LEVER, trainings.limits())

    assert (found.state, found.reason, found.numerics) == ("not-applicable", SAID(said="the reason"), None)


def test_a_training_that_tells_no_losses_ends_the_comparison_at_once(tmp_path: Path) -> None:
    unseen = {"kind": UNSEEN, "updates": 10, "framework": "keras"}
    trainings = Trainings(tmp_path, lambda asked: Training(passes=0, first=12, notes=(unseen,)))

    found = reruns.check(trainings, LEVER, trainings.limits(steps=60))

    assert (trainings.order, found.state, found.numerics) == ("A", "losses-unseen", None)
    assert found.reason is not None
    assert (found.reason.code, found.reason.values["updates"]) == (seen_losses.UNSEEN.code, 10)
    assert trainings.clock.now_s < 1
