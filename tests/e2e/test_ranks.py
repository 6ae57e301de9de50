"""Trainings of several processes, in all the ways in which they are started: every rank is recorded and has a report."""

from __future__ import annotations

import json
import os
import signal
import socket
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from launching import SLOWSTEP, Ended, Workplace, count_records
from slowstep.document.validity import validate
from slowstep.record.writing import format as contract

pytest.importorskip("torch.distributed")
pytestmark = pytest.mark.slow

TORCHRUN = str(Path(sys.executable).with_name("torchrun"))
TWO = ("--standalone", "--nproc-per-node", "2")

# Rank 1 stands still for 30 ms after every update, ten times as long as the step takes else; `ENDS` says how rank 1 ends before its time.
TRAINING = """\
import os, signal, sys, time
import torch
import torch.distributed as dist
from torch.nn.parallel import DistributedDataParallel
from torch.utils.data import DataLoader, TensorDataset

def standing_still():
    time.sleep(0.03)

def train(rank, world, steps):
    torch.set_num_threads(1)
    if world > 1:
        dist.init_process_group("gloo", rank=rank, world_size=world)
    model = torch.nn.Sequential(torch.nn.Linear(64, 64), torch.nn.ReLU(), torch.nn.Linear(64, 1))
    model = DistributedDataParallel(model) if world > 1 else model
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
    loader = DataLoader(TensorDataset(torch.zeros(80, 64), torch.zeros(80, 1)), batch_size=4)
    done = 0
    while done < steps:
        for inputs, targets in loader:
            if done == steps:
                break
            optimizer.zero_grad()
            torch.nn.functional.mse_loss(model(inputs), targets).backward()
            optimizer.step()
            done += 1
            if rank == 1:
                standing_still()
            if rank == 1 and done == 50 and os.environ.get("ENDS") == "raises":
                raise ValueError("rank 1 gives up")
            if rank == 1 and done == 50 and os.environ.get("ENDS") == "killed":
                os.kill(os.getpid(), signal.SIGKILL)
    if world > 1:
        # gloo's own thread may still hold what backward left there: where it drops that while Python is taken apart, the process aborts.
        dist.barrier()
        time.sleep(0.2)
        dist.destroy_process_group()
"""
UNDER_LAUNCHER = f'{TRAINING}\ntrain(int(os.environ["RANK"]), int(os.environ["WORLD_SIZE"]), int(sys.argv[1]))\n'


@pytest.fixture
def job(work: Workplace) -> Workplace:
    work.write("train.py", UNDER_LAUNCHER)
    return work


def reports(folder: Path) -> dict[int, dict[str, Any]]:
    """All reports of a recording by the number of their training."""
    found = [json.loads(path.read_text()) for path in folder.glob("report*.json")]
    for report in found:
        validate(report)
    return {report["run"]["training"]: report for report in found}


def sharing_ms(report: dict[str, Any]) -> float:
    return float(next(row["ms_per_step"] for row in report["ledger"] if row["stage"] == "gradient_sharing"))


def updates(folder: Path) -> list[int]:
    return [count_records(path, contract.UPDATE) for path in sorted(folder.glob("*.rec")) if path.stem != "launcher"]


def assert_straggler_is_named(ended: Ended, folder: Path) -> None:
    """Rank 1 is shown first, for what it does; rank 0 waits for it."""
    assert ended.code == 0, ended.err
    found = reports(folder)
    assert sorted(found) == [0, 1]
    first = json.loads((folder / "report.json").read_text())
    assert (first["run"]["rank"], first["run"]["ranks"]) == (1, 2)
    assert (first["verdict"]["state"], first["verdict"]["rule"]) == ("bottleneck", "slow-callback")
    # 30 ms are planted, and rank 0 waits for no less; what both wait for the exchange itself depends on the machine.
    assert sharing_ms(found[0]) - sharing_ms(found[1]) > 15
    assert "waits for rank 1" in found[0]["verdict"]["summary"]
    assert "> 1" in ended.err


def test_torchrun_shows_the_rank_that_the_other_waits_for(job: Workplace) -> None:
    ended = job.run(TORCHRUN, *TWO, "train.py", "120")

    assert_straggler_is_named(ended, job.recording())


@pytest.mark.nightly
def test_the_module_that_torchrun_is_does_as_well(job: Workplace) -> None:
    ended = job.run("-m", "torch.distributed.run", *TWO, "train.py", "120")

    assert_straggler_is_named(ended, job.recording())


