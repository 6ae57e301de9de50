"""Rows that are taken out of chunks, in whole trainings: what is read for them is seen, and nothing else changes."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from launching import Workplace, assert_same
from made_libraries import packages, rows_in_a_file
from recorded import Ran, Server, run_script

pytest.importorskip("torch")

# Of 640 rows in chunks of 64. Reading and inflating one takes 2 ms of CPU time.
TRAIN = """
import sys
sys.path.insert(0, PACKAGES)
import torch
from h5py._hl.dataset import Dataset as Stored
from torch.utils.data import DataLoader, Dataset

torch.set_num_threads(1)

class Rows(Dataset):
    def __init__(self):
        self.stored = Stored(FILE, 640, 16, 64)

    def __len__(self):
        return 640

    def __getitem__(self, index):
        return torch.from_numpy(self.stored[index].copy())

def main(order, workers, epochs):
    torch.manual_seed(0)
    rows = Rows()
    model = torch.nn.Linear(16, 1)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
    for epoch in range(epochs):
        for inputs in DataLoader(rows, batch_size=16, shuffle=order == "random", num_workers=workers):
            optimizer.zero_grad()
            (model(inputs) - 1).square().mean().backward()
            optimizer.step()
    print(sum(float(parameter.sum()) for parameter in model.parameters()))
"""
LINE = 18


@pytest.fixture
def train(tmp_path: Path) -> str:
    """The script, beside what it reads and reads with."""
    stored = rows_in_a_file(tmp_path, 640, 16)
    return TRAIN.replace("PACKAGES", repr(str(packages(tmp_path, "h5py")))).replace("FILE", repr(str(stored)))


@pytest.fixture
def run(server: Server, tmp_path: Path, train: str) -> Callable[..., Ran]:
    def run(main: str, *, recorded: bool = True) -> Ran:
        return run_script(server, tmp_path, f"{train}\nif __name__ == '__main__':\n    {main}\n", recorded=recorded)

    return run


def _looks(ran: Ran) -> list[dict[str, Any]]:
    producers = ran.workers or [ran.trainer]
    notes = [note for producer in producers for note in producer.noted("stored_reads")]
    return notes[-1]["looks"] if notes else []


@pytest.mark.slow
@pytest.mark.parametrize("workers", [pytest.param(0, marks=pytest.mark.slow), 1])
def test_chunks_that_are_read_for_rows_are_seen_where_batches_are_made(workers: int, run: Callable[..., Ran]) -> None:
    plain, ran = run(f"main('random', {workers}, 1)", recorded=False), run(f"main('random', {workers}, 1)")

    assert (ran.code, ran.out, ran.err) == (plain.code, plain.out, plain.err)
    looks = _looks(ran)
    assert len(looks) >= 3
    rows = [row for look in looks for row in look["rows"]]
    assert {row["function"] for row in rows} == {"Rows.__getitem__"}
    assert {(tuple(row["chunk"]), tuple(row["selected"]), row["calls"]) for row in rows} == {((64, 16), (1, 16), 16)}
    assert all(row["inflating"] >= 8 for row in rows)
    assert {look["samples"] for look in looks} == {16}
    for process in (ran.trainer, *ran.workers):
        assert process.faults == {}


@pytest.mark.slow
@pytest.mark.parametrize("order", ["random", pytest.param("order", marks=pytest.mark.nightly)])
def test_a_training_that_waits_for_chunks_is_told_so_and_one_that_reads_them_in_order_is_not(
    order: str, work: Workplace, train: str
) -> None:
    work.write("train.py", f"{train}\nif __name__ == '__main__':\n    main(sys.argv[1], 0, 3)\n")

    plain, recorded = work.both("train.py", order)
    report = work.report("train.py", order)

    assert_same(plain, recorded)
    told = [row for finding in report["findings"] for row in (finding, *finding["folded"])]
    found = [row for row in told if row["rule"] == "read-amplification"]
    if order == "order":
        assert found == []
        return
    (amplified,) = found
    assert f"Rows.__getitem__ (train.py:{LINE})" in amplified["title"]
    assert "chunks of 64x16 read for 1x16" in amplified["title"]
    # Which of both gains more is for the number of cores to say.
    first = report["findings"][0]
    assert {first["rule"], *first["also"]} >= {"read-amplification", "serial-loader"}
