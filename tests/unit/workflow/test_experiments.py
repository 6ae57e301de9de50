"""What an experiment in a recording adds to its report."""

from __future__ import annotations

import io
import json
import math
import re
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from made_experiments import add_experiment, made_experiment, made_plan, untried
from made_recordings import START_NS, Training, make_recording
from slowstep.document.validity import validate
from slowstep.prove.choose import Choice, Role
from slowstep.prove.experiment import Experiment, save
from slowstep.prove.lever_faults import LeverFault
from slowstep.prove.stats.repeated import AllRepeated, RepeatedRuns
from slowstep.prove.stats.throughput import Throughputs
from slowstep.reasons import SAID
from slowstep.record.experiment.lever_text import parse_spec
from slowstep.report.terminal import render, show
from slowstep.units import format_ratio_interval
from slowstep.workflow.diagnose_recordings import diagnose_recording
from slowstep.workflow.next_command.after_experiment import ended_untried

pytestmark = pytest.mark.usefixtures("measured_once")
SLOW_CALLBACK = Training(steps=400, workers=2, after_ms=15)
UNTIL_NS = START_NS + 6_000_000_000


def choice(text: str, role: Role = "other", rule: str | None = None, *, numerics: bool = False) -> Choice:
    return Choice(spec=parse_spec(text), role=role, rule=rule, changes_numerics=numerics)


STUB = choice("stub=__main__:save_mask_images", "fix", "slow-callback")


def reported(
    folder: Path, choices: tuple[Choice, ...], gains: dict[int, float], *, training: Training = SLOW_CALLBACK, **more: Any
) -> dict[str, Any]:
    make_recording(folder, training)
    experiment = made_experiment(choices, until_ns=UNTIL_NS, **more.pop("asked", {}))
    add_experiment(folder, experiment, gains, **more)
    report = diagnose_recording(folder)
    validate(report)
    return report


def row_of(report: dict[str, Any], lever: str | None) -> dict[str, Any]:
    (row,) = [row for row in report["experiments"] if row["lever"] == lever and row["state"] != "untried"]
    return row


def drawn(report: dict[str, Any]) -> str:
    stream = io.StringIO()
    show(report, stream)
    return " ".join(stream.getvalue().split())


COMPARED = {"says": "mean loss over 40 steps", "bitwise_equal": False, "whole": {"relative": 0.0, "spread": None}}
CLAIMED = {"says": "from step 3 on", "same_input": False, "repeats": True, "bitwise_equal": False, "first_other": 3}


@pytest.mark.parametrize(
    ("lever", "numerics", "numbers", "words"),
    [
        ("validation-off", None, "by construction", "same numbers by construction"),
        ("autocast=bf16", COMPARED, "compared", "changes the numerics | losses compared: mean loss over 40 steps"),
        ("autocast=bf16", None, "not compared", "changes the numerics | losses not compared"),
        ("workers=2", None, "other order", "other order of the data: only the throughput is compared"),
        ("workers=2", CLAIMED, "other input", "input compared: from step 3 on"),
    ],
)
def test_each_lever_says_what_is_known_of_the_numbers_with_it(tmp_path, lever, numerics, numbers, words):
    asked = {"numerics": {} if numerics is None else {lever: numerics}}
    report = reported(tmp_path / "r", (choice(lever),), {2: 1.5}, asked=asked)

    assert row_of(report, lever)["numbers"] == numbers
    validate(report)
    page = drawn(report)
    assert words in page
    assert ("only the throughput" in page) == (numbers == "other order")


def test_a_plain_recording_has_no_experiments(tmp_path):
    report = diagnose_recording(make_recording(tmp_path / "plain", SLOW_CALLBACK))

    assert report["experiments"] == []
    assert "experiment" not in report["run"]


def test_a_gain_that_was_measured_is_the_findings_and_proves_it(tmp_path):
    report = reported(tmp_path / "r", (STUB,), {2: 1.6})

    row, (finding, *_) = row_of(report, STUB.name), report["findings"]
    assert finding["rule"] == "slow-callback"
    assert (row["verdict"], row["state"], row["role"]) == ("proved", "measured", "fix")
    assert row["gain"]["low"] < 1.6 < row["gain"]["high"]
    assert finding["gain"]["measured"] == row["gain"]
    assert row["predicted"] == {"value": finding["gain"]["predicted"], "low": finding["gain"]["low"], "high": finding["gain"]["high"]}
    assert (row["rounds"], row["effect"]) == (12, 12 * report["run"]["experiment"]["steps_per_block"])
    assert report["run"]["experiment"]["trustworthy"] is True
    # What is to be done, and what to look at then, follow from what was proved.
    assert report["run"]["before_next"] == f"change the script: {finding['fixes'][0]['text']}"
    assert report["run"]["next_command"] == "slowstep run train.py"


def test_what_is_to_be_done_next_is_typed_from_the_folder_in_which_the_script_was_started(tmp_path, monkeypatch):
    for name in ("there", "here"):
        (tmp_path / name).mkdir()
    monkeypatch.chdir(tmp_path / "here")
    make_recording(tmp_path / "r", SLOW_CALLBACK)
    notes = tmp_path / "r" / "launcher.jsonl"
    lines = [json.loads(line) for line in notes.read_text().splitlines()]
    told = [line | {"cwd": str(tmp_path / "there")} if line["kind"] == "process" else line for line in lines]
    notes.write_text("".join(json.dumps(line) + "\n" for line in told))
    add_experiment(tmp_path / "r", made_experiment((STUB,), until_ns=UNTIL_NS), {2: 1.6})

    assert diagnose_recording(tmp_path / "r")["run"]["next_command"] == f"cd {tmp_path / 'there'} && slowstep run train.py"


