"""Events that are known by their period only."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import numpy as np
import polars as pl
import pytest

from made_events import Events
from made_parts import function_part
from slowstep.analyses.ledger.ledger import Ledger
from slowstep.analyses.over_time.event_name import EventName
from slowstep.analyses.over_time.over_time import _found_events, _start_name
from slowstep.parts import BODY, VALIDATION, Part, PartKind
from slowstep.workflow.diagnose_recordings import diagnose_recording

STEPS = 200
NO_TURNS = np.zeros(STEPS, dtype=np.bool_)


@pytest.mark.parametrize(
    ("starts", "read", "name"),
    [
        ([], [], EventName.LOADER_START),
        ([0], [0, 0], EventName.LOADER_START),
        ([0, 1], [0, 1], EventName.EPOCH_CHANGE),
        ([], [0, 1], EventName.EPOCH_CHANGE),
    ],
    ids=["none seen", "the first epoch", "two epochs", "two epochs, starts unseen"],
)
def test_the_first_start_of_a_loader_changes_no_epoch(starts, read, name):
    trainer: Any = SimpleNamespace(starts=pl.DataFrame({"iterator": starts}), waits=pl.DataFrame({"iterator": read}))

    assert _start_name(trainer) == name


@pytest.mark.parametrize(("part", "known"), [(VALIDATION, True), (function_part("output", "check", "train.py", 9), False)], ids=str)
def test_a_validation_that_stacks_smear_over_all_steps_is_known_by_its_period(part, known):
    length = np.random.default_rng(1).normal(10e6, 1e5, STEPS)
    validating, queued = np.full(STEPS, 1e5), np.zeros(STEPS)
    validating[9::10], queued[9::10] = 40e6, 20e6
    ledger = Ledger(parts=(BODY, part, Part("output", PartKind.CORE_WAIT)), ns=np.vstack([length, validating, queued]), gap_stacks={})

    (event,) = _found_events(ledger, length + validating, NO_TURNS)

    assert (event.name, event.known, event.every_steps, event.count) == ("validation" if known else None, known, 10.0, 20)
    # A validation goes with what it waited for a core; of what nobody knows, only what is longer than elsewhere.
    assert event.each_ns == pytest.approx(60e6 if known else 40e6, rel=0.01)


def test_what_recurs_beside_a_known_event_has_its_own_name():
    length = np.random.default_rng(1).normal(10e6, 1e5, STEPS)
    saving, flushing = np.zeros(STEPS), np.zeros(STEPS)
    saving[9::10], flushing[9::10] = 40e6, 20e6
    parts = (BODY, Part("store", PartKind.SAVE, "torch.save"), function_part("output", "flush", "train.py", 9))
    ledger = Ledger(parts=parts, ns=np.vstack([length, saving, flushing]), gap_stacks={})

    (event,) = _found_events(ledger, length + flushing, NO_TURNS, [parts[1]])

    assert (event.part, event.every_steps) == (parts[2], 10.0)
    assert event.each_ns == pytest.approx(20e6, rel=0.01)


def test_what_comes_with_every_fifth_epoch_is_not_said_of_each():
    """Each part of a step's time is one event's: what it has in common with the other epochs' ends is theirs."""
    length = np.random.default_rng(1).normal(10e6, 1e5, STEPS)
    logging, clustering = np.zeros(STEPS), np.zeros(STEPS)
    logging[4::5], clustering[4::20] = 2e6, 100e6
    parts = (BODY, function_part("output", "log", "train.py", 9), function_part("output", "kmeans", "train.py", 16))
    ledger = Ledger(parts=parts, ns=np.vstack([length, logging, clustering]), gap_stacks={})

    found = _found_events(ledger, ledger.ns.sum(axis=0), NO_TURNS)

    assert [(event.part, event.every_steps, event.count) for event in found] == [(parts[2], 20.0, 10), (parts[1], 5.0, 40)]
    assert [event.each_ns for event in found] == pytest.approx([100e6, 2e6], rel=0.02)


def test_a_validation_that_takes_longer_now_and_then_is_one_event():
    length = np.random.default_rng(1).normal(10e6, 1e5, STEPS)
    validating = np.zeros(STEPS)
    validating[4::5] = 40e6
    validating[4::20] = 120e6
    ledger = Ledger(parts=(BODY, VALIDATION), ns=np.vstack([length, validating]), gap_stacks={})

    (event,) = _found_events(ledger, length + validating, NO_TURNS)

    assert (event.name, event.every_steps, event.count) == ("validation", 5.0, 40)
    assert event.each_ns == pytest.approx(60e6, rel=0.01)


@pytest.mark.parametrize(("loader", "updates", "may_stall"), [(True, 1, False), (False, 1, False), (False, 0, True), (False, 5, True)])
def test_the_turn_of_a_second_network_every_five_steps_is_no_stall(tmp_path, loader, updates, may_stall):
    """A critic of 10 ms a step, and 8 ms of a generator in each fifth; `updates` of its own optimizer in five steps."""
    events, now, uneven = Events(tmp_path), 0.0, np.random.default_rng(1).normal(10, 0.1, 80)
    if loader:
        events.loader()
    for k in range(80):
        if loader:
            events.wait(now, now + 0.1, k)
        for turn in range(2 if k % 5 == 4 else 1):
            length = 8 if turn else float(uneven[k])
            events.forward(now + 0.1, now + length / 2, module=turn)
            events.backward(now + length / 2, now + length - 1)
            if turn and not updates:
                now += length
                continue
            events.update(now + length - 1, now + length, optimizer=turn)
            now += length
        if updates == 5 and k % 5 != 4:
            events.update(now, now + 0.1, optimizer=1)
            now += 0.1

    report = diagnose_recording(events.close())

    # No graph was looked at: longer forwards and backwards may be those of a larger input.
    assert "periodic-stall" not in {finding["rule"] for finding in report["findings"]}
    assert ("periodic-stall" in {row["rule"] for row in report["not_judged"]}) == may_stall
    (event,) = report["run"]["periodic"]
    assert (event["name"] == EventName.TURN) == (not may_stall)
