from __future__ import annotations

from slowstep.document.recorded_run import lever_notes

ON = {"name": "a=1", "state": "on", "updates": 4}


def test_no_lever_no_note():
    assert lever_notes((), [ON]) == []


def test_one_that_was_on_says_from_when():
    (note,) = lever_notes(("a=1",), [{"name": "as-is", "state": "ready"}, {"name": "a=1", "state": "ready"}, ON])

    assert note == "a=1 was on from step 5 on: times and results are not those of the script as it is"


def test_one_that_failed_later_was_on_before():
    (note,) = lever_notes(("a=1",), [ON, {"name": "a=1", "state": "failed", "reason": "OSError: no"}])

    assert note.startswith("a=1 was on from step 5")
    assert note.endswith("; it failed later and was undone (OSError: no)")


def test_each_has_its_own_reason():
    notes = lever_notes(
        ("a", "b", "c"),
        [{"name": "b", "state": "failed", "reason": "broken"}, {"name": "a", "state": "not applicable", "reason": "no loader"}],
    )

    assert notes == [
        "a was not on: not applicable, because no loader",
        "b was not on: it failed (broken)",
        "c was never on: no step was seen after which it was ready",
    ]
