"""`slowstep bench`: loaders of known speed, scripts that cannot be measured, and nothing left behind by any of them."""

from __future__ import annotations

import json
import signal
import time
from pathlib import Path
from typing import Any

import pytest

from launching import SLOWSTEP, Ended, Workplace
from slowstep.document.validity import faults

EXAMPLES = Path(__file__).resolve().parents[2] / "examples"
TRAIN = EXAMPLES / "case_study" / "train.py"
TIME_LIMIT_S = 150

pytestmark = [pytest.mark.slow, pytest.mark.timeout(300)]

SCRIPT = """\
import sys, time
import numpy as np
import torch
from torch.utils.data import DataLoader, Dataset, IterableDataset

torch.set_num_threads(1)
MODEL = torch.nn.Linear(8, 1)
OPTIMIZER = torch.optim.SGD(MODEL.parameters(), lr=0.01)


class Data(Dataset):
    def __init__(self, make, length=512):
        self.make, self.length = make, length

    def __len__(self):
        return self.length

    def __getitem__(self, index):
        return self.make(index)


def train(loader, steps=100_000, step_s=0.005):
    done = 0
    while done < steps:
        for batch in loader:
            OPTIMIZER.zero_grad()
            MODEL(torch.ones(4, 8)).mean().backward()
            time.sleep(step_s)
            OPTIMIZER.step()
            done += 1
            if done == steps:
                return
"""

SLEEPS = """
def make(index):
    time.sleep(0.005)
    return torch.zeros(8)

train(DataLoader(Data(make), batch_size=8, num_workers=1, shuffle=True))
"""

COMPUTES = """
class Compose:
    def __init__(self, *transforms):
        self.transforms = list(transforms)

    def __call__(self, sample):
        for transform in self.transforms:
            sample = transform(sample)
        return sample

def loop(sample):
    total = 0
    for number in range(20_000):
        total += number
    return sample

def double(sample):
    return sample * 2

class Augmented(Data):
    def __init__(self):
        super().__init__(None)
        self.transform = Compose(double, loop)

    def __getitem__(self, index):
        return self.transform(torch.ones(8))

train(DataLoader(Augmented(), batch_size=8, num_workers=1))
"""

# Arrays are pickled and go through a pipe, byte by byte.
CARRIES = """
SAMPLE = np.zeros((512, 512), np.float32)

def as_they_are(samples):
    return samples

train(DataLoader(Data(lambda index: SAMPLE, length=50_000), batch_size=16, num_workers=1, collate_fn=as_they_are))
"""


def bench(work: Workplace, what: str, script: str, *flags: str, budget: str = "12s", **settings: Any) -> Ended:
    """Run the command on a script."""
    work.write("train.py", SCRIPT + script)
    return work.finish(start(work, what, "train.py", *flags, budget=budget, **settings), TIME_LIMIT_S)


def start(work: Workplace, what: str, *words: str, budget: str = "12s", **settings: Any) -> Any:
    own = ("bench", what, "--out", str(work.runs), "--budget", budget, "--json", str(work.runs.parent / "bench.json"))
    return work.start(*SLOWSTEP, *own, *words, slowstep=False, **settings)


def report_of(work: Workplace) -> dict[str, Any]:
    report: dict[str, Any] = json.loads((work.runs.parent / "bench.json").read_text())
    assert faults(report) == []
    return report


def wait_for_reading(work: Workplace) -> None:
    """Until the loader has been read once."""
    until_s = time.monotonic() + TIME_LIMIT_S
    while not any('"drain"' in path.read_text() for path in work.runs.glob("*/*-*.jsonl")):
        assert time.monotonic() < until_s
        time.sleep(0.1)


def assert_untouched(ended: Ended) -> None:
    """The folder holds the script, and nothing that it wrote."""
    assert [Path(name).name for name in ended.files] == ["train.py"]


def test_a_sleeping_data_set_is_blocked_and_as_fast_as_its_sleep(work: Workplace) -> None:
    ended = bench(work, "data", SLEEPS)

    report = report_of(work)
    assert ended.code == 0, ended.err
    assert report["bench"]["bound"]["kind"] == "blocked"
    assert "time.sleep" in report["bench"]["bound"]["sentence"]
    assert 20 < report["bench"]["loader"]["samples_per_s"]["value"] < 200
    assert report["bench"]["stages"][0]["kind"] == "read"
    assert report["bench"]["stages"][0]["ms_per_sample"] > 5
    points = {point["workers"]: point["samples_per_s"]["value"] for point in report["bench"]["sweep"]["points"] if point["samples_per_s"]}
    # Twice, where nothing else waits for a core.
    assert points[2] > points[1]
    assert report["bench"]["whole"]["how"] == "max"
    assert_untouched(ended)