def test_a_gain_well_below_the_predicted_is_proved_and_one_of_nothing_refuted(tmp_path):
    report = reported(tmp_path / "r", (STUB,), {2: 1.0})

    row = row_of(report, STUB.name)
    assert row["verdict"] == "refuted"
    assert report["findings"][0]["gain"]["measured"] == row["gain"]


HEALTHY = Training(steps=400, workers=2)


@pytest.mark.parametrize(("gain", "is_said"), [(1.4, True), (1.06, False), (1.0, False)])
def test_a_healthy_training_with_a_proved_gain_is_not_said_to_have_nothing_worth_it(tmp_path, gain, is_said):
    report = reported(tmp_path / "r", (choice("threads=2", "fix", "idle-cores"),), {2: gain}, training=HEALTHY)

    verdict = report["verdict"]
    assert (verdict["state"], verdict["healthy"]) == ("healthy", True)
    assert verdict["code"] == ("proved-unpredicted" if is_said else "no-problem")
    assert ("idle-cores" in verdict["summary"]) == is_said


def test_a_lever_that_failed_before_it_changed_anything_has_failed(tmp_path):
    notes = (
        {"arm": 2, "name": STUB.name, "state": "effect", "effect": 0},
        {"arm": 2, "name": STUB.name, "state": "failed", "reason": "no"},
    )

    row = row_of(reported(tmp_path / "r", (STUB,), {2: 1.0}, notes=notes), STUB.name)

    assert (row["state"], row["reason"]) == ("failed", "no")


def test_a_bound_proves_no_fix_though_it_gains(tmp_path):
    report = reported(tmp_path / "r", (choice("mock-loader", "bound", "slow-callback"),), {2: 2.0})

    assert row_of(report, "mock-loader")["verdict"] == "upper bound"
    assert report["findings"][0]["gain"]["measured"] is None


def test_after_a_bound_by_leaving_a_function_out_its_faster_code_is_to_be_written_and_measured(tmp_path):
    bound = choice("stub=data:pad", "bound", "slow-callback")
    bounded = reported(tmp_path / "bounded", (bound,), {2: 2.0})
    proved = reported(tmp_path / "proved", (bound, STUB), {2: 2.0, 3: 1.6})
    by_input = reported(tmp_path / "input", (choice("mock-loader", "bound", "slow-callback"),), {2: 2.0})

    assert bounded["run"]["next_command"] == "slowstep prove --levers swap=data:pad=data:pad_faster train.py"
    assert "First write a faster version as pad_faster, beside pad" in drawn(bounded)
    for other in (proved, by_input):
        assert "swap" not in other["run"]["next_command"]
        assert "_faster" not in other["run"].get("before_next", "")


def test_the_faster_form_of_a_method_of_pythons_own_has_an_ordinary_name(tmp_path):
    bounded = reported(tmp_path, (choice("stub=data:Rows.__getitem__", "bound", "slow-callback"),), {2: 2.0})

    assert " swap=data:Rows.__getitem__=data:Rows.getitem_faster " in bounded["run"]["next_command"]


def test_a_bound_below_the_prediction_refutes_it(tmp_path):
    report = reported(tmp_path / "r", (choice("mock-loader", "bound", "slow-callback"),), {2: 1.05})

    assert row_of(report, "mock-loader")["verdict"] == "refuted"


def test_a_bound_of_few_rounds_refutes_nothing(tmp_path):
    report = reported(tmp_path / "r", (choice("mock-loader", "bound", "slow-callback"),), {2: 1.2}, rounds=5)

    # Of eight rounds it does: the prediction is 1.5 and more.
    assert row_of(report, "mock-loader")["verdict"] == "upper bound"


def test_another_lever_is_held_against_no_prediction(tmp_path):
    report = reported(tmp_path / "r", (choice("prefetch=4"), choice("logging-off", "other", "slow-callback")), {2: 1.2, 3: 1.2})

    assert [(row["predicted"], row["verdict"]) for row in report["experiments"][1:]] == [(None, "proved"), (None, "proved")]
    assert report["findings"][0]["gain"]["measured"] is None


def test_too_wide_an_interval_distinguishes_nothing_and_says_below_what(tmp_path):
    report = reported(tmp_path / "r", (choice("prefetch=4"),), {2: 1.01}, rounds=9, spread=0.6, asked={"ended_by": "budget"})

    row = row_of(report, "prefetch=4")
    assert row["verdict"] == "cannot distinguish"
    assert 0.03 < row["below"] < 1.0
    assert report["run"]["experiment"]["reached"] > 0.05
    assert report["run"]["next_command"] == "slowstep prove --budget 180s train.py"


@pytest.mark.parametrize(
    ("asked", "kept", "expected"),
    [
        ({}, (), "--precision 2.5%"),
        ({"precision": 0.03}, ("--precision", "3%", "--allow-writes"), "--precision 1.5% --allow-writes"),
        ({}, ("--sandbox", "copy"), "--precision 2.5% --sandbox copy"),
        ({"budget_s": 300.0}, (), "--precision 2.5% --budget 300s"),
    ],
)
def test_after_an_experiment_that_was_precise_enough_a_finer_one_tells_more_and_not_a_longer_one(tmp_path, asked, kept, expected):
    chosen = {"options": ("--levers", "prefetch=4"), "kept": kept, **asked}
    report = reported(tmp_path / "r", (choice("prefetch=4"),), {2: 1.02}, rounds=9, spread=0.1, asked=chosen)

    assert row_of(report, "prefetch=4")["verdict"] == "cannot distinguish"
    assert report["run"]["next_command"] == f"slowstep prove --levers prefetch=4 {expected} train.py"


