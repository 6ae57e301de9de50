"""A whole act of `slowstep prove`, on a training that takes no time."""

from __future__ import annotations

import io
import re
import zlib
from pathlib import Path
from typing import Any

import pytest

from made_experiments import OVERLAY
from made_recordings import Training, make_recording
from slowstep.cli.terminated import Terminated
from slowstep.document.validity import validate
from slowstep.errors import CommandNotStarted, NoSandbox
from slowstep.prove.experiment import SandboxPlace, load
from slowstep.prove.lead_in import LeadLimits
from slowstep.prove.numerics_check import Checked
from slowstep.prove.stats.repeated import AllRepeated, RepeatedRuns
from slowstep.reason_words import sentence
from slowstep.record.experiment.implementations import known_levers
from slowstep.record.experiment.lever import Lever
from slowstep.record.experiment.lever_text import parse_spec
from slowstep.record.launching.folder import forget_aside, put_back, set_aside
from slowstep.record.writing.format import LATER_STARTS_FOLDER
from slowstep.report.terminal import show
from slowstep.workflow import prove_act, prove_starts
from slowstep.workflow.diagnose_recordings import diagnose_recording
from slowstep.workflow.fresh_start import FreshStart
from slowstep.workflow.prove_act import ProveAct
from slowstep.workflow.prove_ended import Ended
from slowstep.workflow.prove_request import ProveRequest
from slowstep.workflow.prove_starts import FAILED, HAD_TO_END, IN_PLACE, NO_ROUND, NOT_STARTED, NOT_WARM, OWN_LOSS, TOO_SLOW
from slowstep.workflow.usual import longer_budget_s
from staged_training import Stage, StagedTraining

pytestmark = pytest.mark.usefixtures("measured_once")
SLOW_CALLBACK = Training(steps=400, workers=2, after_ms=15)
STUB = "stub=__main__:save_mask_images"
LEVERS = known_levers() | {
    name: Lever(name=name, takes=takes, every=True, prepare=lambda training, spec: pytest.fail("no lever is made ready here"))
    for name, takes in (("stub", "MODULE:FUNCTION"), ("checkpoint-off", None))
}


class Told:
    """What was said, and in which phases it was."""

    def __init__(self) -> None:
        self.lines: list[str] = []
        self.phases: list[str] = []

    def phase(self, name: str, share: float, reached: str) -> None:
        assert 0.0 <= share <= 1.0
        assert reached
        self.phases += [name] if name not in self.phases else []


def asked(**more: Any) -> ProveRequest:
    return ProveRequest(words=("train.py",), **({"precision": 0.05, "budget_s": 30.0, "seed": 1} | more))


def acted(
    folder: Path, stage: Stage, *levers: str, training: Training | None = SLOW_CALLBACK, rereads: bool = False, **more: Any
) -> tuple[Ended, StagedTraining, Told]:
    staged, told = StagedTraining(folder if training is None else make_recording(folder, training), stage), Told()
    wanted = {"levers": tuple(map(parse_spec, levers)), "seed": 7}
    act = ProveAct(
        staged,
        asked(**(wanted | more)),
        levers=LEVERS,
        place=OVERLAY,
        say=told.lines.append,
        phase=told.phase,
        limits=LeadLimits(start_s=20.0),
        clock=staged.clock,
        sleep=staged.sleep,
    )
    ended = act.run()
    assert staged.ends >= 1
    if ended.report is not None:
        validate(ended.report)
    if rereads:
        assert diagnose_recording(folder) == ended.report
    return ended, staged, told


def test_what_the_finding_names_is_tried_and_proved(tmp_path):
    ended, staged, told = acted(tmp_path / "r", Stage(gains={2: 1.6}), rereads=True)

    assert (ended.ended_by, ended.exit_code, ended.code) == ("precision", None, 0)
    assert [arm.name for arm in staged.plan.arms] == ["as-is", "control", STUB]
    assert staged.plan.seed == 7
    assert [(row["lever"], row["verdict"]) for row in ended.report["experiments"]] == [(None, None), (STUB, "proved")]
    assert told.phases == ["starting", "recording", "testing"]
    (line,) = told.lines
    assert f"{STUB} in blocks of {staged.plan.steps} steps (seed 7)" in line
    # Eight rounds of three arms, each of some five steps of 30 to 40 ms and two that settle; the budget is 30 s.
    assert re.findall(r"about (\d+) s,.* (\d+) s$", line) == [("5", "30")]


def test_a_budget_that_is_too_short_is_said_with_the_one_that_is_next(tmp_path):
    ended, _, told = acted(tmp_path / "r", Stage(gains={}), budget_s=0.5)

    said = [line for line in told.lines if "too short" in line]
    needed_s = ended.report["run"]["experiment"]["needed_s"]
    assert needed_s > 0.5
    assert [re.findall(r"--budget (\d+)s,", line) for line in said] == [[f"{longer_budget_s(0.5, needed_s):g}"]]


