"""What `slowstep prove` advises next."""

from __future__ import annotations

from typing import Any

import pytest

from slowstep.document.next_step import NextStep
from slowstep.workflow.next_command.after_experiment import after_experiment
from slowstep.workflow.next_command.command_lines import of_script


def report_of(*rows: dict[str, Any]) -> dict[str, Any]:
    facts = {"ended_by": "precision", "budget_s": 10.0, "precision": 0.05, "took_s": 4.0, "trustworthy": True, "exit_code": None}
    usual = {"state": "measured", "verdict": "proved", "held_back": None, "rule": None, "role": "fix", "numerics": None, "gain": None}
    return {
        "findings": [
            {"rule": "serial-loader", "fixes": [{"text": "num_workers=1", "lever": "workers=1"}]},
            {"rule": "slow-callback", "fixes": [{"text": "call it less often", "lever": None}]},
        ],
        "run": {"experiment": facts, "command": ["train.py"]},
        "verdict": {"state": "healthy", "rule": None},
        "experiments": [usual | row for row in rows],
    }


@pytest.mark.parametrize(
    ("numerics", "following"),
    [
        ({"says": "losses not compared: ...", "needed_budget_s": 14}, "slowstep prove --levers autocast=bf16 --budget 14s train.py"),
        ({"says": "losses equal to the last bit"}, "slowstep explain autocast"),
        (None, "slowstep explain autocast"),
    ],
)
def test_a_lever_that_changes_numbers_and_is_proved_needs_its_losses_compared(numerics: dict[str, Any] | None, following: str) -> None:
    assert after_experiment(report_of({"lever": "autocast=bf16", "numerics": numerics}), ("--levers", "autocast=bf16")).command == following


def proved(lever: str, rule: str | None, gain: float, role: str = "fix") -> dict[str, Any]:
    return {"lever": lever, "rule": rule, "role": role, "gain": {"value": gain, "low": gain - 0.02, "high": gain + 0.02}}


@pytest.mark.parametrize("claims", [("part",), ()], ids=["a finding", "advice"])
def test_a_finding_that_no_lever_tries_is_mended_in_the_script(claims: tuple[str, ...]) -> None:
    report = report_of()
    report["findings"] = [{"rule": "serial-loader", "claims": claims, "fixes": [{"text": "make them in a thread", "lever": None}]}]
    report["run"]["experiment"]["ended_by"] = "nothing to try"

    step = after_experiment(report, ())

    by_hand = of_script("slowstep run train.py", "change the script: make them in a thread")
    assert step == (by_hand if claims else of_script("slowstep prove --all train.py"))


@pytest.mark.parametrize(
    ("rows", "first", "following"),
    [
        ([proved("workers=1", "serial-loader", 1.36)], "change the script: num_workers=1", "slowstep run train.py"),
        (
            [proved("workers=1", "serial-loader", 1.1), proved("stub=a:f", "slow-callback", 1.5)],
            "change the script: call it less often",
            "slowstep run train.py",
        ),
        (
            [proved("swap=a:f=a:g", "slow-callback", 1.5, "other")],
            "change the script: use a:g in place of a:f",
            "slowstep run train.py",
        ),
        ([proved("autocast=bf16", None, 1.3, "other")], None, "slowstep explain autocast"),
        ([proved("workers=1", "too-few-workers", 1.3)], None, "slowstep explain too-few-workers"),
    ],
    ids=["alone", "the larger of two", "faster code", "of no finding", "of a finding that is gone"],
)
def test_what_comes_next_follows_from_the_largest_gain_that_was_proved(
    rows: list[dict[str, Any]], first: str | None, following: str
) -> None:
    report = report_of(*rows)

    is_explained = following.startswith("slowstep explain")
    assert after_experiment(report, ()) == NextStep(first=first, command=following, starts_script=not is_explained)


@pytest.mark.parametrize(
    ("makes", "others", "also"),
    [
        ("loader", 0, ""),
        ("loader", 2, "the same call makes 2 more; tested on that of the training)"),
        ("settings", 0, "of all loaders of the trainer; tested on that of the training)"),
    ],
)
def test_what_is_one_call_is_named_with_its_place(makes: str, others: int, also: str) -> None:
    report = report_of(proved("workers=2", "serial-loader", 1.36, "other"))
    change = {"text": "DataLoader(..., num_workers=2)", "place": "data.py:3", "makes": makes, "others": others}
    report["run"]["experiment"]["outcome"] = {"lever": "workers=2", "change": change}

    step = after_experiment(report, ())

    assert step.command == "slowstep run train.py"
    assert step.first is not None
    assert step.first.partition(" (")[::2] == ("change data.py:3: DataLoader(..., num_workers=2)", also)


@pytest.mark.parametrize(("budget_s", "words"), [(10.0, " --budget 10s"), (60.0, "")])
def test_a_killed_experiment_is_to_be_made_again_as_it_was(budget_s: float, words: str) -> None:
    report = report_of({"lever": "workers=2", "state": "unmeasured", "verdict": None})
    report["run"]["experiment"] |= {"ended_by": "killed", "budget_s": budget_s, "trustworthy": None}

    assert after_experiment(report, ("--levers", "workers=2")).command == f"slowstep prove --levers workers=2{words} train.py"


def test_a_killed_experiment_of_no_levers_is_to_be_made_again_as_it_was() -> None:
    report = report_of()
    report["run"]["experiment"] |= {"ended_by": "killed", "trustworthy": None}

    assert after_experiment(report, ()).command == "slowstep prove --budget 10s train.py"