def test_four_times_the_rounds_have_room_in_the_budget(tmp_path):
    report = reported(tmp_path / "r", (choice("prefetch=4"),), {2: 1.02}, rounds=9, spread=0.1, step_ms=200.0)

    took_s = report["run"]["experiment"]["took_s"]
    assert took_s > 15
    assert report["run"]["next_command"] == f"slowstep prove --precision 2.5% --budget {math.ceil(4 * took_s)}s train.py"


def test_other_options_that_were_given_are_given_again(tmp_path):
    kept = ("--precision", "2%", "--allow-writes", "--sandbox", "copy")
    words = "--precision 2% --allow-writes --sandbox copy"

    def next_of(name: str, chosen: Choice, gain: float, **asked: Any) -> str:
        report = reported(tmp_path / name, (chosen,), {2: gain}, asked={"kept": kept, **asked})
        return str(report["run"]["next_command"])

    assert next_of("refuted", STUB, 1.0) == f"slowstep prove --all {words} train.py"
    bounded = next_of("bound", choice("stub=data:pad", "bound", "slow-callback"), 2.0)
    assert bounded == f"slowstep prove --levers swap=data:pad=data:pad_faster {words} train.py"
    short = reported(tmp_path / "short", (STUB,), {}, rounds=0, asked={"kept": kept, "ended_by": "budget"})
    assert short["run"]["next_command"] == f"slowstep prove {words} --budget 180s train.py"


@pytest.mark.parametrize(("spoils", "verdict"), [(True, "loss not finite"), (False, "proved")])
def test_a_lever_that_spoils_the_training_is_not_proved_however_fast(tmp_path, spoils, verdict):
    lever = choice("swap=train:loss=train:faster", "fix", "slow-callback")
    numerics = {lever.name: {"says": "the loss was not finite at step 33", "spoils": spoils}}
    report = reported(tmp_path / "r", (lever,), {2: 1.6}, asked={"numerics": numerics})

    row, (finding, *_) = row_of(report, lever.name), report["findings"]
    assert row["verdict"] == verdict
    assert row["gain"]["low"] > 1.03
    assert (finding["gain"]["measured"] is None) == spoils
    assert (report["run"].get("before_next") == "change the script: use train:faster in place of train:loss") != spoils
    assert ("loss not finite" in drawn(report)) == spoils


def test_after_the_proof_of_what_no_finding_named_the_lever_is_explained(tmp_path):
    report = reported(tmp_path / "r", (choice("batch-size=64"),), {2: 1.4})

    assert row_of(report, "batch-size=64")["verdict"] == "proved"
    assert report["run"]["next_command"] == "slowstep explain batch-size"


@pytest.mark.parametrize(
    ("options", "ended_by", "expected"),
    [
        (("--levers", "prefetch=4"), "budget", "slowstep prove --levers prefetch=4 --budget 180s train.py"),
        (("--all",), "budget", "slowstep prove --all --budget 180s train.py"),
        (("--all",), "interrupted", "slowstep prove --all --budget 180s train.py"),
        ((), "interrupted", "slowstep prove --budget 180s train.py"),
        # The same would only end as early again.
        ((), "script ended", "slowstep explain slow-callback"),
        (("--all",), "script ended", "slowstep explain slow-callback"),
        (("--levers", "prefetch=4"), "stood still", "slowstep prove --levers prefetch=4 train.py"),
        (("--levers", "prefetch=4"), "cut short", "slowstep prove --levers prefetch=4 train.py"),
    ],
)
def test_the_next_command_of_an_experiment_without_results_asks_for_the_same_levers(tmp_path, options, ended_by, expected):
    report = reported(tmp_path / "r", (choice("prefetch=4"),), {}, rounds=0, asked={"options": options, "ended_by": ended_by})

    assert row_of(report, "prefetch=4")["state"] == "unmeasured"
    assert report["run"].get("next_command") == expected


@pytest.mark.parametrize(
    ("exit_code", "expected"),
    [
        (0, "let the script train longer, 2 min or more (more epochs, more steps): it ended before a lever was tested"),
        (3, "fix the script's own error: it ended with exit code 3 before a lever was tested"),
    ],
)
def test_a_script_that_ended_before_a_lever_was_tried_says_what_to_do_first(tmp_path, exit_code, expected):
    report = reported(tmp_path / "r", (choice("prefetch=4"),), {}, rounds=0, asked={"ended_by": "script ended", "exit_code": exit_code})

    assert report["run"]["before_next"] == expected
    assert f"First {expected} Next slowstep {'prove train.py' if exit_code else 'explain slow-callback'}" in drawn(report)


@pytest.mark.parametrize(
    ("ended_by", "expected"),
    [
        ("not taken up", "find out what the training waits for: it made no more steps before a lever was tested"),
        ("stood still", "find out what the training waits for: it made no more steps before a lever was tested"),
        ("cut short", "fix why it had to be ended: 2 GB were written"),
    ],
)
def test_a_training_that_could_not_go_on_says_what_to_do_first(tmp_path, ended_by, expected):
    asked = {"ended_by": ended_by, "problem": "2 GB were written"}
    report = reported(tmp_path / "r", (choice("prefetch=4"),), {}, rounds=0, asked=asked)

    assert report["run"]["before_next"].startswith(expected)
    assert ended_untried(report)


def test_a_lever_that_has_no_meaning_is_not_asked_for_again(tmp_path):
    options = ("--levers", "prefetch=4,pin-memory")
    gone = {"arm": 3, "name": "pin-memory", "state": "not applicable", "reason": "there is no accelerator"}
    asked = {"options": options, "ended_by": "budget"}
    report = reported(tmp_path / "r", (choice("prefetch=4"), choice("pin-memory")), {}, rounds=0, notes=(gone,), asked=asked)

    assert row_of(report, "pin-memory")["state"] == "not applicable"
    assert report["run"]["next_command"] == "slowstep prove --levers prefetch=4 --budget 180s train.py"


