"""Levers where torchdata's `StatefulDataLoader` feeds the training: it is known, and is asked for batches in its own way."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch

from made_trainings import Samples, Script, plan_of, walk

stateful = pytest.importorskip("torchdata.stateful_dataloader")

# torchdata calls what torch wants no longer called.
pytestmark = pytest.mark.filterwarnings("ignore:'set_vital' is deprecated")

LEVERS = ("mock-loader", "constant-batch", "workers=2")


def test_levers_of_input_are_refused_by_its_name_and_a_run_can_build_it_otherwise(tmp_path: Path) -> None:
    def train(script: Script) -> None:
        script.train(stateful.StatefulDataLoader(Samples(), batch_size=4))

    before = vars(stateful.StatefulDataLoader)["__iter__"], vars(stateful.StatefulDataLoader)["__init__"]
    walked = walk(tmp_path / "r", plan_of(LEVERS, [0, 1, 2, 3]), train)

    assert walked.faults == {}
    for arm in range(1, 1 + len(LEVERS)):
        assert (walked.became(arm), walked.reason(arm)) == (["not applicable"], "StatefulDataLoader makes iterators of its own")
    # Where it was built is known.
    assert [note["arm"] for note in walked.notes if "rerun" in note] == [3]
    assert (vars(stateful.StatefulDataLoader)["__iter__"], vars(stateful.StatefulDataLoader)["__init__"]) == before


def test_a_validation_that_reads_it_can_be_left_out(tmp_path: Path) -> None:
    read = list[int]()

    def train(script: Script) -> None:
        validation = stateful.StatefulDataLoader(Samples(12), batch_size=4)
        loader = stateful.StatefulDataLoader(Samples(), batch_size=4)
        for batch in loader:
            more = script.step(batch)
            with torch.no_grad():
                read.append(len(list(validation)))
            if not more:
                break

    walked = walk(tmp_path / "r", plan_of(["validation-off"], [0, 1] * 2), train)

    assert walked.faults == {}
    assert walked.became() == ["ready", "effect"]
    assert set(read) == {1, 3}