@pytest.mark.nightly
def test_accelerate_launch_does_as_well(work: Workplace) -> None:
    pytest.importorskip("accelerate", reason="accelerate is not installed (it is no part of the extra `test`)")
    script = TRAINING + (
        "\nfrom accelerate import Accelerator\naccelerator = Accelerator(cpu=True)\n"
        "model = torch.nn.Linear(64, 1)\n"
        "loader = DataLoader(TensorDataset(torch.zeros(960, 64), torch.zeros(960, 1)), batch_size=4)\n"
        "model, optimizer, loader = accelerator.prepare(model, torch.optim.SGD(model.parameters(), lr=0.01), loader)\n"
        "def main():\n"
        "    for inputs, targets in loader:\n"
        "        optimizer.zero_grad()\n"
        "        accelerator.backward(torch.nn.functional.mse_loss(model(inputs), targets))\n"
        "        optimizer.step()\n"
        "        if accelerator.process_index == 1: standing_still()\n"
        "main()\naccelerator.wait_for_everyone()\ntime.sleep(0.2)\naccelerator.end_training()\n"
    )
    work.write("train.py", script)
    launch = (sys.executable, "-m", "accelerate.commands.launch", "--multi_gpu", "--num_processes", "2", "--num_machines", "1")
    more = ("--mixed_precision", "no", "--dynamo_backend", "no", "--main_process_port", str(free_port()))
    ended = work.run(*launch, *more, "train.py", env=work.environment(ACCELERATE_USE_CPU="true"))

    assert_straggler_is_named(ended, work.recording())


@pytest.mark.nightly
def test_ranks_that_are_spawned_are_seen(work: Workplace) -> None:
    work.write("train.py", f"{TRAINING}\nif __name__ == '__main__':\n    torch.multiprocessing.spawn(train, args=(2, 120), nprocs=2)\n")
    ended = work.run("train.py", env=work.environment(MASTER_ADDR="127.0.0.1", MASTER_PORT=str(free_port())))

    assert_straggler_is_named(ended, work.recording())


def test_trainings_side_by_side_that_share_nothing_are_reported_singly(work: Workplace) -> None:
    main = (
        "if __name__ == '__main__':\n"
        "    import multiprocessing\n"
        "    both = [multiprocessing.Process(target=train, args=(rank, 1, 60 + 20 * rank)) for rank in (0, 1)]\n"
        "    for one in both: one.start()\n"
        "    for one in both: one.join()\n"
    )
    work.write("train.py", f"{TRAINING}\n{main}")
    ended = work.run("train.py")
    found = reports(work.recording())

    assert ended.code == 0, ended.err
    assert [(report["run"]["rank"], report["run"]["ranks"]) for report in found.values()] == [(None, 1)] * 2
    # The longer one is shown.
    assert json.loads((work.recording() / "report.json").read_text())["run"]["recorded_steps"] == 80
    assert {sharing_ms(report) for report in found.values()} == {0}


@pytest.mark.nightly
def test_after_so_many_steps_of_any_rank_the_recording_ends_in_all_and_the_training_goes_on(job: Workplace) -> None:
    ended = job.run(TORCHRUN, *TWO, "train.py", "200", options=("--steps", "60"))

    assert ended.code == 0, ended.err
    counted = updates(job.recording())
    assert max(counted) == 60
    assert min(counted) >= 59
    assert len(reports(job.recording())) == 2


@pytest.mark.nightly
def test_after_a_time_the_recording_ends_in_all(job: Workplace) -> None:
    ended = job.run(TORCHRUN, *TWO, "train.py", "300", options=("--for", "1s"))

    assert ended.code == 0, ended.err
    counted = updates(job.recording())
    assert max(counted) < 300
    assert max(counted) - min(counted) <= 1


def test_after_so_many_steps_of_any_rank_stop_ends_all_and_leaves_none(job: Workplace) -> None:
    ended = job.run(TORCHRUN, *TWO, "train.py", "1000000", options=("--steps", "60", "--stop"))

    counted = updates(job.recording())
    assert max(counted) == 60
    assert min(counted) >= 59
    assert "rank 0 of 2" in ended.err or "rank 1 of 2" in ended.err
    (ending,) = job.launcher_notes("exit")
    assert ending["by"] == "slowstep --stop"
    assert len(reports(job.recording())) == 2