def test_levers_that_were_asked_for_are_tried_instead(tmp_path):
    ended, staged, _ = acted(tmp_path / "r", Stage(gains={2: 1.0}), "mock-loader")

    assert [arm.name for arm in staged.plan.arms] == ["as-is", "control", "mock-loader"]
    assert [(row["lever"], row["rule"], row["state"]) for row in ended.report["experiments"][1:]] == [
        ("mock-loader", None, "measured"),
        (None, "slow-callback", "untried"),
    ]


def test_nothing_is_tried_where_no_finding_names_a_lever(tmp_path):
    ended, staged, _ = acted(tmp_path / "r", Stage(), training=Training(steps=400, workers=2), rereads=True)

    assert (ended.ended_by, ended.code, staged.plan) == ("nothing to try", 0, None)
    assert ended.report["experiments"] == []
    assert ended.report["run"]["next_command"] == "slowstep prove --all train.py"


@pytest.mark.parametrize(("exit_code", "code"), [(0, 3), (7, 1)])
def test_a_script_that_ends_in_the_lead_in_gives_a_partial_answer(tmp_path, exit_code, code):
    ended, staged, _ = acted(tmp_path / "r", Stage(ends_at_s=4.0, exit_code=exit_code))

    assert (ended.ended_by, ended.exit_code, ended.code, staged.plan) == ("script ended", exit_code, code, None)
    assert [(row["lever"], row["state"]) for row in ended.report["experiments"]] == [(STUB, "unmeasured")]
    assert ended.output == ("the last words" if exit_code else "")


@pytest.mark.parametrize(("gain", "verdict"), [(1.6, "proved"), (1.03, "cannot distinguish")])
def test_a_script_that_ends_before_the_plan_does_says_what_was_reached(tmp_path, gain, verdict):
    ended, _, _ = acted(tmp_path / "r", Stage(gains={2: gain}, rounds=6, ends_at_s=9.0))

    assert (ended.ended_by, ended.exit_code, ended.code) == ("script ended", 0, 0)
    row = ended.report["experiments"][1]
    assert (row["rounds"], row["verdict"]) == (6, verdict)
    assert ended.report["run"]["experiment"]["reached"] is not None


@pytest.mark.parametrize(("at_s", "tried"), [(1.0, False), (4.0, False), (9.0, True)])
def test_ctrl_c_ends_the_training_and_shows_what_there_is(tmp_path, at_s, tried):
    ended, staged, _ = acted(tmp_path / "r", Stage(gains={2: 1.6}, rounds=5, interrupt_at_s=at_s), rereads=True)

    assert (ended.ended_by, ended.code) == ("interrupted", 130)
    assert (staged.plan is not None) == tried
    assert [row["state"] for row in ended.report["experiments"]] == (["measured", "measured"] if tried else [])
    assert tried or ended.report["run"]["next_command"] == "slowstep prove --budget 30s train.py"


def test_ctrl_c_while_the_report_is_made_says_where_it_is_had_later(tmp_path, monkeypatch):
    folder = tmp_path / "my runs"
    reports = iter(range(2))

    def diagnose(place):
        # The first is that of the lead-in.
        if next(reports):
            raise KeyboardInterrupt
        return diagnose_recording(place)

    monkeypatch.setattr("slowstep.workflow.prove_act.diagnose_recording", diagnose)
    monkeypatch.chdir(tmp_path)
    ended, _, _ = acted(folder, Stage(gains={2: 1.6}))

    assert (ended.report, ended.code, ended.left_nothing) == (None, 130, False)
    assert ended.reason == "the report was interrupted. The recording is kept: slowstep analyze 'my runs'"
    report = diagnose_recording(folder)
    assert (report["run"]["experiment"]["ended_by"], report["experiments"][1]["verdict"]) == ("precision", "proved")


def test_ctrl_c_while_the_command_is_started_leaves_nothing(tmp_path):
    class Interrupted(StagedTraining):
        def start(self) -> None:
            raise KeyboardInterrupt

    staged, wanted = Interrupted(tmp_path, Stage()), asked(seed=1)
    act = ProveAct(staged, wanted, levers=LEVERS, place=OVERLAY, say=print, phase=lambda *_: None, clock=staged.clock, sleep=staged.sleep)

    ended = act.run()

    assert (ended.report, ended.code, ended.left_nothing) == (None, 130, True)
    assert ended.reason == "interrupted before enough of the training was seen for a report"


def test_ctrl_c_before_it_trains_gets_no_advice_on_trainings_that_are_not_seen(tmp_path):
    folder = make_recording(tmp_path / "r", Training(steps=3, workers=0))
    for file in folder.glob("100-1.*"):
        file.unlink()
    ended, _, _ = acted(folder, Stage(trains_at_s=None, interrupt_at_s=3.0), training=None)

    assert (ended.report, ended.code, ended.left_nothing) == (None, 130, True)
    assert ended.reason == "interrupted before enough of the training was seen for a report"