def test_a_script_that_ended_before_a_gain_was_known_is_not_given_more_time_but_has_to_last_longer(tmp_path):
    asked = {"ended_by": "script ended", "exit_code": 0, "options": ("--levers", "prefetch=4")}
    report = reported(tmp_path / "r", (choice("prefetch=4"),), {2: 1.01}, rounds=9, spread=0.6, asked=asked)

    assert report["run"]["next_command"] == "slowstep explain slow-callback"
    assert report["run"]["before_next"].endswith("it ended before the gains were known")


@pytest.mark.parametrize("asked", [{"ended_by": "script ended", "exit_code": 3}, {"ended_by": "budget"}])
def test_where_a_gain_was_proved_the_script_is_to_be_changed_first_however_the_training_ended(tmp_path, asked):
    report = reported(tmp_path / "r", (STUB,), {2: 1.6}, asked=asked)

    assert report["run"]["before_next"].startswith("change the script: ")


def test_what_was_reached_is_how_well_the_levers_are_known_and_not_the_control(tmp_path):
    report = reported(tmp_path / "r", (STUB,), {2: 1.6}, spread=0.1)

    control, lever = ((row["wall"]["high"] / row["wall"]["low"]) ** 0.5 - 1 for row in report["experiments"])
    assert control > 1.2 * lever
    assert report["run"]["experiment"]["reached"] == pytest.approx(lever)


def test_what_every_arm_seems_to_gain_without_a_lever_is_not_trusted(tmp_path):
    report = reported(tmp_path / "r", (STUB,), {1: 1.3, 2: 1.6})

    assert report["run"]["experiment"]["trustworthy"] is False
    assert "experiment-not-trustworthy" in [row["name"] for row in report["health"]]
    assert "Trust none: the control, which has no lever, seemed to change the speed" in drawn(report)
    assert row_of(report, None)["role"] == "control"


@pytest.mark.parametrize(("state", "command"), [("not applicable", "run"), ("failed", "prove --all")])
def test_a_lever_that_could_not_be_had_says_why(tmp_path, state, command):
    note = {"arm": 2, "name": STUB.name, "state": state, "reason": "the training has no such function"}
    report = reported(tmp_path / "r", (STUB,), {}, rounds=0, notes=(note,))

    row = row_of(report, STUB.name)
    assert (row["state"], row["reason"], row["gain"], row["verdict"]) == (state, "the training has no such function", None, None)
    assert report["run"]["next_command"] == f"slowstep {command} train.py"


def test_of_a_lever_that_no_finding_names_the_column_has_what_it_gained_until_it_was_given_up(tmp_path):
    other = choice("logging-off")
    note = {"arm": 2, "name": other.name, "state": "failed", "reason": "no memory"}
    row = row_of(report := reported(tmp_path / "r", (other,), {2: 1.5}, notes=(note,), given_up_after={2: 6}), other.name)

    assert row["predicted"] is None
    shown = format_ratio_interval(row["gain"]["value"], row["gain"]["low"], row["gain"]["high"])
    assert f"logging-off {shown} failed no memory | measured until then, in 6 rounds" in drawn(report)


@pytest.mark.parametrize(("state", "reason"), [("failed", "RuntimeError: no memory"), ("not applicable", "it raised an error")])
@pytest.mark.parametrize("rounds", [12, 6])
def test_a_lever_that_was_given_up_late_says_what_it_gained_until_then_and_has_no_verdict(tmp_path, state, reason, rounds):
    note = {"arm": 2, "name": STUB.name, "state": state, "reason": reason}
    report = reported(tmp_path / "r", (STUB,), {2: 1.5}, notes=(note,), given_up_after={2: rounds})

    row = row_of(report, STUB.name)
    assert (row["state"], row["reason"], row["verdict"], row["below"]) == (state, reason, None, None)
    assert (row["gain"], row["rounds"]) == (row["wall"], rounds)
    assert row["gain"]["low"] < 1.5 < row["gain"]["high"]
    assert report["findings"][0]["gain"]["measured"] is None
    page = drawn(report)
    # It stands in the column of what was measured.
    shown = format_ratio_interval(row["gain"]["value"], row["gain"]["low"], row["gain"]["high"])
    assert f"{shown} {state}" in page
    assert f"{reason} | measured until then, in {rounds} rounds" in page
    assert "too small to be seen" not in page
    assert "a verdict takes" not in page


@pytest.mark.parametrize("state", ["failed", "not applicable"])
@pytest.mark.parametrize("rounds", [12, 6])
def test_a_lever_that_was_given_up_late_is_not_asked_for_again(tmp_path, state, rounds):
    late = choice("swap=__main__:save_mask_images=__main__:faster")
    note = {"arm": 2, "name": late.name, "state": state, "reason": "it raised an error"}
    asked = {"options": ("--levers", late.name), "ended_by": "no lever left"}
    report = reported(tmp_path / "r", (late,), {2: 1.5}, notes=(note,), given_up_after={2: rounds}, asked=asked)

    assert report["run"]["next_command"] == "slowstep prove --all train.py"


def test_how_well_gains_are_known_is_not_told_by_a_lever_that_was_given_up(tmp_path):
    note = {"arm": 3, "name": "prefetch=4", "state": "failed", "reason": "no memory"}
    choices, gains = (STUB, choice("prefetch=4")), {2: 1.6, 3: 1.1}
    report = reported(tmp_path / "r", choices, gains, notes=(note,), given_up_after={3: 4})

    kept, late = ((row["wall"]["high"] / row["wall"]["low"]) ** 0.5 - 1 for row in report["experiments"][1:])
    assert late > 1.2 * kept
    assert report["run"]["experiment"]["reached"] == pytest.approx(kept)