@pytest.mark.parametrize("how", [pytest.param("raises", marks=pytest.mark.nightly), "killed"])
def test_a_rank_that_ends_before_its_time_leaves_a_report_of_what_there_was(job: Workplace, how: str) -> None:
    ended = job.run(TORCHRUN, *TWO, "train.py", "1000", env=job.environment(ENDS=how))

    assert ended.code == 1, ended.err
    assert sorted(reports(job.recording())) == [0, 1]
    assert max(updates(job.recording())) in (50, 51)


def test_a_rank_that_never_trains_is_said(work: Workplace) -> None:
    main = (
        'rank, world = int(os.environ["RANK"]), int(os.environ["WORLD_SIZE"])\n'
        'dist.init_process_group("gloo")\n'
        "if rank == 0:\n"
        "    train(0, 1, 60)\n"
        "dist.barrier()\n"
    )
    work.write("train.py", f"{TRAINING}\n{main}")
    ended = work.run(TORCHRUN, *TWO, "train.py")

    report = json.loads((work.recording() / "report.json").read_text())
    assert ended.code == 0, ended.err
    assert report["run"]["rank"] == 0
    assert "idle-ranks" in {row["name"] for row in report["health"]}
    assert "rank 1 joined the process group" in " ".join(ended.err.split())


def free_port() -> int:
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        return int(listener.getsockname()[1])


def start_task(work: Workplace, rank: int, port: int, *words: str) -> subprocess.Popen[str]:
    """As srun would start it."""
    variables = {"SLURM_JOB_ID": "7", "SLURM_STEP_ID": "0", "SLURM_PROCID": str(rank), "SLURM_NTASKS": "2"}
    variables |= {"SLURMD_NODENAME": f"node{rank}", "MASTER_ADDR": "127.0.0.1", "MASTER_PORT": str(port)}
    main = "train(int(os.environ['SLURM_PROCID']), int(os.environ['SLURM_NTASKS']), 120)"
    work.write("task.py", f"{TRAINING}\n{main}\n")
    return work.start(*words, "task.py", options=("--json", "out.json"), env=work.environment(**variables))


@pytest.mark.nightly
def test_of_several_launchers_the_first_speaks_and_all_meet_in_one_folder(work: Workplace) -> None:
    port = free_port()
    tasks = [start_task(work, rank, port) for rank in range(2)]
    ended = [work.finish(task) for task in tasks]

    assert [one.code for one in ended] == [0, 0], [one.err for one in ended]
    assert "rank 0 of 2" in ended[0].err
    assert (ended[1].out, "slowstep" in ended[1].err) == ("", False)
    job = work.recording()
    assert job.name == "slurm-7.0-task"
    folders = sorted(job.iterdir())
    assert [folder.name.rsplit("-", 1)[0] for folder in folders] == ["node0-rank0", "node1-rank1"]
    for rank, folder in enumerate(folders):
        assert json.loads((folder / "report.json").read_text())["run"]["rank"] == rank
    assert json.loads((work.folder / "out.json").read_text())["run"]["rank"] == 0


@pytest.mark.nightly
def test_a_launcher_in_each_task_of_torchrun_does_the_same(job: Workplace) -> None:
    inner = (*SLOWSTEP, "run", "--out", str(job.runs), "train.py", "120")
    ended = job.run(TORCHRUN, *TWO, "--no-python", *inner, slowstep=False)

    assert ended.code == 0, ended.err
    assert ended.err.count("where a step's time goes") == 1
    folders = sorted(job.recording().iterdir())
    assert ["rank0" in folders[0].name, "rank1" in folders[1].name] == [True, True]
    assert all((folder / "report.json").exists() for folder in folders)


def test_interrupting_a_job_ends_it_as_without_slowstep_and_reports_what_there_was(job: Workplace) -> None:
    process = job.start(TORCHRUN, *TWO, "train.py", "1000000", start_new_session=True)
    deadline = 60.0
    while deadline > 0 and not (job.runs.exists() and any(job.runs.glob("*/*.rec")) and sum(updates(job.recording())) > 120):
        try:
            process.wait(0.2)
        except subprocess.TimeoutExpired:
            deadline -= 0.2
    os.killpg(process.pid, signal.SIGINT)
    ended = job.finish(process)

    assert ended.code != 0, ended.err
    assert sorted(reports(job.recording())) == [0, 1]