@pytest.mark.nightly
def test_a_loop_in_python_is_cpu_bound_and_its_transform_is_named(work: Workplace) -> None:
    ended = bench(work, "data", COMPUTES)

    report = report_of(work)
    assert ended.code == 0, ended.err
    assert report["bench"]["bound"]["kind"] == "cpu"
    largest = max(report["bench"]["stages"], key=lambda row: row["share"])
    assert (largest["kind"], largest["name"]) == ("transform", "loop")
    assert largest["share"] > 0.5
    assert largest["left_out_ms"] > 0.3 * largest["ms_per_sample"]
    assert {"double", "loop"} <= {row["name"] for row in report["bench"]["stages"]}


@pytest.mark.nightly
def test_large_pickled_samples_are_transport_bound(work: Workplace) -> None:
    ended = bench(work, "data", CARRIES)

    report = report_of(work)
    assert ended.code == 0, ended.err
    assert report["bench"]["bound"]["kind"] == "transport"
    assert max(report["bench"]["stages"], key=lambda row: row["share"])["kind"] == "transport"
    assert report["bench"]["sweep"]["bend"] == 0
    assert any("loader's indices" in note for note in report["run"]["notes"])


def test_the_compute_alone_is_faster_than_a_training_that_waits_for_its_input(work: Workplace) -> None:
    # Epochs of 16 steps: blocks are whole epochs, and of long ones few fit into the budget.
    ended = bench(work, "compute", SLEEPS.replace("Data(make)", "Data(make, length=128)"))

    report = report_of(work)
    assert ended.code == 0, ended.err
    compute = report["bench"]["compute"]
    assert compute["samples_per_s"]["value"] > 2 * compute["as_is_samples_per_s"]["value"]
    assert compute["samples_per_s"]["value"] < 8 / 0.005
    # Beside another load the halves may no longer be told apart.
    is_busy = (report["bench"]["foreign_share"] or 0.0) >= 0.2
    assert report["bench"]["whole"]["how"] == "max"
    assert report["bench"]["whole"]["binds"] in ({"loader", "both"} if is_busy else {"loader"})
    assert report["bench"]["loader"]["samples_per_s"]["value"] < 200
    assert report["bench"]["stages"] == []
    assert report["bench"]["sweep"] is None
    assert_untouched(ended)


@pytest.mark.nightly
def test_without_workers_both_add_up(work: Workplace) -> None:
    ended = bench(work, "data", SLEEPS.replace("num_workers=1", "num_workers=0"))

    report = report_of(work)
    assert ended.code == 0, ended.err
    whole = report["bench"]["whole"]
    assert whole["how"] == "sum"
    # 8 samples sleep 40 ms, and the step 5 ms.
    assert 8 / 0.10 < whole["predicted"]["value"] < 8 / 0.045
    assert whole["agrees"]
    assert "--levers workers=" in report["run"]["next_command"]


def test_a_script_that_never_trains_is_said_to(work: Workplace) -> None:
    ended = bench(work, "data", "print('nothing to do')")

    assert ended.code == 3
    assert "no training step was recorded" in ended.err
    assert "next_command" not in report_of(work)["run"]
    assert report_of(work)["bench"]["ended_by"] == "never trained"
    assert_untouched(ended)


def test_a_script_that_fails_shows_its_last_words(work: Workplace) -> None:
    ended = bench(work, "data", "raise SystemExit('no data here')")

    assert ended.code == 1
    assert "exit code 1" in ended.err
    assert "no data here" in ended.err


def test_a_loop_without_a_loader_has_none_to_measure(work: Workplace) -> None:
    ended = bench(work, "data", "train([0] * 64)")

    report = report_of(work)
    assert ended.code == 2
    assert report["bench"]["loader"] is None
    assert "no torch DataLoader" in report["bench"]["reason"]
    assert report["run"]["next_command"].startswith("slowstep run")
    assert_untouched(ended)