def test_a_lever_that_was_given_up_late_takes_no_part_in_what_others_are_held_against(tmp_path):
    choices, gains = (STUB, choice("prefetch=4")), {2: 1.6, 3: 1.6}
    note = {"arm": 3, "name": "prefetch=4", "state": "failed", "reason": "no memory"}
    alone = reported(tmp_path / "alone", choices, gains, notes=(note,))
    both = reported(tmp_path / "both", choices, gains)

    low, lower = (row_of(report, STUB.name)["gain"]["low"] for report in (alone, both))
    assert low > lower
    assert low == pytest.approx(row_of(alone, STUB.name)["wall"]["low"])


@pytest.mark.parametrize(
    ("rounds", "gain", "says"), [(7, 1.03, "7 rounds: fewer than 8 prove only a clear gain"), (3, 2.0, ""), (4, 2.0, None), (8, 2.0, None)]
)
def test_a_gain_of_too_few_rounds_says_how_many_a_verdict_takes_and_not_what_would_show(tmp_path, rounds, gain, says):
    report = reported(tmp_path / "r", (choice("prefetch=4"),), {2: gain}, rounds=rounds)

    row, page = row_of(report, "prefetch=4"), drawn(report)
    # Of three rounds there is no interval, and no verdict.
    assert (row["verdict"], row["below"]) == ("cannot distinguish" if says else None if rounds == 3 else "proved", None)
    assert says is None or says in page
    assert "too small to be seen" not in page


def test_an_experiment_with_a_lever_that_was_not_undone_is_not_trusted(tmp_path):
    note = {"arm": 2, "name": STUB.name, "state": "not undone", "reason": "ValueError: gone"}
    report = reported(tmp_path / "r", (STUB,), {2: 1.5}, notes=(note,))

    facts = report["run"]["experiment"]
    assert (facts["trustworthy"], facts["distrust"].partition(",")[0]) == (False, f"{STUB.name} could not be undone")
    doubts = {row["name"]: row for row in report["health"]}
    assert "experiment-not-trustworthy" not in doubts
    assert doubts["lever-not-undone"]["severity"] == "error"
    assert "ValueError: gone" in doubts["lever-not-undone"]["remedy"]
    assert f"Trust none: {STUB.name} could not be undone" in drawn(report)


def test_an_experiment_that_ends_before_its_control_was_measured_is_not_trusted_either(tmp_path):
    note = {"arm": 2, "name": STUB.name, "state": "not undone", "reason": "ValueError: gone"}
    report = reported(tmp_path / "r", (STUB,), {}, rounds=0, notes=(note,))

    assert report["run"]["experiment"]["trustworthy"] is False


@pytest.mark.parametrize(
    ("foreign_cores", "lever", "used", "why"),
    [
        (0.0, STUB.name, "wall", "used little of the machine"),
        (2.0, STUB.name, "corrected", "other processes used 50 % of the machine"),
        (2.0, "workers=4", "wall", "the lever's own doing"),
    ],
)
def test_waiting_for_a_core_is_left_out_where_others_cause_it_and_only_there(tmp_path, foreign_cores, lever, used, why):
    training = replace(SLOW_CALLBACK, foreign_cores=foreign_cores)
    demanding = choice("workers=4")
    report = reported(tmp_path / "r", (STUB, demanding), {2: 1.5, 3: 1.5}, training=training, delay_ms=5.0)

    row = row_of(report, lever)
    assert (row["used"], why in row["why"]) == (used, True)
    assert row["corrected"]["value"] > row["wall"]["value"]
    assert row["gain"]["value"] == row[used]["value"]


def test_a_lever_that_needs_cores_is_not_refuted_where_others_have_them_and_says_that(tmp_path):
    def on(name: str, foreign_cores: float) -> dict[str, Any]:
        training = replace(SLOW_CALLBACK, foreign_cores=foreign_cores)
        return reported(tmp_path / name, (choice("workers=4"),), {2: 0.9}, training=training, delay_ms=5.0)

    quiet, busy = on("quiet", 0.0), on("busy", 2.0)

    assert [report["run"]["experiment"]["busy"] for report in (quiet, busy)] == [False, True]
    row = row_of(quiet, "workers=4")
    assert (row["verdict"], row["held_back"], row["reason"]) == ("refuted", None, None)
    row = row_of(busy, "workers=4")
    assert (row["verdict"], row["held_back"], row["below"]) == ("cannot distinguish", "load", None)
    page = drawn(busy)
    assert "not refuted, because it needs cores and other processes used 50 % of them meanwhile" in page
    assert "too small to be seen" not in page
    assert "too few blocks" not in page
    # More rounds would not help.
    assert busy["run"]["next_command"] == "slowstep prove train.py"
    assert "First wait until nothing else runs on this machine" in page


@pytest.mark.parametrize(("stolen_cores", "held_back"), [(0.1, None), (0.5, "load")])
def test_a_lever_that_needs_cores_is_not_refuted_where_the_hypervisor_may_have_kept_them_in_its_blocks(tmp_path, stolen_cores, held_back):
    training = replace(SLOW_CALLBACK, stolen_cores=stolen_cores)
    report = reported(tmp_path / "r", (choice("workers=4"), STUB), {2: 0.9, 3: 0.9}, training=training, delay_ms=5.0)

    # An eighth of the cores in all, and an arm that has a quarter of the time.
    assert row_of(report, "workers=4")["held_back"] == held_back
    assert ("the hypervisor may have kept up to" in drawn(report)) == (held_back is not None)
    # One that asks for no more cores than the training as it is has as many as that.
    assert row_of(report, STUB.name)["verdict"] == "refuted"