@pytest.mark.parametrize("ended_by", ["stood still", "script ended"])
def test_an_experiment_whose_script_failed_is_to_be_made_again_with_the_time_that_it_was_given(ended_by: str) -> None:
    report = report_of({"lever": "workers=2", "state": "unmeasured", "verdict": None})
    report["run"]["experiment"] |= {"ended_by": ended_by, "budget_s": 300.0, "trustworthy": None, "exit_code": 1}

    assert after_experiment(report, ("--levers", "workers=2")).command == "slowstep prove --levers workers=2 --budget 300s train.py"


@pytest.mark.parametrize(
    ("needed_s", "words"), [(None, " --budget 10s"), (9.0, " --budget 10s"), (54.0, ""), (99.5, " --budget 100s")], ids=str
)
def test_a_budget_that_is_known_to_be_too_short_is_not_given_again(needed_s: float | None, words: str) -> None:
    report = report_of()
    report["run"]["experiment"] |= {"ended_by": "killed", "needed_s": needed_s, "trustworthy": None}

    assert after_experiment(report, ()).command == f"slowstep prove{words} train.py"


@pytest.mark.parametrize(("needed_s", "words"), [(54.0, "--budget 90s"), (200.0, "--budget 200s")])
def test_more_time_is_what_a_verdict_takes_and_no_less_than_thrice(needed_s: float, words: str) -> None:
    report = report_of({"lever": "workers=2", "verdict": "cannot distinguish"})
    report["run"]["experiment"] |= {"ended_by": "budget", "budget_s": 30.0, "needed_s": needed_s}

    assert after_experiment(report, ()).command == f"slowstep prove {words} train.py"


@pytest.mark.parametrize(("budget_s", "words"), [(10.0, ""), (60.0, ""), (300.0, " --budget 300s")])
def test_other_levers_are_given_as_much_time_as_was_asked_for_and_no_less_than_usual(budget_s: float, words: str) -> None:
    report = report_of({"lever": "stub=data:blur", "verdict": "upper bound"})
    report["run"]["experiment"]["budget_s"] = budget_s

    assert after_experiment(report, ()).command == f"slowstep prove --levers swap=data:blur=data:blur_faster{words} train.py"


@pytest.mark.parametrize(
    ("trustworthy", "bound", "following"),
    [
        (True, "stub=data:blur", "slowstep prove --levers swap=data:blur=data:blur_faster train.py"),
        (False, "stub=data:blur", "slowstep prove --budget 60s train.py"),
        (True, "mock-loader", "slowstep prove --budget 60s train.py"),
    ],
)
def test_faster_code_is_to_be_written_once_its_bound_is_known_whatever_else_is_open(trustworthy: bool, bound: str, following: str) -> None:
    report = report_of({"lever": bound, "verdict": "upper bound"}, {"lever": "workers=2", "verdict": "cannot distinguish"})
    report["run"]["experiment"] |= {"ended_by": "budget", "trustworthy": trustworthy}

    assert after_experiment(report, ()).command == following


@pytest.mark.parametrize(("exit_code", "begins"), [(0, "let the script train longer"), (3, "fix the script's own error")])
def test_a_healthy_script_that_came_to_its_end_before_any_lever_was_tested_has_no_error_of_its_own(exit_code: int, begins: str) -> None:
    report = report_of()
    report["run"]["experiment"] |= {"ended_by": "script ended", "exit_code": exit_code, "trustworthy": None}

    assert str(after_experiment(report, ()).first).startswith(begins)
    assert after_experiment(report, ()).command == "slowstep prove --all train.py"


def test_why_a_script_was_not_started_again_is_said_beside_what_helps() -> None:
    report, why = report_of({"lever": "workers=2", "state": "unmeasured", "verdict": None}), "came to nothing (no room for a sandbox)"
    report["run"]["experiment"] |= {"ended_by": "script ended", "exit_code": 0, "starts": [{"reason": None}, {"reason": why}]}

    assert str(after_experiment(report, ()).first).endswith(f"before a lever was tested, and start 2 {why}")


@pytest.mark.parametrize(("state", "command"), [("bottleneck", "slowstep explain serial-loader"), ("undetermined", None)])
def test_a_bottleneck_is_explained_where_no_other_start_would_tell_more(state: str, command: str | None) -> None:
    report = report_of({"lever": "workers=2", "state": "unmeasured", "verdict": None})
    report["run"]["experiment"] |= {"ended_by": "script ended", "exit_code": 0}
    report["verdict"] = {"state": state, "rule": "serial-loader"}

    assert after_experiment(report, ()).command == command


@pytest.mark.parametrize(
    ("levers", "first", "command"),
    [
        ((None, None), "change the script: make them in a thread", "slowstep run train.py"),
        (("workers=2", None), "change the script: make them in a thread", "slowstep run train.py"),
        ((None, "stub=train:plot"), None, "slowstep prove train.py"),
    ],
    ids=["no lever", "the one that was refused", "another one"],
)
def test_a_lever_that_has_no_meaning_here_is_followed_by_what_can_be_done(
    levers: tuple[str | None, str | None], first: str | None, command: str
) -> None:
    report = report_of({"lever": "workers=1", "state": "not applicable", "verdict": None})
    report["run"]["experiment"]["ended_by"] = "no lever left"
    fix = {"text": "make them in a thread", "lever": levers[0], "bounded_by": levers[1]}
    report["findings"] = [{"rule": "serial-loader", "claims": ("part",), "fixes": [fix]}]

    assert after_experiment(report, ("--levers", "workers=1")) == of_script(command, first)


def test_the_training_itself_is_recorded_into_the_folder_that_was_asked_for() -> None:
    kept = ("--precision", "1%", "--out", "my runs", "--allow-writes", "--sandbox", "copy")

    step = after_experiment(report_of(proved("workers=1", "serial-loader", 1.36)), (), kept)

    assert step.command == "slowstep run --out 'my runs' train.py"
