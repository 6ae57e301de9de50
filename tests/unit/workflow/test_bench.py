"""`slowstep bench` outside of the training: its acts in a training that is played, and the document made of what they measured."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from few import few
from slowstep.document.validity import faults
from slowstep.prove.executor import Ending, Progress
from slowstep.prove.stats.design import make_plan
from slowstep.prove.stats.plan import Arm, Plan
from slowstep.prove.stats.readings import ExperimentSteps, no_steps
from slowstep.reason_words import sentence
from slowstep.record.launching.command import Command
from slowstep.record.writing import format as contract
from slowstep.report.terminal import render
from slowstep.workflow import bench_act
from slowstep.workflow.bench import bench, how_long
from slowstep.workflow.bench_act import CACHED, BenchAct, BenchLimits, BenchMeasurements
from slowstep.workflow.bench_report import make_report
from slowstep.workflow.bench_request import BenchEndedBy, BenchRequest

COMMAND = Command(words=("train.py", "--lr", "1"), path="python", argv=("python", "train.py", "--lr", "1"), stem="train")
PLACE = {"kind": "overlay", "claims": "no file changed", "warnings": []}
BEGINS = {"kind": "task", "part": "begins", "doing": "2 workers", "seconds": 1.0, "at_ns": 0}
LOADER = {"kind": "task", "part": "loader", "reason": None}
END = {"kind": "task", "part": "end", "state": "done"}


class Played:
    """A training that is played: ten updates a second, a task of some seconds, then steps of 100 ms. `at_s` is the clock of all."""

    folder = Path()

    def __init__(self, **changes: Any) -> None:
        self.at_s = 0.0
        self.notes_of: dict[str, list[dict[str, Any]]] = {"task": [LOADER, BEGINS, END], "iterator": [{"loader": 1}], "block": []}
        self.first_s, self.task_s, self.ends_s, self.exit_code = 3.0, 5.0, 1e9, 0
        self.interrupted_s = 1e9
        self.__dict__.update(changes)
        self.posted: list[tuple[float, Plan]] = []
        self.ended = 0

    def sleep(self, seconds: float) -> None:
        self.at_s += seconds
        if self.at_s >= self.interrupted_s:
            self.interrupted_s = 1e9
            raise KeyboardInterrupt

    def start(self) -> None:
        """Nothing to do."""

    def poll(self) -> Progress:
        updates = max(int((min(self.at_s, self.ends_s) - self.first_s) * 10), 0)
        alive = self.at_s < self.ends_s
        training_s = self.at_s - self.first_s if updates else None
        plan = contract.PLAN_DONE if self.posted and not self.posted[-1][1].blocks else contract.PLAN_TAKEN
        return Progress(updates=updates, plan=plan, alive=alive, exit_code=None if alive else self.exit_code, training_s=training_s)

    def post(self, plan: Plan) -> None:
        self.posted.append((self.at_s, plan))

    def notes(self, kind: str) -> list[dict[str, Any]]:
        if kind != "task" or not self.posted:
            return self.notes_of.get(kind, [])
        is_done = self.at_s - self.posted[0][0] >= self.task_s
        return [note for note in self.notes_of["task"] if is_done or note["part"] != "end"]

    def lever_notes(self) -> list[dict[str, Any]]:
        return []

    def steps(self) -> ExperimentSteps:
        begun = [at_s for at_s, plan in self.posted if plan.blocks]
        count = int((min(self.at_s, self.ends_s) - begun[0]) * 10) if begun else 0
        if not count:
            return no_steps()
        whole = np.arange(count)
        order = np.array(self.posted[-1][1].blocks if self.posted[-1][1].blocks else self.posted[-2][1].blocks)
        size = self.posted[1][1].steps
        block = np.minimum(whole // size, len(order) - 1)
        ones = np.ones(count, dtype=np.int64)
        return ExperimentSteps(
            arm=order[block], block=block, ns=ones * 10**8, samples=ones * 8, delay_ns=ones * 0, settling=ones < 0, input_ns=ones * 0
        )

    def end(self) -> Ending:
        self.ended += 1
        return Ending(exit_code=self.exit_code, killed=True, left=(), output="last words")


def run(played: Any, what: Any = "data", **limits: Any) -> BenchMeasurements:
    measured = BenchMeasurements(COMMAND, place=PLACE)
    asked = BenchRequest(what=what, words=COMMAND.words, budget_s=60, seed=1)
    phases: list[str] = []
    acts = BenchAct(
        played,
        asked,
        measured,
        lambda name, share, reached: phases.append(name),
        BenchLimits(**limits),
        clock=lambda: played.at_s,
        sleep=played.sleep,
    )
    assert acts.run() is measured
    assert played.ended == 1
    assert phases
    return measured


def test_the_loader_is_read_first_and_then_the_blocks_are_walked_until_the_time_is_over():
    played = Played()

    measured = run(played)

    (task_s, task), (blocks_s, blocks), (_, last) = played.posted
    assert (task.task, task.arguments) == ("bench_data", {"seconds": 36, "parts": True, "sweep": True})
    assert task_s == pytest.approx(5.1, abs=0.3)
    assert blocks_s - task_s == pytest.approx(5, abs=0.3)
    assert [arm.name for arm in blocks.arms] == ["as-is", "control", "mock-loader"]
    assert blocks.steps == 5
    assert last.blocks == ()
    assert measured.duration_s == pytest.approx(5 + 5 + 24, abs=1)
    assert (measured.ended_by, measured.reason, measured.loaders) == ("done", None, 1)
    assert len(measured.steps.ns) > 200


def test_a_block_is_whole_epochs_where_these_are_short():
    drain = {"kind": "task", "part": "drain", "workers": 2, "epoch_batches": 3}
    played = Played(notes_of={"task": [LOADER, drain, END], "iterator": [], "block": []})

    measured = run(played)

    assert measured.plan is not None
    assert measured.plan.steps == 6


TRAIN = {"dataset": "Digits", "dataset_length": 512, "batch_size": 8, "num_workers": 2}


@pytest.mark.parametrize(
    ("iterators", "loaders"),
    [
        ([{"loader": number, **TRAIN} for number in (1, 2, 3, 4)], 1),
        ([{"loader": 1, **TRAIN}, {"loader": 2, **TRAIN, "dataset_length": 64}, {"loader": 3, **TRAIN}], 2),
        ([{"loader": 1, **TRAIN}, {"loader": 2, **TRAIN, "batch_size": 16}], 2),
        ([{"loader": 1}, {"loader": 2}, {"loader": 1}], 2),
    ],
    ids=["built anew", "and a validation", "of another batch size", "not described"],
)
def test_a_loader_that_is_built_anew_in_each_epoch_is_one(iterators, loaders):
    measured = run(Played(notes_of={"task": [LOADER, END], "iterator": iterators, "block": []}))

    assert measured.loaders == loaders


def test_the_compute_alone_starts_no_workers_anew():
    assert [str(lever) for lever in CACHED.levers] == ["mock-loader=across-epochs"]


def test_of_the_compute_the_loader_is_only_read():
    played = Played()

    run(played, "compute")

    assert played.posted[0][1].arguments == {"seconds": 9, "parts": False, "sweep": False}


FAILED = "the script ended with exit code 3 before its first training step; its standard input is empty here"
LONG = "the loader was still being measured after 168 s (2 workers); the rest was left out"


@pytest.mark.parametrize(
    ("changes", "ended_by", "reason"),
    [
        ({"ends_s": 2.0}, "never trained", "the script ended before its first training step"),
        ({"ends_s": 2.0, "exit_code": 3}, "never trained", FAILED),
        ({"first_s": 1e6}, "never trained", "no training step was seen in 300 s"),
        ({"ends_s": 4.0}, "script ended", "the script ended after 10 training steps"),
        ({"ends_s": 7.0}, "script ended", "the script ended after 40 training steps"),
        ({"ends_s": 15.0}, "script ended", "the script ended after 120 training steps"),
        ({"task_s": 1e6}, "stood still", LONG),
        ({"interrupted_s": 2.0}, "interrupted", "interrupted by Ctrl-C"),
        ({"interrupted_s": 12.0}, "interrupted", "interrupted by Ctrl-C"),
    ],
)
def test_whatever_ends_it_is_told_and_the_training_is_ended(changes, ended_by, reason):
    measured = run(Played(**changes))

    assert (measured.ended_by, sentence(measured.reason)) == (ended_by, reason)


class Killed(BaseException):
    """What a signal raises here."""


@pytest.mark.parametrize(("first_s", "is_kept"), [(3.0, False), (-3.0, True)])
@pytest.mark.parametrize("error", [KeyboardInterrupt, Killed])
def test_a_recording_is_kept_where_the_training_did_anything(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, error: type[BaseException], first_s: float, is_kept: bool
) -> None:
    def start() -> None:
        raise error

    played = Played(notes_of={}, first_s=first_s, start=start)
    monkeypatch.setattr("slowstep.workflow.bench.LiveExecutor", lambda *_, **__: played)
    asked = BenchRequest(what="data", words=(sys.executable,), out=str(tmp_path / "runs"), allow_writes=True, sandbox="none")

    with suppress(Killed):
        bench(asked, os.environ, say=lambda _: None, phase=lambda *_: None)

    assert played.ended == 1
    assert len(list(tmp_path.glob("runs/*-*"))) == is_kept


@pytest.mark.parametrize(
    ("notes", "reason"),
    [
        ([{**LOADER, "reason": "no torch DataLoader feeds the training"}, END], "no torch DataLoader feeds the training"),
        ([{**END, "state": "failed", "reason": "ValueError: no"}], "ValueError: no"),
        ([{**END, "state": "unknown"}], "this training reads none that slowstep bench can read alone"),
    ],
)
def test_a_loader_that_cannot_be_measured_ends_it(notes, reason):
    measured = run(Played(notes_of={"task": notes, "iterator": [], "block": []}))

    assert (measured.ended_by, measured.reason.code) == (BenchEndedBy.DONE, bench_act.UNMEASURABLE.code)
    assert sentence(measured.reason) == f"the loader cannot be measured: {reason}"
    assert measured.plan is None


def measured_of(real: dict[str, Any], **changes: Any) -> BenchMeasurements:
    """What a real run measured."""
    plan, steps = real["plan"], {name: np.array(values) for name, values in real["steps"].items()}
    arms = tuple(Arm(name=arm["name"]) for arm in plan["arms"])
    made = {
        "notes": real["notes"],
        "plan": Plan(seed=plan["seed"], steps=plan["steps"], arms=arms, blocks=tuple(plan["blocks"])),
        "steps": ExperimentSteps(
            **{**steps, "settling": steps["settling"].astype(bool), "input_ns": steps.get("input_ns", steps["ns"] // 2)}
        ),
        "lever_notes": real["lever_notes"],
        "block_notes": real["block_notes"],
        "loaders": real["loaders"],
        "updates": real["updates"],
        "duration_s": real["duration_s"],
        "place": real["place"],
    }
    return BenchMeasurements(Command(words=tuple(real["words"]), path="python", argv=("python",), stem="train"), **{**made, **changes})


def test_the_document_of_a_real_run_is_valid_and_says_what_it_found(real_bench: Callable[[str], dict[str, Any]]):
    report = make_report(measured_of(real_bench("case_study_data")), BenchRequest(what="data", words=("train.py",)))

    assert faults(report) == []
    assert report["bench"]["bound"]["kind"] == "blocked"
    assert report["bench"]["loader"]["page_cache"] == "warm"
    assert [point["workers"] for point in report["bench"]["sweep"]["points"]] == [0, 1, 2, 4]
    assert report["bench"]["whole"]["how"] == "max"
    assert report["run"]["next_command"].startswith("slowstep ")


def test_what_too_few_cores_make_has_an_interval(real_bench: Callable[[str], dict[str, Any]]):
    real = real_bench("case_study_data")
    next(note for note in real["notes"] if note["part"] == "loader")["cores"] = 0.5

    report = make_report(measured_of(real), BenchRequest(what="data", words=("train.py",)))

    assert faults(report) == []
    whole = report["bench"]["whole"]
    assert whole["cores_bound"]
    # CPU time per batch of its 14 looks is within a tenth.
    assert 0.8 * whole["predicted"]["value"] < whole["predicted"]["low"] < 0.999 * whole["predicted"]["value"]
    assert "predicted: all that the cores can do" in " ".join(render(report, width=200, color=False).split())


def test_the_document_of_a_training_without_workers_adds_up(real_bench: Callable[[str], dict[str, Any]]):
    report = make_report(measured_of(real_bench("case_study_compute")), BenchRequest(what="compute", words=("train.py",)))

    assert faults(report) == []
    whole = report["bench"]["whole"]
    assert whole["how"] == "sum"
    halves = 1 / report["bench"]["loader"]["samples_per_s"]["value"] + 1 / report["bench"]["compute"]["samples_per_s"]["value"]
    assert whole["predicted"]["value"] == pytest.approx(1 / halves)
    assert report["run"]["next_command"].startswith("slowstep prove --levers workers=")
    assert (report["bench"]["stages"], report["bench"]["sweep"], report["bench"]["bound"]) == ([], None, None)


def test_how_well_the_compute_is_known_is_no_reason_against_a_faster_loader(real_bench: Callable[[str], dict[str, Any]]):
    real = real_bench("case_study_data")
    steps = real["steps"]
    cached = [at for at, arm in enumerate(steps["arm"]) if arm == 2 and not steps["settling"][at]]
    for at in cached:
        steps["ns"][at] //= 4
    # One step in which the machine stood still: the compute may be anything.
    steps["ns"][cached[0]] += 1_500_000_000

    report = make_report(measured_of(real), BenchRequest(what="data", words=("train.py",)))

    assert report["bench"]["compute"]["samples_per_s"]["low"] is None
    assert report["bench"]["whole"]["binds"] == "both"
    assert report["run"]["next_command"].startswith("slowstep prove --levers workers=")
    # What it gains hangs on the compute all the same.
    assert report["bench"]["next_because"] == "with 4 workers the loader is faster"


@pytest.mark.parametrize(("faster", "is_advised"), [(8, True), (1, False)])
def test_of_a_sum_the_compute_must_be_known_where_it_is_most_of_it(
    real_bench: Callable[[str], dict[str, Any]], faster: int, is_advised: bool
):
    real = real_bench("case_study_compute")
    steps = real["steps"]
    cached = [at for at, arm in enumerate(steps["arm"]) if arm == 2 and not steps["settling"][at]]
    for at in cached:
        steps["ns"][at] //= faster
    # One step in which the machine stood still: the compute may be anything.
    steps["ns"][cached[0]] += 1_000_000_000

    report = make_report(measured_of(real), BenchRequest(what="compute", words=("train.py",)))

    rates = report["bench"]["compute"]["samples_per_s"], report["bench"]["loader"]["samples_per_s"]
    assert (rates[0]["value"] > rates[1]["value"]) == is_advised
    assert (report["run"]["next_command"].startswith("slowstep prove --levers workers=")) == is_advised


def test_a_loader_without_workers_carries_no_batch(real_bench: Callable[[str], dict[str, Any]]):
    real = real_bench("case_study_data")
    with_workers = make_report(measured_of(real), BenchRequest(what="data", words=("train.py",)))
    # Its own number is that of its first reading.
    first = next(note for note in real["notes"] if note["part"] == "drain" and note["workers"] == 0)
    real["notes"].insert(next(at for at, note in enumerate(real["notes"]) if note["part"] == "drain"), first)

    report = make_report(measured_of(real), BenchRequest(what="data", words=("train.py",)))

    assert faults(report) == []
    assert (report["bench"]["loader"]["workers"], report["bench"]["whole"]["how"]) == (0, "sum")
    assert "transport" in [row["kind"] for row in with_workers["bench"]["stages"]]
    assert "transport" not in [row["kind"] for row in report["bench"]["stages"]]
    assert report["run"]["next_command"].startswith("slowstep prove --levers workers=4 ")


@pytest.mark.parametrize(("silent", "is_known"), [(1, True), (1000, False)])
def test_a_block_of_unknown_samples_is_left_out_and_said(real_bench: Callable[[str], dict[str, Any]], silent: int, is_known: bool):
    real = real_bench("case_study_data")
    steps = real["steps"]
    cached = [at for at, arm in enumerate(steps["arm"]) if arm == 2 and not steps["settling"][at]]
    for at in cached[:silent]:
        steps["samples"][at] = -1

    report = make_report(measured_of(real), BenchRequest(what="data", words=("train.py",)))

    assert report["bench"]["compute"]["as_is_samples_per_s"] is not None
    assert (report["bench"]["compute"]["samples_per_s"] is not None) is is_known
    assert (report["bench"]["compute"]["cpu_ms_per_sample"] is not None) is is_known
    assert report["bench"]["compute"]["reason"] == (None if is_known else "the number of samples in a step is unknown")
    assert any("left out of compute alone: 1 block of steps in which" in note for note in report["run"]["notes"]) is is_known
    assert (report["run"]["next_command"].startswith("slowstep run ")) is not is_known


@pytest.mark.parametrize("what", few(["data", "compute"], every=4))
@pytest.mark.parametrize(("updates", "is_known"), [(2, True), (6, False)])
def test_a_batch_that_is_trained_on_several_times_is_counted_once(
    real_bench: Callable[[str], dict[str, Any]], what: Any, updates: int, is_known: bool
):
    real = real_bench("case_study_data")
    steps = real["steps"]
    plain = make_report(measured_of(real), BenchRequest(what=what, words=("train.py",)))
    asks = [at % updates == 0 for at in range(len(steps["ns"]))]
    steps["samples"] = [samples if asked else -1 for samples, asked in zip(steps["samples"], asks, strict=True)]
    steps["input_ns"] = [int(asked) for asked in asks]

    report = make_report(measured_of(real), BenchRequest(what=what, words=("train.py",)))

    assert faults(report) == []
    if is_known:
        assert report["bench"]["compute"]["samples_per_s"]["value"] == pytest.approx(
            plain["bench"]["compute"]["samples_per_s"]["value"] / 2, rel=0.1
        )
        assert report["bench"]["compute"]["cpu_ms_per_sample"] == pytest.approx(plain["bench"]["compute"]["cpu_ms_per_sample"] * 2, rel=0.1)
        assert report["bench"]["whole"] is not None
    else:
        assert report["bench"]["compute"]["reason"] == "each batch is trained on in several steps, and no block of steps holds a whole one"
        assert report["run"]["next_command"].startswith("slowstep run train.py")


@pytest.mark.parametrize("kept", [0, 1, 2, 3, 5])
def test_the_document_of_a_partial_run_is_valid(real_bench: Callable[[str], dict[str, Any]], kept: int):
    real = real_bench("case_study_data")
    measured = measured_of(
        real, notes=real["notes"][:kept], plan=None, steps=no_steps(), ended_by=BenchEndedBy.INTERRUPTED, reason=bench_act.BY_CTRL_C()
    )

    report = make_report(measured, BenchRequest(what="data", words=("train.py",)))

    assert faults(report) == []
    assert report["bench"]["whole"] is None
    assert (report["bench"]["loader"] is None) == (kept < 3)
    assert report["run"]["next_command"] == "slowstep bench data train.py --variant too-few-workers --steps 500"
    assert report["bench"]["next_because"] == "the measurement was interrupted"


@pytest.mark.parametrize("what", ["data", "compute"])
def test_of_too_few_steps_for_the_compute_the_next_command_has_more_time(real_bench: Callable[[str], dict[str, Any]], what: Any):
    measured = measured_of(real_bench("case_study_data"), steps=no_steps(), block_notes=[], lever_notes=[])

    report = make_report(measured, BenchRequest(what=what, words=("train.py",), budget_s=25.0))

    assert report["bench"]["compute"]["reason"] == "too few steps in the time; give it a larger --budget"
    assert report["run"]["next_command"].startswith(f"slowstep bench {what} --budget 75s train.py")


def test_a_training_without_a_loader_is_sent_to_the_command_that_needs_none():
    played = Played(notes_of={"task": [{**LOADER, "reason": "no torch DataLoader feeds the training"}, END], "iterator": [], "block": []})
    asked = BenchRequest(what="compute", words=COMMAND.words)

    report = make_report(run(played, what="compute"), asked)

    assert report["run"]["next_command"] == "slowstep run train.py --lr 1"
    because = report["bench"]["next_because"]
    assert "measures a torch DataLoader or a tf.data pipeline alone, and this training has none that it can read" in because


@pytest.mark.parametrize(
    ("changes", "code", "following"),
    [
        ({"ends_s": 2.0}, 3, None),
        ({"ends_s": 4.0}, 2, "slowstep run train.py --lr 1"),
        ({"ends_s": 2.0, "exit_code": 3}, 1, "slowstep bench data train.py --lr 1"),
        ({"ends_s": 4.0, "exit_code": 3}, 1, "slowstep bench data train.py --lr 1"),
        ({"task_s": 1e6}, 2, "slowstep run train.py --lr 1"),
    ],
)
def test_of_a_script_that_ended_early_there_is_a_document_too(changes: dict[str, Any], code: int, following: str | None):
    measured = run(Played(notes_of={"task": [END], "iterator": [], "block": []}, **changes))

    report = make_report(measured, BenchRequest(what="data", words=COMMAND.words))

    assert faults(report) == []
    assert measured.code == code
    assert report["bench"]["reason"] == sentence(measured.reason)
    assert report["run"].get("next_command") == following
    assert ("own error" in report["bench"]["next_because"]) == (code == 1)


@pytest.mark.parametrize(("changes", "startup_s"), [({"first_s": 2.5}, 2.5), ({"ends_s": 2.0}, None)])
def test_how_long_the_script_took_to_begin_is_told_apart(changes: dict[str, Any], startup_s: float | None):
    measured = run(Played(**changes))

    assert measured.startup_s == (None if startup_s is None else pytest.approx(startup_s, abs=0.2))


def test_of_two_loaders_the_one_that_was_measured_is_told(real_bench: Callable[[str], dict[str, Any]]):
    report = make_report(measured_of(real_bench("case_study_data"), loaders=2), BenchRequest(what="data", words=("train.py",)))

    assert (
        "the script reads 2 loaders: the one that feeds the training was measured, "
        "that of data set ShapesDataset of 293 samples, in batches of 16"
    ) in report["run"]["notes"]


def test_what_is_received_is_the_loaders_only_where_it_uses_the_network(real_bench: Callable[[str], dict[str, Any]]):
    real = real_bench("case_study_data")
    slices = [each for note in real["notes"] for each in note.get("slices", ())]
    for each in slices:
        each["received_bytes"] = each["period_ns"] // 100

    def loader() -> Any:
        return make_report(measured_of(real), BenchRequest(what="data", words=("train.py",)))["bench"]["loader"]

    assert loader()["received_mb_per_s"] is None
    assert loader()["read_mb_per_s"]["value"] == pytest.approx(6.46, abs=0.01)
    assert loader()["storage_mb_per_s"]["value"] == 0
    for each in slices:
        each["connections"] = 1
    assert loader()["received_mb_per_s"]["value"] == pytest.approx(10.0)


@pytest.mark.parametrize(
    ("before", "first", "later", "said"),
    few(
        [
            ((1000, 900), 0.03, 0.0, "90 % of what its workers had read before came from storage"),
            ((1000, 900), 0.9, 0.9, None),
            ((1000, 20), 0.0, 0.0, None),
            ((None, None), 0.0, 0.0, None),
            ((None, None), 0.8, 0.0, "80 % of its bytes came from storage in its first reading, 0 % in the last"),
        ],
        every=2,
    ),
    ids=["cold at the start", "cold all the time", "warm all the time", "not known", "warmed meanwhile"],
)
def test_files_that_were_colder_at_another_time_are_told(
    real_bench: Callable[[str], dict[str, Any]], before: tuple[int | None, int | None], first: float, later: float, said: str | None
):
    real = real_bench("case_study_data")
    real["notes"][0] |= dict(zip(("read_before_bytes", "storage_before_bytes"), before, strict=True))
    for number, drain in enumerate(note for note in real["notes"] if note["part"] == "drain"):
        for each in drain["slices"]:
            each["storage_bytes"] = int(each["read_bytes"] * (later if number else first))

    report = make_report(measured_of(real), BenchRequest(what="data", words=("train.py",)))

    found = [note for note in report["run"]["notes"] if "storage" in note]
    assert (len(found) == 1 and said in found[0]) if said else found == []


def test_how_long_it_takes_at_most_is_said_before_it_begins():
    said = how_long(BenchRequest(what="data", words=("train.py",), budget_s=20), BenchLimits(), 440.0)

    assert said == (
        "Takes about 20 s once training starts, and before that as long as the script takes to begin; longer where batches are slow "
        "(stops after 7.3 min at the latest)"
    )


def test_a_lever_that_failed_is_told(real_bench: Callable[[str], dict[str, Any]]):
    note = {"kind": "lever", "arm": 2, "name": "mock-loader", "state": "not applicable", "reason": "batches cannot be copied"}
    measured = measured_of(real_bench("case_study_data"), lever_notes=[note], steps=no_steps())

    report = make_report(measured, BenchRequest(what="data", words=("train.py",)))

    assert faults(report) == []
    assert report["bench"]["compute"]["reason"] == "batches cannot be copied"
    assert report["run"]["notes"][-1] == "mock-loader: not applicable, because batches cannot be copied"
    assert report["run"]["next_command"].startswith("slowstep run")


@pytest.mark.parametrize(
    ("facts", "device", "expected"),
    [
        ({"asynchronous": True}, "cpu", (True, True)),
        ({"asynchronous": True}, "cuda", (True, False)),
        ({"asynchronous": True}, None, (True, False)),
        ({}, "cpu", (False, False)),
    ],
)
def test_blocks_are_planned_for_what_computes(monkeypatch: pytest.MonkeyPatch, facts: dict[str, Any], device: str | None, expected: Any):
    asked: list[dict[str, Any]] = []
    monkeypatch.setattr(bench_act, "make_plan", lambda *words, **told: asked.append(told) or make_plan(*words, **told))
    played = Played()
    played.notes_of |= {"facts": [facts], "optimizer": [{"device": device}]}

    run(played)

    assert [(told["is_asynchronous"], told["shares_cores"]) for told in asked] == [expected]


@pytest.mark.parametrize(
    ("loader", "is_said"), few([({"stream": True}, True), ({"stream": True, "divides": True}, False), ({}, False)], every=2)
)
def test_of_a_stream_that_divides_itself_nobody_is_warned(
    real_bench: Callable[[str], dict[str, Any]], loader: dict[str, Any], is_said: bool
):
    real = real_bench("case_study_data")
    for note in real["notes"]:
        note |= loader if note["part"] == "loader" else {}

    report = make_report(measured_of(real), BenchRequest(what="data", words=("train.py",)))

    assert any("reads the whole stream" in note for note in report["run"]["notes"]) is is_said


@pytest.mark.parametrize("stream", [False, True])
def test_the_start_of_workers_is_in_the_loaders_half_of_a_short_epoch(real_bench: Callable[[str], dict[str, Any]], stream: bool):
    """A real run with epochs of 20 batches, that wait a second for their first one, put into its readings."""
    real = real_bench("case_study_data")
    edge = {"start_ns": 10**9, "fill_ns": 0, "end_ns": 10**7, "filled": 1, "samples": 16, "seen": 16, "size_bytes": 10**6, "batches": 20}
    told = {"drain": {"edges": [edge] * 6, "epoch_batches": 20}, "loader": {"stream": stream}}
    for note in real["notes"]:
        note |= told.get(note["part"], {})

    report = make_report(measured_of(real), BenchRequest(what="data", words=("train.py",)))

    assert faults(report) == []
    assert report["bench"]["loader"]["epoch_batches"] == 20
    assert 0.2 < report["bench"]["loader"]["starting"] < 0.9
    starting_ms = report["bench"]["whole"]["starting_ms_per_sample"]
    assert starting_ms == (0 if stream else pytest.approx(1010 / 320, rel=0.1))
    assert any("of a stream" in note for note in report["run"]["notes"]) is stream
    assert ("an epoch waits for its first batch" in report["bench"]["whole"]["sentence"]) is not stream


LEFT = {"kind": "lever", "arm": 2, "name": "mock-loader", "state": "not undone", "reason": "ValueError: gone"}


@pytest.mark.parametrize(
    ("changes", "code"),
    [
        ({}, 0),
        ({"ended_by": "interrupted"}, 130),
        ({"lever_notes": [LEFT]}, 4),
        ({"notes": []}, 2),
        ({"notes": [], "ending": Ending(exit_code=3, killed=False, left=(), output="")}, 1),
    ],
)
def test_how_it_ended_is_the_exit_code(real_bench: Callable[[str], dict[str, Any]], changes: dict[str, Any], code: int):
    assert measured_of(real_bench("case_study_data"), **changes).code == code


def test_the_schema_refuses_what_it_does_not_know(real_bench: Callable[[str], dict[str, Any]]):
    report: dict[str, Any] = dict(make_report(measured_of(real_bench("case_study_data")), BenchRequest(what="data", words=("train.py",))))

    assert faults(report | {"more": 1})
    bench = report["bench"]
    outside = bench["loader"]["samples_per_s"] | {"high": 0.0}
    for wrong in ({"half": "both"}, {"more": 1}, {"loader": bench["loader"] | {"samples_per_s": outside}}):
        assert faults(report | {"bench": bench | wrong})
    assert any("shares" in fault for fault in faults(report | {"bench": bench | {"stages": bench["stages"][1:]}}))


def test_of_several_loaders_in_each_step_the_halves_say_nothing_where_they_do_not_explain_it(real_bench: Callable[[str], dict[str, Any]]):
    real = real_bench("case_study_compute")
    notes = [{**note, "read_together": 2} if note["part"] == "loader" else note for note in real["notes"]]
    slower = {**real["steps"], "ns": [3 * ns if arm < 2 else ns for arm, ns in zip(real["steps"]["arm"], real["steps"]["ns"], strict=True)]}

    explained = make_report(measured_of({**real, "notes": notes}), BenchRequest(what="compute", words=("train.py",)))
    unexplained = make_report(measured_of({**real, "notes": notes, "steps": slower}), BenchRequest(what="compute", words=("train.py",)))

    assert explained["bench"]["whole"] is not None
    assert unexplained["bench"]["whole"] is None
    assert any("in neither half" in note for note in unexplained["run"]["notes"])
    assert unexplained["run"]["next_command"].startswith("slowstep prove --levers mock-loader")