@pytest.mark.parametrize(
    ("lever", "verdict", "held_back"),
    [
        ("mock-loader", "refuted", None),
        ("threads=1", "cannot distinguish", "long steps"),
        ("validation-off", "cannot distinguish", "seldom"),
    ],
)
def test_validations_that_came_by_chance_decide_nothing(tmp_path, lever, verdict, held_back):
    plan = made_plan((choice(lever),))
    long_ms = dict.fromkeys([at for at, arm in enumerate(plan.blocks) if arm == 0][:3], 3000.0)
    # What it recorded for the diagnosis ends before the experiment begins.
    report = reported(tmp_path / "r", (choice(lever),), {2: 1.0}, long_ms=long_ms, training=replace(SLOW_CALLBACK, steps=150))

    row = row_of(report, lever)
    assert (row["verdict"], row["held_back"]) == (verdict, held_back)
    assert row["gain"]["high"] < 1.05
    assert report["run"]["experiment"]["trustworthy"]
    assert re.search(r"in 3 blocks some steps took up to 3\.0 s longer than usual, input apart, [78]\d % of the time in all", drawn(report))


def test_a_few_short_stalls_are_not_worth_a_word(tmp_path):
    choices = (choice("threads=1"),)
    at = made_plan(choices).blocks.index(0)
    report = reported(tmp_path / "r", choices, {2: 0.8}, long_ms={at: 150.0}, rounds=24, training=replace(SLOW_CALLBACK, steps=150))

    assert row_of(report, "threads=1")["verdict"] == "refuted"
    assert "more than usual" not in drawn(report)


def changed_in(rounds: int, *blocks: int) -> tuple[dict[str, Any], ...]:
    """What a lever notes that changed something in these blocks of its own alone."""
    counts = [sum(block <= number for block in blocks) for number in range(rounds)]
    return tuple({"arm": 2, "name": "checkpoint-off", "state": "effect", "effect": count, "facts": {}} for count in counts)


def test_a_lever_that_met_nothing_to_change_is_neither_refuted_nor_measured(tmp_path):
    report = reported(
        tmp_path / "r", (choice("checkpoint-off", "fix", "slow-callback"), choice("prefetch=4")), {3: 1.5}, notes=changed_in(12)
    )

    row = row_of(report, "checkpoint-off")
    assert (row["state"], row["verdict"], row["gain"], row["effect"]) == ("unmeasured", None, None, 0)
    assert row["reason"].startswith("nothing that it changes happened in the 60 steps counted with it; if the script does it less often")
    assert report["findings"][0]["gain"]["measured"] is None
    assert row_of(report, "prefetch=4")["verdict"] == "proved"
    assert "give a larger --budget" in drawn(report)


@pytest.mark.parametrize(("blocks", "verdict"), [((3, 7, 9), "cannot distinguish"), ((1, 3, 7, 9), "refuted")])
def test_a_lever_that_met_little_to_change_is_not_refuted(tmp_path, blocks, verdict):
    report = reported(tmp_path / "r", (choice("checkpoint-off"),), {}, notes=changed_in(12, *blocks), asked={"ended_by": "budget"})

    row = row_of(report, "checkpoint-off")
    assert row["verdict"] == verdict
    assert (row["held_back"] == "seldom") is (verdict != "refuted")
    if verdict != "refuted":
        assert "what it changes happened in only 3 of its 12 blocks, too few to refute it: give a larger --budget" in drawn(report)
        assert report["run"]["next_command"] == "slowstep prove --budget 180s train.py"


def test_a_batch_size_tells_throughput_and_peak_of_its_size_and_of_the_own_one(tmp_path):
    facts = {"batch_size": 64, "own_batch_size": 16, "peak_bytes": 3 << 30, "own_peak_bytes": 1 << 30, "peak_of": "process"}
    note = {"arm": 2, "name": "batch-size=64", "state": "effect", "effect": 61, "facts": facts}
    report = reported(tmp_path / "r", (choice("batch-size=64"), choice("prefetch=4")), {2: 1.4, 3: 1.2}, notes=(note,))

    row = row_of(report, "batch-size=64")
    # 16 samples in 20 ms.
    assert row["throughput"] == {"per": "sample", "as_is_per_s": pytest.approx(800, rel=0.02), "per_s": pytest.approx(1120, rel=0.02)}
    assert row["facts"] == facts
    shown = (
        r"batches of 64: 1,1\d0 samples/s, peak 3\.00 GiB; of 16, current: (79|80)\d samples/s, peak 1\.00 GiB"
        r" \(memory of the whole process: of the current size before anything was tested, of the other with what earlier tests left\)"
    )
    assert re.search(shown, drawn(report))
    assert drawn(report).count("samples/s, peak") == 2


def test_a_mocked_input_gains_less_by_what_receiving_a_batch_takes(tmp_path):
    floor = {"arm": 2, "name": "mock-loader", "state": "effect", "effect": 60, "facts": {"floor_ns": 2_000_000}}
    with_floor = reported(tmp_path / "with", (choice("mock-loader"),), {2: 2.0}, notes=(floor,))
    without = reported(tmp_path / "without", (choice("mock-loader"),), {2: 2.0})

    assert row_of(without, "mock-loader")["gain"]["value"] == pytest.approx(2.0, rel=0.02)
    assert row_of(with_floor, "mock-loader")["gain"]["value"] == pytest.approx(20 / 12, rel=0.02)


def with_first_batches(tmp_path: Path, name: str, role: Role, gain: float, kept_ms: float) -> tuple[dict[str, Any], dict[str, Any]]:
    """Steps of 20 ms, and so many ms in each of those that are left in the arm of the lever: its report and row."""
    steps = 12 * made_plan((choice(name),)).steps
    facts = {"kept_ns": round(kept_ms * 1e6 * steps), "kept_each_ns": round(kept_ms * 20e6)}
    note = {"arm": 2, "name": name, "state": "effect", "effect": 12, "facts": facts}
    report = reported(tmp_path / "r", (choice(name, role, "slow-callback"),), {2: gain}, notes=(note,))
    return report, row_of(report, name)


