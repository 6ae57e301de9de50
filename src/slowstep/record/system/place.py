"""Where this launcher stands among others: `srun`, `torchrun` and `mpirun` start one `slowstep run` for each task of a job.

Then one of them speaks, and their folders, on a file system that all may share, are named by host, rank and process.
"""

from __future__ import annotations

import os
import time
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from slowstep.record.system import processes

if TYPE_CHECKING:
    from collections.abc import Mapping

# The variables of rank and size, by who sets them, the innermost launcher first. `sbatch` itself sets SLURM_PROCID too, but no step.
_VARIABLES: Final = (
    ("RANK", "WORLD_SIZE"),
    ("OMPI_COMM_WORLD_RANK", "OMPI_COMM_WORLD_SIZE"),
    ("PMI_RANK", "PMI_SIZE"),
    ("SLURM_PROCID", "SLURM_STEP_NUM_TASKS"),
)


@dataclass(frozen=True, kw_only=True, slots=True)
class LauncherRank:
    """One launcher of several: `rank` of `size`, on a host. `job` is a name that all of them agree on, None where there is none."""

    rank: int
    size: int
    host: str
    job: str | None

    @property
    def speaks(self) -> bool:
        """Whether this is the one that prints; the others only write their files."""
        return self.rank == 0

    @property
    def name(self) -> str:
        """The launcher's own name in the job, that no other one has."""
        return f"{self.host}-rank{self.rank}-{os.getpid()}"


def find_launcher_rank(environ: Mapping[str, str]) -> LauncherRank | None:
    """This launcher's place; None where it is the only one."""
    if "SLURM_STEP_NUM_TASKS" not in environ and "SLURM_NTASKS" in environ:
        environ = {**environ, "SLURM_STEP_NUM_TASKS": environ["SLURM_NTASKS"]}
    for rank_name, size_name in _VARIABLES:
        rank, size = environ.get(rank_name, ""), environ.get(size_name, "")
        if rank.isdecimal() and size.isdecimal() and int(size) > 1:
            return LauncherRank(rank=int(rank), size=int(size), host=host_name(environ), job=_job(environ))
    return None


def host_name(environ: Mapping[str, str]) -> str:
    """This machine's name, without its domain."""
    return (environ.get("SLURMD_NODENAME") or os.uname().nodename or "host").split(".", 1)[0]


def _job(environ: Mapping[str, str]) -> str | None:
    """A name for this job that is another one for the next job."""
    if "SLURM_JOB_ID" in environ and "SLURM_PROCID" in environ:
        restarts = environ.get("SLURM_RESTART_COUNT", "0")
        step = f"{environ['SLURM_JOB_ID']}.{environ.get('SLURM_STEP_ID', '0')}"
        return f"slurm-{step}" + (f"-restart{restarts}" if restarts != "0" else "")
    if "TORCHELASTIC_RUN_ID" in environ:
        # Its agent has started all ranks of this machine, and nobody else: when it started is known to all of them.
        agent = processes.read_stat(os.getppid())
        started_s = None if agent is None else processes.started_s(agent)
        if started_s is not None:
            return f"{time.strftime('%Y%m%d-%H%M%S', time.localtime(started_s))}-torchrun-{os.getppid()}"
    return None