@pytest.mark.parametrize("interrupted", [False, True])
def test_what_is_found_of_the_losses_afterwards_stands_in_the_report_and_in_the_recording(tmp_path, interrupted):
    folder = make_recording(tmp_path / "r", SLOW_CALLBACK)
    staged, seen = StagedTraining(folder, Stage(gains={2: 1.6}, made=({"kind": "made", "calls": [], "loader_place": 7},))), []

    def check(report: dict[str, Any], place: int | None) -> Checked:
        assert staged.ends
        assert place == 7
        seen.append([row["lever"] for row in report["experiments"]])
        return Checked(by_lever={STUB: {"says": "the losses are equal to the last bit"}}, interrupted=interrupted)

    wanted = asked(seed=1)
    ended = ProveAct(
        staged, wanted, levers=LEVERS, place=OVERLAY, say=seen.append, phase=lambda *_: None, check=check,
        clock=staged.clock, sleep=staged.sleep,
    ).run()  # fmt: skip

    assert seen[-1] == [None, STUB]
    assert ended.report["experiments"][1]["numerics"] == {"says": "the losses are equal to the last bit"}
    assert ended.code == (130 if interrupted else 0)
    assert diagnose_recording(folder) == ended.report


@pytest.mark.parametrize("interrupted", [False, True])
def test_what_the_training_refused_is_measured_by_whole_runs_once_it_is_over(tmp_path, interrupted):
    refused = {"arm": 2, "name": STUB, "state": "not applicable", "reason": "read once only", "rerun": 1}
    folder = make_recording(tmp_path / "r", SLOW_CALLBACK)
    staged, seen = StagedTraining(folder, Stage(notes=(refused,))), []

    def rerun(report: dict[str, Any], notes: Any, seed: int) -> AllRepeated:
        assert staged.ends
        seen.append((seed, [note["state"] for note in notes if note.get("rerun")], report["experiments"][-1]["state"]))
        return AllRepeated(levers={STUB: RepeatedRuns(state="measured", ratios=(2.0, 2.1, 2.0, 2.1))}, interrupted=interrupted)

    wanted = asked(seed=9)
    ended = ProveAct(
        staged, wanted, levers=LEVERS, place=OVERLAY, say=lambda line: None, phase=lambda *_: None, rerun=rerun,
        check=lambda report, place: pytest.fail("after Ctrl-C nothing more is tried") if interrupted else Checked(by_lever={}),
        clock=staged.clock, sleep=staged.sleep,
    ).run()  # fmt: skip

    assert seen == [(9, ["not applicable"], "not applicable")]
    assert [(row["how"], row["verdict"]) for row in ended.report["experiments"] if row["lever"] == STUB] == [("re-runs", "proved")]
    assert (ended.code, ended.ended_by == "interrupted") == ((130, True) if interrupted else (0, False))
    assert diagnose_recording(folder) == ended.report


CRASHED = "Traceback (most recent call last):\nIndexError: pop from empty list"
CHECKPOINTS = "checkpoint-off"


def acted_again(folder: Path, *stages: Stage, **more: Any) -> tuple[Ended, list[StagedTraining], Told]:
    """An act on trainings of which each is started once the one before it has ended."""
    told, staged = Told(), [StagedTraining(make_recording(folder, SLOW_CALLBACK), stages[0])]

    def start() -> StagedTraining:
        set_aside(str(folder))
        if len(staged) == len(stages):
            raise NoSandbox("no room for a sandbox")
        staged.append(StagedTraining(make_recording(folder, SLOW_CALLBACK), stages[len(staged)]))
        staged[-1].now_s += staged[0].now_s - staged[-1].began_s
        staged[-1].began_s = staged[0].now_s
        return staged[-1]

    levers = (parse_spec(STUB), parse_spec(CHECKPOINTS))
    wanted = {"levers": levers, "seed": 7} | more
    ended = ProveAct(
        staged[0], asked(**wanted), levers=LEVERS, place=OVERLAY, say=told.lines.append, phase=told.phase, limits=LeadLimits(start_s=20.0),
        without_fault=FreshStart(start=start, back=lambda: put_back(str(folder)), forget=lambda: forget_aside(str(folder))),
        clock=lambda: staged[-1].clock(), sleep=lambda seconds: staged[-1].sleep(seconds),
    ).run()  # fmt: skip
    assert all(each.ends for each in staged)
    validate(ended.report)
    assert diagnose_recording(folder) == ended.report
    return ended, staged, told


def dying(arm: int, **more: Any) -> Stage:
    """A script that dies soon after the plan was taken up, with this arm on."""
    return Stage(**({"rounds": 1, "ends_at_s": 9.0, "exit_code": 1, "output": CRASHED, "arm_at_end": arm} | more))


def test_a_script_that_cannot_go_on_with_a_lever_is_started_again_without_it(tmp_path):
    ended, staged, told = acted_again(tmp_path / "r", dying(arm=2), Stage(gains={2: 1.4}))

    assert [arm.name for arm in staged[1].plan.arms] == ["as-is", "control", CHECKPOINTS]
    rows = {row["lever"]: row for row in ended.report["experiments"] if row["state"] != "untried"}
    assert rows[CHECKPOINTS]["verdict"] == "proved"
    assert (rows[STUB]["state"], rows[STUB]["verdict"]) == ("failed", None)
    assert rows[STUB]["reason"] == "the script ended with exit code 1 while it was on (IndexError: pop from empty list)"
    assert (ended.ended_by, ended.exit_code, ended.code, ended.output) == ("precision", None, 0, "")
    assert any(line.startswith("Starts again without it, for the remaining 2") for line in told.lines)
    assert "before_next" not in ended.report["run"]


