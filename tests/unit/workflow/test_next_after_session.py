"""What a session whose verdict is undetermined is to do next."""

from __future__ import annotations

import json

import pytest

from made_recordings import Training, make_recording
from slowstep.diagnosis.law import Diagnosis
from slowstep.findings import Verdict
from slowstep.frameworks._known import plain
from slowstep.reasons import Wording
from slowstep.timeline.run_facts import Session
from slowstep.workflow.diagnose_recordings import diagnose_recording
from slowstep.workflow.next_command.after_session import after_session

OPEN = Verdict(state="undetermined", stage="compute", healthy=None, rule=None, reason=Wording("open", "it is not known")())


def following(*, kind: str = "a notebook", steps: int = 1100, is_alone: bool = True, **doubt: str) -> tuple[str | None, str | None]:
    diagnosis = Diagnosis(findings=(), not_judged=(), verdict=OPEN, next=None, **doubt)
    found = after_session(Session(kind=kind, from_ns=0, thread=1, prompts_ns=()), diagnosis, words=plain(), steps=steps, is_alone=is_alone)
    return found.first, found.command


def test_too_few_steps_are_to_be_more():
    assert following(steps=40) == (None, "with slowstep.record(): (200 steps or more, in one cell or command)")
    assert following(steps=40, kind="a script") == (None, "with slowstep.record(): (200 steps or more)")


def test_enough_steps_are_not_asked_for_again():
    assert following() == (None, "with slowstep.record(): (longer than these 1,100 steps, in one cell or command)")


@pytest.mark.parametrize(
    ("lever", "by_hand"),
    [
        ("batch-size=128", "try batch size 128"),
        ("workers=0", "try DataLoader(..., num_workers=0)"),
        ("threads=1", "try torch.set_num_threads(1)"),
    ],
)
def test_what_an_experiment_would_tell_is_to_be_tried_by_hand_or_in_a_script(lever, by_hand):
    first, then = following(deciding_levers=lever)

    assert first == f"{by_hand}, or put the training into a script: slowstep prove --levers {lever} python SCRIPT"
    assert then == "with slowstep.record(): (with that done, in one cell or command)"
    assert following(deciding_levers=lever, is_alone=False)[0] == by_hand


@pytest.mark.parametrize("levers", ["mock-loader", "workers=0,threads=1", "validation-off:every=2", "batch-size=2x"])
def test_what_cannot_be_written_by_hand_needs_a_script(levers):
    assert (following(deciding_levers=levers)[0] or "").startswith("put the training into a script: slowstep prove --levers ")
    assert following(deciding_levers=levers, is_alone=False)[0] is None


def test_what_the_doubt_asks_for_is_said_as_it_is():
    assert following(change="record each alone")[0] == "record each alone"


def test_the_report_of_a_session_with_one_size_of_steps_says_which_other_to_try(tmp_path):
    folder = make_recording(tmp_path, Training(steps=700, nodes=500))
    notes = folder / "launcher.jsonl"
    lines = [json.loads(line) for line in notes.read_text().splitlines()]
    (begun,) = [line for line in lines if line["kind"] == "run"]
    begun |= {"started_in": "a script", "recorded_from_ns": begun.pop("started_ns"), "thread": 1}
    notes.write_text("".join(json.dumps(line) + "\n" for line in lines))

    run = diagnose_recording(folder)["run"]

    assert run["before_next"].startswith(f"try batch size {2 * run['batch_size']}, or put the training into a script: ")
    assert (run["next_command"], run["next_in_python"]) == ("with slowstep.record(): (with that done)", True)
