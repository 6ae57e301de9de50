"""Levers that act where the script builds its loader: what a running training refuses, a run of its own can have."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from levered import run_always, run_planned, said
from recorded import Ran, Server
from slowstep.record.writing import format as fmt

pytest.importorskip("torch")

# A sampler that can be read once cannot feed a second loader. The validation has a loader of its own, built by the same function.
SCRIPT = """
import sys
import torch
from torch.utils.data import DataLoader, Dataset, get_worker_info

class Makers(Dataset):
    def __len__(self):
        return 1 << 20

    def __getitem__(self, index):
        info = get_worker_info()
        return torch.tensor([0.0 if info is None else float(info.num_workers)])

class Once:
    def __init__(self, length):
        self.left = length
    def __iter__(self):
        return self
    def __next__(self):
        self.left -= 1
        if self.left < 0:
            raise StopIteration
        return self.left

def build(length):
    return DataLoader(Makers(), batch_size=4, sampler=Once(length))

loader = build(160)
validation = build(12)
model = torch.nn.Linear(1, 1)
optimizer = torch.optim.SGD(model.parameters(), lr=0.001)
seen, validated, sizes = set(), set(), set()
for number, batch in enumerate(loader):
    if number:
        seen |= set(batch.flatten().tolist())
        sizes.add(len(batch))
    optimizer.zero_grad()
    model(batch).mean().backward()
    optimizer.step()
    if number == 5:
        for batch in validation:
            validated |= set(batch.flatten().tolist())
print(sorted(seen), sorted(validated), sorted(sizes))
"""


@pytest.fixture(scope="module")
def place(server: Server, tmp_path_factory: pytest.TempPathFactory) -> str:
    """Where the script builds the loader of its training, as a refusal says it."""
    ran = run_planned(server, tmp_path_factory.mktemp("refused"), SCRIPT, "workers=2", "batch-size=8", blocks=(2,), steps=5)
    refused = {note["name"]: note for note in said(ran, "not applicable")}
    assert refused["workers=2"]["reason"] == "its sampler, a Once, is an iterator and can be read once only"
    # What cannot tell its length can be read anew even less.
    assert refused["batch-size=8"]["rerun"] == refused["workers=2"]["rerun"]
    return str(refused["workers=2"]["rerun"])


def built(server: Server, folder: Path, lever: str, place: str, text: str = SCRIPT) -> Ran:
    return run_always(server, folder, text, lever, **{fmt.ENV_LOADER: place, fmt.ENV_EXPERIMENT: "1"})


def on(ran: Ran) -> list[Any]:
    return [note["updates"] for note in said(ran, "on")]


def test_the_loader_of_the_training_is_built_with_the_lever_and_no_other_is(server: Server, place: str, tmp_path: Path) -> None:
    ran = built(server, tmp_path, "workers=2", place)

    assert ran.out.split("] ") == ["[2.0", "[0.0", "[4]\n"]
    assert on(ran) == [0]
    (effect,) = said(ran, "effect")
    assert effect["effect"] == 10
    assert effect["facts"] == {
        "workers": 2,
        "own_workers": 0,
        "prefetch_factor": 2,
        "persistent": True,
        "arguments": {"num_workers": 2, "persistent_workers": True},
    }
    assert ran.trainer.faults == {}


@pytest.mark.slow
def test_another_batch_size_is_one_from_the_first_batch_on(server: Server, place: str, tmp_path: Path) -> None:
    ran = built(server, tmp_path, "batch-size=8", place)

    assert ran.out.endswith("[8]\n")
    assert on(ran) == [0]


@pytest.mark.parametrize(
    ("lever", "elsewhere", "reason"),
    [
        ("workers=2", "1", "the script has built the loader that feeds the training at another place this time"),
        ("workers=0", None, "the loader has 0 workers already"),
        ("prefetch=4", None, "the loader has no workers"),
    ],
)
def test_what_cannot_be_had_there_either_leaves_the_loader_as_it_was(
    server: Server, place: str, tmp_path: Path, lever: str, elsewhere: str | None, reason: str
) -> None:
    ran = built(server, tmp_path, lever, elsewhere or place)

    assert ran.out.split("] ") == ["[0.0", "[0.0", "[4]\n"]
    assert [note["reason"] for note in said(ran, "not applicable")] == [reason]
    assert on(ran) == []


def test_a_value_that_cannot_be_meant_fails_and_the_script_goes_on(server: Server, place: str, tmp_path: Path) -> None:
    ran = built(server, tmp_path, "workers=two", place)

    assert (ran.code, len(said(ran, "failed"))) == (0, 1)


@pytest.mark.slow
def test_a_lever_without_meaning_here_has_no_run_of_its_own(server: Server, tmp_path: Path) -> None:
    plain = SCRIPT.replace("sampler=Once(length)", "sampler=range(length)")
    ran = run_planned(server, tmp_path, plain, "prefetch=4", "workers=0", blocks=(2, 3), steps=5)

    assert [json.dumps(note.get("rerun")) for note in said(ran, "not applicable")] == ["null", "null"]


@pytest.mark.slow
def test_a_loader_of_each_epoch_is_changed_at_the_same_place(server: Server, tmp_path: Path) -> None:
    text = SCRIPT.replace("loader = build(160)\n", "").replace(
        "for number, batch in enumerate(loader):", "for number, batch in enumerate(b for _ in range(4) for b in build(40)):"
    )
    refused = run_planned(server, tmp_path, text, "workers=2", blocks=(2,), steps=5)
    place = str(said(refused, "not applicable")[0]["rerun"])
    (tmp_path / "built").mkdir()
    ran = built(server, tmp_path / "built", "workers=2", place, text)

    assert ran.out.split("] ") == ["[2.0", "[0.0", "[4]\n"]