def test_what_the_first_start_has_shown_is_kept_where_a_second_one_comes_to_nothing(tmp_path):
    for name, second in (("none", ()), ("never trains", (Stage(ends_at_s=0.5),))):
        ended, staged, told = acted_again(tmp_path / name, dying(arm=2, rounds=5, gains={2: 1.6}), *second, precision=1e-6)

        rows = {row["lever"]: row for row in ended.report["experiments"]}
        assert (len(staged), ended.ended_by, ended.code) == (1 + len(second), "a lever", 0)
        assert (rows[STUB]["state"], rows[CHECKPOINTS]["state"]) == ("failed", "measured")
        assert not second or told.lines
        assert not (tmp_path / name / "set-aside").exists()


@pytest.mark.parametrize("arm", [3, 0])
def test_of_a_script_that_raises_where_it_sees_what_a_lever_did_that_lever_is_at_fault(tmp_path, arm):
    notes = spoiling(2, STUB)[:1]
    ended, _, _ = acted_again(tmp_path / "r", dying(arm=arm, notes=notes, arms_before=(2,)), levers=(parse_spec(STUB),))

    (row,) = [row for row in ended.report["experiments"] if row["lever"] == STUB]
    assert (row["state"], row["verdict"]) == ("failed", "loss not finite")


def test_a_script_that_ends_without_a_lever_on_has_a_fault_of_its_own(tmp_path):
    ended, staged, _ = acted_again(tmp_path / "r", dying(arm=1))

    assert (len(staged), ended.ended_by, ended.code) == (1, "script ended", 1)
    assert ended.report["run"]["before_next"].startswith("fix the script's own error")


def test_nothing_is_started_again_for_levers_of_which_enough_is_known(tmp_path):
    ended, staged, _ = acted_again(tmp_path / "r", dying(arm=2, rounds=9, gains={2: 1.6, 3: 1.5}), precision=1e-6)

    rows = {row["lever"]: row for row in ended.report["experiments"]}
    assert len(staged) == 1
    assert (rows[STUB]["state"], rows[STUB]["verdict"], rows[CHECKPOINTS]["verdict"]) == ("failed", None, "proved")
    assert ended.report["run"]["next_command"] == "slowstep explain checkpoint-off"
    assert (ended.ended_by, ended.exit_code, ended.code) == ("a lever", 1, 0)


def test_without_time_for_a_second_start_the_other_levers_are_next(tmp_path):
    ended, staged, _ = acted_again(tmp_path / "r", dying(arm=2), budget_s=2.0)

    assert (len(staged), ended.ended_by) == (1, "a lever")
    assert ended.report["run"]["next_command"] == f"slowstep prove --levers {CHECKPOINTS} --budget 60s train.py"
    assert "before_next" not in ended.report["run"]


def spoiling(arm: int, lever: str) -> tuple[dict[str, object], ...]:
    """What the training says of a lever that has spoilt it for good in its first block."""
    said = {"kind": "lever", "arm": arm, "name": lever}
    return (
        {**said, "state": "failed", "reason": "the loss was not finite while it was on (step 80)", "not_finite": 80},
        {**said, "state": "spoilt", "block": 2},
    )


def test_a_training_that_a_lever_has_spoilt_is_started_again_without_it(tmp_path):
    ended, staged, _ = acted_again(tmp_path / "r", Stage(rounds=1, notes=spoiling(2, STUB), is_done=True), Stage(gains={2: 1.4}))

    rows = {row["lever"]: row for row in ended.report["experiments"] if row["state"] != "untried"}
    assert len(staged) == 2
    assert (rows[STUB]["state"], rows[STUB]["verdict"]) == ("failed", "loss not finite")
    assert rows[STUB]["reason"].endswith("(step 80), and the training did not come back from it")
    assert rows[CHECKPOINTS]["verdict"] == "proved"
    assert (ended.ended_by, ended.code) == ("precision", 0)


def test_alone_it_is_not_proved_and_what_comes_after_it_does_not_count(tmp_path):
    staged = Stage(rounds=10, gains={2: 1.6}, notes=spoiling(2, STUB), is_done=True)
    ended, _, _ = acted_again(tmp_path / "r", staged, levers=(parse_spec(STUB),))

    (row,) = [row for row in ended.report["experiments"] if row["lever"] == STUB]
    assert (row["state"], row["verdict"], row["gain"], row["rounds"]) == ("failed", "loss not finite", None, 0)
    assert ended.ended_by == "loss not finite"
    assert ended.report["findings"][0]["gain"]["measured"] is None
    assert "explain" not in ended.report["run"]["next_command"]