def test_what_a_lever_has_left_is_in_the_low_end_of_its_gain_and_not_in_its_high_one(tmp_path):
    report, row = with_first_batches(tmp_path, "validation-off:every=2", "fix", 20 / 17, 3.0)

    assert row["verdict"] == "proved"
    assert row["wall"]["value"] == pytest.approx(20 / 17, rel=0.02)
    assert row["gain"]["value"] == pytest.approx(20 / 14, rel=0.02)
    assert row["gain"]["low"] < row["wall"]["value"] < row["wall"]["high"] < row["gain"]["value"] < row["gain"]["high"]
    assert report["findings"][0]["gain"]["measured"] == row["gain"]
    assert f"{row['wall']['value']:.2f}x with the first batch of each validation, 60.0 ms, which is still read" in drawn(report)


def test_without_what_a_lever_has_left_its_gain_is_an_upper_bound(tmp_path):
    whole = reported(tmp_path / "whole", (choice("checkpoint-off", "bound", "slow-callback"),), {2: 20 / 14})
    report, row = with_first_batches(tmp_path, "validation-off", "bound", 20 / 14, 5.0)

    assert 20 / 14 < report["findings"][0]["gain"]["low"] < 20 / 9
    assert (row_of(whole, "checkpoint-off")["verdict"], row["verdict"]) == ("refuted", "upper bound")
    assert row["gain"]["value"] == pytest.approx(20 / 9, rel=0.02)


def test_a_gain_that_is_only_too_unsure_as_measured_needs_more_rounds_whatever_was_left(tmp_path):
    facts = {"kept_ns": round(5e6 * 60), "kept_each_ns": 100_000_000}
    note = {"arm": 2, "name": "validation-off", "state": "effect", "effect": 12, "facts": facts}
    report = reported(tmp_path / "r", (choice("validation-off"),), {2: 1.1}, notes=(note,), spread=0.6, asked={"ended_by": "budget"})

    row = row_of(report, "validation-off")
    assert (row["verdict"], row["held_back"]) == ("cannot distinguish", None)
    assert "--budget" in report["run"]["next_command"]


def test_where_all_but_nothing_was_taken_away_that_tells_nothing_and_the_function_is_to_be_left_out(tmp_path):
    report, row = with_first_batches(tmp_path, "validation-off", "other", 1.0, 8.0)

    assert (row["verdict"], row["held_back"], row["below"]) == ("cannot distinguish", "kept", None)
    page = drawn(report)
    assert "as measured it gains 1.00x, but the first batch of each validation is still read (160 ms)" in page
    assert "use stub=MODULE:FUNCTION" in page
    # Longer it would tell no more.
    assert "--budget" not in report["run"]["next_command"]


@pytest.mark.parametrize(("given", "expected"), [(72, 20 / 12), (60, 20 / 12), (270, 20 / 18), (None, 20 / 12)])
def test_a_step_that_receives_several_batches_has_as_many_floors(tmp_path, given, expected):
    floor = {"arm": 2, "name": "mock-loader", "state": "effect", "effect": given, "facts": {"floor_ns": 2_000_000}}

    report = reported(tmp_path / "r", (choice("mock-loader"),), {2: 2.0}, notes=(floor,))

    assert row_of(report, "mock-loader")["gain"]["value"] == pytest.approx(expected, rel=0.02)


def test_untried_findings_stay_in_the_report(tmp_path):
    asked = {"untried": (untried("slow-callback", "not asked for"),)}
    report = reported(tmp_path / "r", (choice("prefetch=4"),), {2: 1.0}, asked=asked)

    (row,) = [row for row in report["experiments"] if row["state"] == "untried"]
    assert (row["rule"], row["role"], row["reason"]) == ("slow-callback", "none", "not asked for")
    assert row["predicted"]["value"] > 1.1


def test_levers_of_a_plan_that_was_never_taken_up_are_unmeasured(tmp_path):
    folder = make_recording(tmp_path / "r", SLOW_CALLBACK)
    save(made_experiment((STUB,), ended_by="script ended", exit_code=3), folder)

    report = diagnose_recording(folder)

    validate(report)
    (row,) = report["experiments"]
    assert (row["lever"], row["state"], row["reason"]) == (STUB.name, "unmeasured", "the training ended before it was tested")
    facts = report["run"]["experiment"]
    assert (facts["ended_by"], facts["exit_code"], facts["seed"], facts["trustworthy"]) == ("script ended", 3, None, None)
    assert report["run"]["steps"] > 300


@pytest.mark.parametrize(("ratio", "severity"), [(0.9, "info"), (0.2, "notice"), (3.0, "notice")])
def test_a_sandbox_that_writes_at_another_speed_is_a_doubt(tmp_path, ratio, severity):
    folder = make_recording(tmp_path / "r", SLOW_CALLBACK)
    plain: Experiment = made_experiment((STUB,))
    save(replace(plain, place=replace(plain.place, write_ratio=ratio)), folder)

    (row,) = [row for row in diagnose_recording(folder)["health"] if row["name"] == "sandbox-writes"]

    assert row["severity"] == severity


REFUSED = {"arm": 2, "name": "workers=4", "state": "not applicable", "reason": "read once only", "rerun": 1}


def by_runs(folder: Path, found: RepeatedRuns, role: Role = "other", **more: Any) -> dict[str, Any]:
    """The report of an experiment whose one lever could not be switched."""
    chosen, asked = choice("workers=4", role, "slow-callback"), {"repeated": AllRepeated(levers={"workers=4": found}, **more)}
    return reported(folder, (chosen,), {}, notes=(REFUSED,), asked=asked)


