"""torchdata's `StatefulDataLoader`: its workers, starts and ends are its own, and recorded as torch's."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from recorded import Ran, Server, run_script

pytest.importorskip("torchdata.stateful_dataloader")

# Imported later than torch, and with persistent workers asked for a second epoch.
SCRIPT = """
import time
import torch
from torch.utils.data import Dataset

class Numbers(Dataset):
    def __len__(self):
        return 24
    def __getitem__(self, index):
        time.sleep(0.001)
        return torch.full((8,), float(index)), index

def train(loader):
    model = torch.nn.Linear(8, 1)
    optimizer = torch.optim.SGD(model.parameters(), lr=1e-4)
    for epoch in range(2):
        for inputs, targets in loader:
            optimizer.zero_grad()
            model(inputs).mean().backward()
            optimizer.step()

if __name__ == "__main__":
    from torchdata.stateful_dataloader import StatefulDataLoader
    train(StatefulDataLoader(Numbers(), batch_size=4, {arguments}))
"""

Run = Callable[[str], Ran]


@pytest.fixture
def run(server: Server, tmp_path: Path) -> Run:
    return lambda arguments: run_script(server, tmp_path, SCRIPT.replace("{arguments}", arguments))


@pytest.mark.parametrize(
    ("arguments", "ended"),
    [
        ("num_workers=1", {1, 2}),
        pytest.param("num_workers=1, persistent_workers=True", {2}, marks=pytest.mark.slow),
        pytest.param("num_workers=1, multiprocessing_context='spawn'", {1, 2}, marks=pytest.mark.slow),
    ],
    ids=["anew each epoch", "kept", "spawned"],
)
def test_its_workers_make_batches_that_are_recorded_with_its_starts_and_ends(run: Run, arguments: str, ended: set[int]) -> None:
    ran = run(arguments)

    assert ran.code == 0
    assert len(ran.workers) == len(ended)
    assert sorted(record.a for worker in ran.workers for record in worker.of("FETCH")) == sorted(2 * list(range(6)))
    assert len(ran.trainer.of("START")) == 2
    assert [(note["num_workers"], note["snapshot_every"]) for note in ran.trainer.noted("iterator")] == [(1, 1), (1, 1)]
    assert len([record for record in ran.trainer.of("WAIT") if not record.flags]) == 12
    assert {record.a for record in ran.trainer.of("SHUTDOWN")} == ended
    assert ran.trainer.faults == {}


def test_without_workers_its_requests_are_recorded_with_its_starts(run: Run) -> None:
    ran = run("num_workers=0")

    assert ran.code == 0
    assert len(ran.trainer.of("START")) == 2
    assert len(ran.trainer.of("FETCH")) == 12
    assert ran.trainer.faults == {}