def test_a_size_for_which_the_memory_is_too_small_is_a_data_point_by_itself(tmp_path):
    lack = "Traceback (most recent call last):\ntorch.OutOfMemoryError: CUDA out of memory."
    ended, staged, _ = acted_again(tmp_path / "r", dying(arm=2, output=lack), levers=(parse_spec("batch-size=4096"),))

    (row,) = [row for row in ended.report["experiments"] if row["lever"] == "batch-size=4096"]
    assert (row["state"], row["reason"]) == (
        "failed",
        "out of memory while it was on (torch.OutOfMemoryError: CUDA out of memory.)",
    )
    assert (len(staged), ended.code) == (1, 0)


def test_a_control_that_gains_is_not_trusted(tmp_path):
    ended, _, _ = acted(tmp_path / "r", Stage(gains={1: 1.3, 2: 1.6}))

    assert ended.code == 4


def test_a_lever_that_could_not_be_undone_is_not_trusted(tmp_path):
    note = {"kind": "lever", "arm": 2, "name": STUB, "state": "not undone", "reason": "ValueError: gone"}
    ended, _, _ = acted(tmp_path / "r", Stage(gains={2: 1.6}, notes=(note,)))

    assert ended.code == 4


@pytest.mark.parametrize(("since", "counts"), [(0.1, 0.1), (None, 0.4)])
def test_others_are_those_that_take_of_the_machine_while_levers_are_tried(tmp_path, monkeypatch, since, counts):
    shares = []

    def share(folder, from_ns, cores):
        until_ns = load(folder).until_ns
        return since if from_ns >= until_ns else 0.4

    monkeypatch.setattr(prove_act, "foreign_share", share)
    monkeypatch.setattr(prove_act, "corrected_arms", lambda choices, levers, found: shares.append(found) or frozenset())

    acted(tmp_path / "r", Stage(), STUB)

    assert set(shares) == {counts}


def test_a_script_that_never_trains_leaves_a_reason(tmp_path):
    staged_only_launcher = Training(steps=3, workers=0)
    folder = tmp_path / "r"
    make_recording(folder, staged_only_launcher)
    for file in folder.glob("100-1.*"):
        file.unlink()
    staged, told = StagedTraining(folder, Stage(trains_at_s=None)), Told()
    wanted = asked(seed=1)
    act = ProveAct(
        staged, wanted, levers=LEVERS, place=OVERLAY, say=told.lines.append, phase=told.phase, limits=LeadLimits(start_s=20.0),
        clock=staged.clock, sleep=staged.sleep,
    )  # fmt: skip

    ended = act.run()

    assert (ended.report, ended.ended_by, ended.code) == (None, "never trained", 3)
    assert ended.reason == "no training step was seen in 20 s"


@pytest.mark.parametrize(("exit_code", "is_said"), [(7, True), (0, False)])
def test_of_a_script_that_fails_before_it_trains_the_empty_standard_input_is_said(tmp_path, exit_code, is_said):
    folder = make_recording(tmp_path / "r", Training(steps=3, workers=0))
    for file in folder.glob("100-1.*"):
        file.unlink()
    stage = Stage(trains_at_s=None, ends_at_s=4.0, exit_code=exit_code)
    staged, wanted = StagedTraining(folder, stage), asked(seed=1)
    act = ProveAct(staged, wanted, levers=LEVERS, place=OVERLAY, say=print, phase=lambda *_: None, clock=staged.clock, sleep=staged.sleep)

    ended = act.run()

    assert (ended.report, ended.exit_code) == (None, exit_code)
    assert "no training step was recorded" in ended.reason
    assert ("Its standard input is empty here." in ended.reason) is is_said


def test_a_command_that_cannot_be_started_is_the_callers_affair(tmp_path):
    class Unstartable(StagedTraining):
        def start(self) -> None:
            raise CommandNotStarted("it is not executable", exit_code=126)

    staged = Unstartable(make_recording(tmp_path / "r", SLOW_CALLBACK), Stage())
    wanted = asked(seed=1)
    act = ProveAct(staged, wanted, levers=LEVERS, place=OVERLAY, say=print, phase=lambda *_: None, clock=staged.clock, sleep=staged.sleep)

    with pytest.raises(CommandNotStarted):
        act.run()
    assert staged.ends == 0


@pytest.mark.parametrize("ends_at_s", [6.0, 9.0], ids=["in the lead-in", "later"])
def test_a_training_that_had_to_be_ended_did_not_end_by_itself(tmp_path, ends_at_s):
    ended, _, _ = acted(tmp_path / "r", Stage(ends_at_s=ends_at_s, problem="the disk is nearly full", rounds=1), STUB)

    assert ended.ended_by == "cut short"
    assert ended.report["run"]["before_next"] == "fix why it had to be ended: the disk is nearly full"