def test_a_lever_that_could_not_be_switched_is_judged_by_whole_runs_and_says_so(tmp_path):
    speeds = Throughputs(per="sample", as_is_per_s=100.0, per_s=200.0)
    found = RepeatedRuns(state="measured", ratios=(1.9, 2.0, 2.1, 2.0), steps=320, effect=40, facts={"workers": 4}, throughputs=speeds)
    report = by_runs(tmp_path / "r", found, "fix")

    row = row_of(report, "workers=4")
    assert (row["how"], row["state"], row["verdict"], row["rounds"], row["steps"], row["effect"]) == (
        "re-runs", "measured", "proved", 4, 320, 40,
    )  # fmt: skip
    # Student with three degrees of freedom.
    assert (row["gain"]["low"], row["gain"]["value"], row["gain"]["high"]) == pytest.approx((1.875, 1.998, 2.13), rel=0.01)
    assert (row["used"], row["wall"], row["corrected"], row["facts"]) == ("wall", row["gain"], None, {"workers": 4})
    assert row["throughput"] == {"per": "sample", "as_is_per_s": 100.0, "per_s": 200.0}
    assert report["findings"][0]["gain"]["measured"] == row["gain"]
    page = " ".join(render(report, width=100, color=False).split())
    assert "measured by 4 pairs of whole runs · it could not be switched (read once only)" in page


@pytest.mark.parametrize(
    ("ratios", "verdict"),
    [
        ((2.0, 2.0, 2.01), "cannot distinguish"),
        ((1.0, 1.001, 0.999, 1.0), "refuted"),
        ((0.5, 2.0, 4.0, 1.0), "cannot distinguish"),
    ],
    ids=["three pairs", "no gain", "too uneven"],
)
def test_whole_runs_are_held_to_the_rules_of_blocks(tmp_path, ratios, verdict):
    row = row_of(by_runs(tmp_path / "r", RepeatedRuns(state="measured", ratios=ratios)), "workers=4")

    assert (row["verdict"], row["rounds"]) == (verdict, len(ratios))


@pytest.mark.parametrize(
    ("of_runs", "said", "state", "reason"),
    [
        ("unmeasured", "8 runs take 1 h", "not applicable", "and whole runs were not compared: 8 runs take 1 h"),
        ("failed", "it ended by itself", "failed", "and in a run of its own: it ended by itself"),
        ("not applicable", "no workers", "not applicable", "and in a run of its own: no workers"),
    ],
    ids=["too long", "failed", "not there either"],
)
def test_a_lever_that_whole_runs_could_not_have_either_says_both_reasons(tmp_path, of_runs, said, state, reason):
    row = row_of(by_runs(tmp_path / "r", RepeatedRuns(state=of_runs, reason=SAID(said=said))), "workers=4")

    assert (row["state"], row["reason"], row["gain"], row["verdict"], row["how"]) == (state, f"read once only; {reason}", None, None, None)


def test_whole_runs_of_which_one_failed_late_are_no_proof(tmp_path):
    found = RepeatedRuns(state="failed", reason=SAID(said="it ended by itself"), ratios=(1.9, 2.0, 2.1, 2.0))
    report = by_runs(tmp_path / "r", found, "fix")

    row = row_of(report, "workers=4")
    assert (row["state"], row["verdict"], row["rounds"], row["how"]) == ("failed", None, 4, "re-runs")
    assert row["gain"]["low"] < 2.0 < row["gain"]["high"]
    assert report["run"]["experiment"]["reached"] is None
    assert ", in 4 pairs of whole runs" in drawn(report)


def test_whole_runs_say_how_many_pairs_a_verdict_takes(tmp_path):
    page = drawn(by_runs(tmp_path / "r", RepeatedRuns(state="measured", ratios=(2.0, 2.0, 2.01))))

    assert "3 pairs of whole runs: fewer than 4 prove nothing" in page
    assert "too few runs" not in page


def test_a_lever_that_refused_late_is_known_by_the_whole_runs_that_were_made_then(tmp_path):
    chosen, found = choice("workers=4"), RepeatedRuns(state="measured", ratios=(2.0, 2.0, 2.01, 2.0))
    asked = {"repeated": AllRepeated(levers={"workers=4": found})}
    report = reported(tmp_path / "r", (chosen,), {2: 1.2}, notes=(REFUSED,), given_up_after={2: 6}, asked=asked)

    row = row_of(report, "workers=4")
    assert (row["state"], row["verdict"], row["rounds"], row["how"]) == ("measured", "proved", 4, "re-runs")
    assert report["run"]["experiment"]["reached"] == pytest.approx((row["wall"]["high"] / row["wall"]["low"]) ** 0.5 - 1)


def test_whole_runs_that_differ_without_a_lever_are_not_trusted(tmp_path):
    report = by_runs(tmp_path / "r", RepeatedRuns(state="measured", ratios=(1.5,) * 4), control=(1.2, 1.21, 1.2, 1.22))

    assert report["run"]["experiment"]["trustworthy"] is False
    assert "reruns-not-trustworthy" in [row["name"] for row in report["health"]]


def test_what_a_lever_gained_before_the_script_died_of_it_is_no_gain_of_the_fix(tmp_path):
    faults = (LeverFault(choice=STUB, reason=SAID(said="out of memory while it was on")),)
    report = reported(tmp_path / "r", (STUB,), {2: 1.6}, asked={"faults": faults, "ended_by": "a lever"})

    row = row_of(report, STUB.name)
    assert (row["state"], row["verdict"], row["held_back"]) == ("failed", None, None)
    assert report["findings"][0]["gain"]["measured"] is None
    assert report["run"]["experiment"]["reached"] is None
    assert "out of memory while it was on | measured until then, in " in drawn(report)
