from __future__ import annotations

import os
import re
from pathlib import Path

import pytest

from slowstep.record.launching.folder import create_folder, remove_folder
from slowstep.record.system.place import LauncherRank, find_launcher_rank

SLURM = {"SLURM_JOB_ID": "77", "SLURM_STEP_ID": "1", "SLURM_PROCID": "1", "SLURM_NTASKS": "4", "SLURMD_NODENAME": "node5.cluster"}
TORCHRUN = {"RANK": "1", "WORLD_SIZE": "2", "TORCHELASTIC_RUN_ID": "none"}


@pytest.mark.parametrize(
    ("environ", "expected"),
    [
        ({}, None),
        ({"RANK": "0", "WORLD_SIZE": "1"}, None),
        ({"RANK": "1"}, None),
        ({"RANK": "one", "WORLD_SIZE": "2"}, None),
        ({"RANK": "1", "WORLD_SIZE": "2"}, (1, 2)),
        ({"OMPI_COMM_WORLD_RANK": "3", "OMPI_COMM_WORLD_SIZE": "8"}, (3, 8)),
        ({"PMI_RANK": "0", "PMI_SIZE": "2"}, (0, 2)),
        (SLURM, (1, 4)),
        # A shell in a job of four tasks is one task.
        (SLURM | {"SLURM_STEP_NUM_TASKS": "1"}, None),
        # torchrun inside a task of srun.
        (SLURM | TORCHRUN, (1, 2)),
    ],
)
def test_the_environment_says_which_launcher_of_how_many_this_is(environ: dict[str, str], expected: tuple[int, int] | None) -> None:
    place = find_launcher_rank(environ)

    assert (place and (place.rank, place.size)) == expected


def test_only_the_first_launcher_speaks() -> None:
    places = [find_launcher_rank(SLURM | {"SLURM_PROCID": str(rank)}) for rank in range(3)]

    assert [place.speaks for place in places if place] == [True, False, False]


def test_tasks_of_slurm_meet_in_a_folder_named_for_the_job(tmp_path: Path) -> None:
    places = [find_launcher_rank(SLURM | {"SLURM_PROCID": str(rank)}) for rank in range(2)]
    folders = [Path(create_folder(parent=str(tmp_path / "runs"), stem="train", place=place)) for place in places]

    assert {folder.parent for folder in folders} == {tmp_path / "runs" / "slurm-77.1-train"}
    assert [folder.name for folder in folders] == [f"node5-rank{rank}-{os.getpid()}" for rank in range(2)]
    assert (tmp_path / "runs" / ".gitignore").exists()


def test_a_requeued_job_has_another_folder() -> None:
    first, again = find_launcher_rank(SLURM), find_launcher_rank(SLURM | {"SLURM_RESTART_COUNT": "1"})

    assert first is not None
    assert again is not None
    assert first.job != again.job


def test_ranks_of_torchrun_meet_in_a_folder_named_for_its_agent(tmp_path: Path) -> None:
    folders = [
        create_folder(parent=str(tmp_path), stem="train", place=find_launcher_rank(TORCHRUN | {"RANK": rank})) for rank in ("0", "1")
    ]
    jobs = {Path(folder).parent.name for folder in folders}

    assert len(jobs) == 1
    assert re.fullmatch(rf"\d{{8}}-\d{{6}}-torchrun-{os.getppid()}-train", jobs.pop())


def test_without_a_job_the_folder_itself_is_named_by_host_rank_and_process(tmp_path: Path) -> None:
    place = LauncherRank(rank=3, size=4, host="node/../5", job=None)
    folder = Path(create_folder(parent=str(tmp_path), stem="train", now_s=0, place=place))

    assert folder.parent == tmp_path
    assert re.fullmatch(rf"\d{{8}}-\d{{6}}-train-node_.._5-rank3-{os.getpid()}", folder.name)


def test_a_command_that_could_not_start_takes_its_jobs_folder_away_only_when_that_is_empty(tmp_path: Path) -> None:
    runs = tmp_path / "slowstep_runs"
    first, second = (create_folder(parent=str(runs), stem="train", place=find_launcher_rank(SLURM | {"SLURM_PROCID": r})) for r in "01")

    remove_folder(first)
    assert Path(second).exists()
    remove_folder(second)
    assert not runs.exists()
