"""Checkpoints that the training waits for: who writes them, what else they do, and what leaves them out."""

from __future__ import annotations

from typing import Any

import pytest

from judged import answer_of, finding, values
from made_measurements import SCRIPT, every, measurements
from made_parts import function_part
from slowstep.parts import CodePlace, Part, PartKind

NAME = "blocking-checkpoint"
SNAPSHOT = Part("store", PartKind.SAVING_FUNCTION, "Trainer.snapshot", CodePlace("train.py", 60))
AFTER_STEP = function_part("output", "after_step", "train.py", 80)


def written(by: str) -> Part:
    return Part("store", PartKind.SAVE, by)


def saves(parts: dict[Part, float], **changes: Any) -> dict[str, Any]:
    """Each fifth step is followed by a checkpoint whose parts take so many ms."""
    facts = {"count": 40, "every_steps": 5.0, "writes_each": 3.0, "bytes_each": 15e6, "where": "train.py:40"}
    return {"ledger": {part: every(5, ms) for part, ms in parts.items()}, "saves": facts, **changes}


def test_what_a_checkpoint_of_several_files_takes_is_all_that_one_step_writes():
    m = measurements(**saves({written("torch.save"): 12.5, written("safetensors.torch.save_file"): 6.0}))

    found = values(finding(NAME, m))

    assert (found["checkpoints in the window"], found["files of one"]) == (40, 3.0)
    assert found["one checkpoint"] == pytest.approx(18.5)


def test_what_a_function_that_writes_does_besides_is_the_checkpoints_and_leaving_it_out_is_the_change():
    m = measurements(
        **saves({written("torch.save"): 60.0, SNAPSHOT: 40.0}, stacks={SNAPSHOT: 100}, files={(SNAPSHOT.name, SNAPSHOT.place): SCRIPT})
    )

    found = finding(NAME, m)

    assert {part.kind for part in found.claims} == {PartKind.SAVE, PartKind.SAVING_FUNCTION}
    assert found.fixes[0].lever == "stub=__main__:Trainer.snapshot"
    assert answer_of("slow-callback", m) is None


def test_a_function_that_writes_little_of_it_is_not_left_out_for_what_the_loop_writes():
    m = measurements(**saves({written("torch.save"): 80.0, SNAPSHOT: 10.0}, written_within={SNAPSHOT: 0.25}))

    assert finding(NAME, m).fixes[0].lever == "checkpoint-off"


def test_a_function_that_mostly_does_something_else_is_a_callback():
    m = measurements(**saves({written("torch.save"): 40.0, AFTER_STEP: 60.0}, stacks={AFTER_STEP: 100}))

    assert AFTER_STEP in finding("slow-callback", m).claims
    assert AFTER_STEP not in finding(NAME, m).claims


@pytest.mark.parametrize(("function", "lever"), [("torch.save", "checkpoint-off"), ("pickle.dump", None), ("numpy.savez", None)])
def test_what_writes_anything_is_no_lever_to_leave_out(function, lever):
    found = finding(NAME, measurements(**saves({written(function): 60.0})))

    assert found.claims == (written(function),)
    assert found.fixes[0].lever == lever


@pytest.mark.parametrize("name", ["Trainer.save_checkpoint", "ModelCheckpoint.on_train_batch_end"])
def test_what_a_trainer_does_around_a_write_is_claimed_too(name):
    around = Part("store", PartKind.CHECKPOINT, name)

    assert finding(NAME, measurements(**saves({written("torch.save"): 6.0, around: 8.0}))).claims == (written("torch.save"), around)