@pytest.mark.nightly
def test_of_two_loaders_the_one_that_is_waited_for_is_measured_and_the_compute_has_neither(work: Workplace) -> None:
    two = """
class Slow(Data):
    pass

LEFT = DataLoader(Slow(lambda index: time.sleep(0.01) or torch.zeros(2)), batch_size=4, num_workers=1)
RIGHT = DataLoader(Data(lambda index: torch.zeros(2)), batch_size=4, num_workers=1)

class Pairs:
    def __iter__(self):
        return zip(LEFT, RIGHT)

train(Pairs())
"""
    ended = bench(work, "data", two, budget="12s")

    report = report_of(work)
    assert ended.code == 0, ended.err
    assert report["bench"]["loader"]["dataset"] == "Slow"
    assert any(note.startswith("the training reads 2 loaders") for note in report["run"]["notes"])
    # What is left on cached batches is not the wait for the other loader.
    assert report["bench"]["compute"]["samples_per_s"]["value"] > 2 * report["bench"]["loader"]["samples_per_s"]["value"]


@pytest.mark.nightly
def test_a_stream_without_a_length_is_measured(work: Workplace) -> None:
    stream = """
class Stream(IterableDataset):
    def __iter__(self):
        for index in range(300):
            time.sleep(0.002)
            yield torch.zeros(8)

train(DataLoader(Stream(), batch_size=8, num_workers=1))
"""
    ended = bench(work, "data", stream)

    report = report_of(work)
    assert ended.code == 0, ended.err
    assert report["bench"]["loader"]["stream"]
    assert report["bench"]["loader"]["dataset_length"] is None
    assert 50 < report["bench"]["loader"]["samples_per_s"]["value"] < 500
    assert report["bench"]["bound"]["kind"] == "blocked"


@pytest.mark.nightly
def test_ten_samples_are_enough(work: Workplace) -> None:
    ended = bench(work, "data", SLEEPS.replace("Data(make)", "Data(make, length=10)"), budget="10s")

    report = report_of(work)
    assert ended.code == 0, ended.err
    assert report["bench"]["loader"]["dataset_length"] == 10
    assert report["bench"]["loader"]["samples_per_s"]["value"] < 200


@pytest.mark.nightly
def test_workers_that_cannot_be_started_are_points_with_a_reason(work: Workplace) -> None:
    spawned = """
if __name__ == "__main__":
    class Local(Data):
        pass

    import threading
    data = Local(lambda index: torch.zeros(8))
    data.lock = threading.Lock()
    import multiprocessing
    multiprocessing.set_start_method("spawn")
    train(DataLoader(data, batch_size=8))
"""
    ended = bench(work, "data", spawned, budget="8s")

    report = report_of(work)
    assert ended.code == 0, ended.err
    assert report["bench"]["loader"]["workers"] == 0
    assert all("spawn" in point["reason"] for point in report["bench"]["sweep"]["points"] if point["workers"])


@pytest.mark.nightly
def test_what_a_worker_raises_is_told_and_the_rest_is_measured(work: Workplace) -> None:
    raising = """
import os
OWN = os.getpid()
COUNT = 0

def make(index):
    global COUNT
    COUNT += 1
    if os.getpid() != OWN and COUNT > 400:
        raise ValueError("sample is broken")
    return torch.zeros(8)

train(DataLoader(Data(make, length=100_000), batch_size=2, num_workers=1), steps=30, step_s=0.1)
"""
    ended = bench(work, "data", raising, budget="8s")

    report = report_of(work)
    assert "sample is broken" in report["bench"]["loader"]["reason"]
    assert ended.code == 0, ended.err
    assert report["bench"]["stages"] != []


@pytest.mark.nightly
def test_ctrl_c_leaves_a_partial_report_and_nothing_else(work: Workplace) -> None:
    work.write("train.py", SCRIPT + SLEEPS)
    process = start(work, "data", "train.py", budget="120s")
    wait_for_reading(work)
    process.send_signal(signal.SIGINT)
    ended = work.finish(process, TIME_LIMIT_S)

    assert ended.code == 130
    report = report_of(work)
    assert report["bench"]["ended_by"] == "interrupted"
    assert_untouched(ended)


@pytest.mark.nightly
def test_the_case_study_names_its_slow_transform(work: Workplace, pictures: Path) -> None:
    process = start(work, "data", str(TRAIN), "--variant", "slow-transform", "--steps", "400", "--data", str(pictures), budget="15s")
    ended = work.finish(process, TIME_LIMIT_S)

    report = report_of(work)
    assert ended.code == 0, ended.err
    assert report["bench"]["bound"]["kind"] == "cpu"
    largest = max(report["bench"]["stages"], key=lambda row: row["share"])
    assert (largest["kind"], largest["name"]) == ("transform", "augment_slow")
    assert {"read", "decode", "collate", "transport"} <= {row["kind"] for row in report["bench"]["stages"]}