@pytest.mark.parametrize(
    ("more", "kept"),
    [
        ({}, ()),
        ({"precision": 0.025}, ("--precision", "2.5%")),
        ({"allow_writes": True, "sandbox": "copy"}, ("--allow-writes", "--sandbox", "copy")),
        ({"out": "/data/my runs"}, ("--out", "/data/my runs")),
    ],
)
def test_what_is_not_as_usual_is_asked_for_again(more, kept):
    assert asked(**more).kept == kept


def test_the_next_command_asks_for_the_same_place(tmp_path):
    ended, _, _ = acted(tmp_path / "r", Stage(gains={2: 1.0}), allow_writes=True)

    assert ended.report["run"]["next_command"] == "slowstep prove --all --allow-writes train.py"


def test_what_a_lever_is_in_the_script_is_kept_with_its_experiment(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    source = "loader = DataLoader(data)\n"
    (tmp_path / "train.py").write_text(source)
    call = {
        "made": "loader",
        "framework": "torch",
        "file": str(tmp_path / "train.py"),
        "line": 1,
        "end_line": 1,
        "end_column": 25,
        "checksum": zlib.crc32(source.encode()),
        "names": ["DataLoader"],
        "takes": ["dataset", "num_workers"],
        "others": 0,
    }
    told = {"arm": 2, "name": "workers=4", "state": "effect", "effect": 9, "facts": {"arguments": {"num_workers": 4}}}

    monkeypatch.setattr(StagedTraining, "notes", lambda self, kind: [{"kind": "made", "calls": [call]}] if kind == "made" else [])
    ended, _, _ = acted(tmp_path / "r", Stage(gains={2: 1.6}, notes=(told,)), "workers=4", rereads=True)

    assert ended.change.place == "train.py:1"
    assert ended.change.difference.endswith(b"+loader = DataLoader(data, num_workers=4)\n")
    assert ended.report["run"]["experiment"]["outcome"]["change"]["text"] == "DataLoader(..., num_workers=4)"
    assert ended.report["run"]["before_next"] == "change train.py:1: DataLoader(..., num_workers=4)"
    assert (tmp_path / "train.py").read_text() == source


def acted_later(folder: Path, *stages: Stage, place: SandboxPlace = OVERLAY, **more: Any) -> tuple[Ended, list[StagedTraining], Told]:
    """An act on a script that is started as often as it takes; each start plays the next stage."""
    told, staged = Told(), [StagedTraining(make_recording(folder, SLOW_CALLBACK), stages[0])]

    def later(number: int) -> StagedTraining:
        assert number == len(staged) + 1
        if len(staged) == len(stages):
            raise NoSandbox("no room for a sandbox")
        own = folder / LATER_STARTS_FOLDER / str(number)
        own.parent.mkdir(exist_ok=True)
        staged.append(StagedTraining(make_recording(own, SLOW_CALLBACK), stages[len(staged)]))
        staged[-1].began_s = staged[-1].now_s = staged[-2].now_s
        return staged[-1]

    ended = ProveAct(
        staged[0], asked(**({"levers": (parse_spec(STUB),), "seed": 7} | more)), levers=LEVERS, place=place, say=told.lines.append,
        phase=told.phase, limits=LeadLimits(start_s=20.0), later=later,
        clock=lambda: staged[-1].clock(), sleep=lambda seconds: staged[-1].sleep(seconds),
    ).run()  # fmt: skip
    assert all(each.ends for each in staged)
    validate(ended.report)
    assert diagnose_recording(folder) == ended.report
    return ended, staged, told


def short(rounds: int, **more: Any) -> Stage:
    """A script that comes to its own end after so many rounds."""
    return Stage(**({"gains": {2: 1.6}, "rounds": rounds, "ends_at_s": 9.0} | more))


def row_of(ended: Ended) -> dict[str, Any]:
    (row,) = [row for row in ended.report["experiments"] if row["lever"] == STUB]
    return row


def test_a_script_that_ends_too_early_is_started_again_until_the_gain_is_known(tmp_path):
    ended, staged, told = acted_later(tmp_path / "r", short(3), short(3), short(3), short(3))

    assert (len(staged), ended.ended_by, ended.exit_code, ended.code) == (3, "precision", None, 0)
    assert (row_of(ended)["rounds"], row_of(ended)["verdict"]) == (9, "proved")
    starts = ended.report["run"]["experiment"]["starts"]
    assert [(start["rounds"], start["came_to_its_end"]) for start in starts] == [(3, True), (3, True), (3, False)]
    assert len([line for line in told.lines if "is started again" in line]) == 1
    assert len({each.plan.blocks for each in staged}) == 3


def test_a_script_that_ends_in_the_lead_in_is_tested_in_later_starts(tmp_path):
    ended, staged, _ = acted_later(tmp_path / "r", short(3, ends_at_s=4.0), short(4), short(4), short(4))

    assert (len(staged), staged[0].plan) == (4, None)
    assert (row_of(ended)["rounds"], row_of(ended)["verdict"], ended.code) == (12, "proved", 0)
    assert [start["rounds"] for start in ended.report["run"]["experiment"]["starts"]] == [0, 4, 4, 4]


def test_others_are_not_looked_for_in_a_start_that_is_all_lead_in(tmp_path, monkeypatch):
    since = []
    monkeypatch.setattr(prove_act, "foreign_share", lambda folder, from_ns, cores: since.append(from_ns) or 0.1)

    acted_later(tmp_path / "r", short(3, ends_at_s=4.0), short(4), short(4), short(4))

    assert set(since) == {None}


def test_a_start_that_comes_to_no_round_is_the_last(tmp_path):
    ended, staged, told = acted_later(tmp_path / "r", short(5), short(0), short(5))

    assert (len(staged), ended.ended_by) == (2, "script ended")
    assert (row_of(ended)["rounds"], row_of(ended)["verdict"]) == (5, "proved")
    assert any("Start 2 of the script" in line for line in told.lines)
    assert [start["reason"] for start in ended.report["run"]["experiment"]["starts"]] == [None, sentence(NO_ROUND())]


def test_a_later_start_that_fails_or_cannot_be_made_leaves_its_reason(tmp_path):
    for name, second, reason in (
        ("fails", short(1, exit_code=7), sentence(FAILED(code=7))),
        ("none", None, sentence(NOT_STARTED(error="no room for a sandbox"))),
    ):
        ended, _, told = acted_later(tmp_path / name, short(5), *([second] if second else []))

        assert ended.report["run"]["experiment"]["starts"][1]["reason"] == reason
        assert len([line for line in told.lines if reason in line]) == 1


@pytest.mark.parametrize(("trains_at_s", "step_ms"), [(None, 20.0), (2.0, 5000.0)], ids=["no update", "slow steps"])
def test_a_later_start_that_is_not_warm_when_the_budget_ends_is_ended_then(tmp_path, trains_at_s, step_ms):
    second = short(5, trains_at_s=trains_at_s, step_ms=step_ms, ends_at_s=None)
    ended, staged, _ = acted_later(tmp_path / "r", short(5), second, budget_s=15.0)

    assert (len(staged), ended.ended_by, ended.code, row_of(ended)["rounds"]) == (2, "budget", 0, 5)
    assert staged[1].now_s - staged[1].began_s < 15.0
    assert ended.report["run"]["experiment"]["starts"][1]["reason"] == sentence(TOO_SLOW())


def test_no_other_start_is_announced_where_there_is_no_time_for_one(tmp_path):
    ended, staged, told = acted_later(tmp_path / "r", short(5), short(5), budget_s=2.2)

    assert (len(staged), ended.ended_by) == (1, "budget")
    assert not any("it is started again" in line for line in told.lines)
    assert any("it is not started again, because that takes about" in line for line in told.lines)


def test_ctrl_c_between_two_starts_keeps_what_was_reached(tmp_path, monkeypatch):
    def interrupted(*_):
        raise KeyboardInterrupt

    monkeypatch.setattr(prove_starts, "drawn_anew", interrupted)
    ended, staged, _ = acted_later(tmp_path / "r", short(5), short(5))

    assert (len(staged), ended.ended_by, ended.code, row_of(ended)["verdict"]) == (1, "interrupted", 130, "proved")


def test_ctrl_c_while_a_start_is_ended_starts_no_other_one(tmp_path, monkeypatch):
    end = StagedTraining.end

    def impatient(self):
        ending = end(self)
        if self.ends == 1 and self.folder.name == "2":
            raise KeyboardInterrupt
        return ending

    monkeypatch.setattr(StagedTraining, "end", impatient)
    ended, staged, _ = acted_later(tmp_path / "r", short(3), short(3), short(3))

    assert (len(staged), ended.ended_by, ended.code, row_of(ended)["rounds"]) == (2, "interrupted", 130, 6)


def test_what_two_starts_tell_is_said_with_why_no_third_followed(tmp_path):
    ended, _, _ = acted_later(tmp_path / "r", short(5), short(4, exit_code=7), precision=1e-6)

    stream = io.StringIO()
    show(ended.report, stream)
    page = " ".join(stream.getvalue().split())
    assert "in 2 starts of the script; two starts prove only a clear gain;" in page
    assert "start 2 of the script ended with exit code 7" in page


def test_what_ends_this_process_ends_a_later_start_first(tmp_path, monkeypatch):
    def ended_by_signal(*_, **__):
        raise Terminated(15)

    started, start = [], StagedTraining.start
    monkeypatch.setattr(StagedTraining, "start", lambda self: (started.append(self), start(self)))
    monkeypatch.setattr(prove_starts, "warmed_up", ended_by_signal)
    with pytest.raises(Terminated):
        acted_later(tmp_path / "r", short(5), short(5))

    assert [each.ends > 0 for each in started] == [True, True]


@pytest.mark.parametrize(
    ("second", "ended_by", "code"),
    [
        (short(1, exit_code=7), "script ended", 1),
        (short(1, exit_code=7, trains_at_s=None), "script ended", 1),
        (short(1, interrupt_at_s=6.0, ends_at_s=None), "interrupted", 130),
        (short(1, interrupt_at_s=1.0, ends_at_s=None), "interrupted", 130),
        (short(1, trains_at_s=None, ends_at_s=None), "script ended", 0),
        (None, "script ended", 0),
    ],
)
def test_what_was_known_is_kept_where_a_later_start_fails_or_is_interrupted(tmp_path, second, ended_by, code):
    stages = (short(5),) if second is None else (short(5), second, short(5))
    ended, staged, _ = acted_later(tmp_path / "r", *stages, budget_s=60.0)

    assert (len(staged), ended.ended_by, ended.code) == (min(len(stages), 2), ended_by, code)
    assert row_of(ended)["rounds"] in (5, 6)
    assert row_of(ended)["verdict"] == "proved"


def test_a_lever_with_which_a_later_start_fails_is_at_fault(tmp_path):
    ended, staged, _ = acted_later(tmp_path / "r", short(5), short(1, exit_code=1, output=CRASHED, arm_at_end=2), short(5))

    assert (len(staged), ended.ended_by, ended.code) == (2, "a lever", 0)
    assert (row_of(ended)["state"], row_of(ended)["verdict"]) == ("failed", None)


def test_a_lever_is_not_at_fault_where_a_later_start_fails_before_it_was_on(tmp_path):
    ended, staged, _ = acted_later(tmp_path / "r", short(5, arm_at_end=2), short(1, exit_code=7, trains_at_s=None))

    assert (len(staged), ended.ended_by, ended.code) == (2, "script ended", 1)
    assert row_of(ended)["verdict"] == "proved"
    first, second = ended.report["run"]["experiment"]["starts"]
    assert (first["rounds"], first["reason"]) == (5, None)
    assert (second["updates"], second["rounds"], second["came_to_its_end"], second["reason"]) == (0, 0, False, sentence(NOT_WARM()))


def test_why_a_later_start_had_to_be_ended_is_said_as_it_is_kept(tmp_path):
    full = {"problem": "the disk is nearly full", "trains_at_s": None}
    ended, _, told = acted_later(tmp_path / "r", short(5), short(1, **full))

    why = sentence(HAD_TO_END(problem=full["problem"]))
    assert ended.report["run"]["experiment"]["starts"][-1]["reason"] == why
    assert any(why in line for line in told.lines)


def test_a_lever_that_was_given_up_is_left_out_of_later_starts(tmp_path):
    failed = {"kind": "lever", "arm": 2, "name": STUB, "state": "failed", "reason": "the loss was not finite", "not_finite": 80}
    levers = (parse_spec(STUB), parse_spec(CHECKPOINTS))
    later = short(3, gains={3: 1.6}, exit_code=7, output=CRASHED, arms_before=(2,), arm_at_end=3)
    ended, staged, _ = acted_later(tmp_path / "r", short(3, gains={3: 1.6}, notes=(failed,)), later, levers=levers)

    assert [each.plan.given_up for each in staged] == [(), (2,)]
    # What the first start noted of its lever is no fault of the second one's.
    rows = {row["lever"]: row for row in ended.report["experiments"] if row["state"] != "untried"}
    assert rows[CHECKPOINTS]["reason"].startswith("the script ended with exit code 7 while it was on")


def test_a_script_that_fails_is_not_started_again(tmp_path):
    failed, of_failed, _ = acted_later(tmp_path / "failed", short(5, exit_code=7), short(5))

    assert (len(of_failed), failed.ended_by, failed.code) == (1, "script ended", 1)


def test_a_script_whose_own_loss_is_not_finite_is_not_started_again(tmp_path, monkeypatch):
    notes = StagedTraining.notes
    spoilt = [{"kind": "health", "name": "loss-not-finite", "count": 1}]
    monkeypatch.setattr(StagedTraining, "notes", lambda self, kind: spoilt if kind == "health" else notes(self, kind))
    _, staged, told = acted_later(tmp_path / "r", short(5), short(5))

    assert len(staged) == 1
    assert any(OWN_LOSS in line for line in told.lines)


def test_a_script_whose_files_nothing_keeps_apart_is_not_started_again(tmp_path):
    in_place = SandboxPlace(kind="none", claims="files may have been changed")
    ended, staged, told = acted_later(tmp_path / "r", short(5), short(5), place=in_place)

    assert (len(staged), ended.ended_by, row_of(ended)["rounds"]) == (1, "script ended", 5)
    assert any(IN_PLACE in line for line in told.lines)
    assert not any("is started again" in line for line in told.lines)


def test_starts_end_with_the_budget(tmp_path):
    ended, staged, _ = acted_later(tmp_path / "r", *[short(2)] * 9, precision=1e-6, budget_s=20.0)

    assert ended.ended_by == "budget"
    assert 1 < len(staged) < 9
    assert row_of(ended)["rounds"] == 2 * len(staged)


def test_a_second_start_leaves_time_for_a_third(tmp_path):
    ended, staged, _ = acted_later(tmp_path / "r", short(3), short(12, ends_at_s=None), short(12, ends_at_s=None), budget_s=40.0)

    assert (len(staged), ended.ended_by, row_of(ended)["verdict"]) == (3, "precision", "proved")
