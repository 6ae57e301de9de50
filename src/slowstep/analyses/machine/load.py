"""Load: how much of the processors the training used, and how much everybody else did."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace

import polars as pl

from slowstep.timeline.intervals import Ints

# From this share of allowed cores on, other processes' load changes what a step takes (docs/definitions.md: "busy machine").
BUSY_FROM = 0.20
# Of the allowed cores: the machine and the recorder take a part of an idle one (`IDLE_CORE`), so with more in use none is free.
FULL_FROM = 0.95
# Cores by which two readings of the same processes, a tenth of a second apart at most, do not differ over a window of seconds.
STRANGER_FROM = 0.05


@dataclass(frozen=True, kw_only=True, slots=True)
class Load:
    """Busy cores on average over the window; None is unknown. `cores` are what the training's process may use: all ranks of a job share
    them, where they are not bound to cores of their own. `seconds` is how long the readings are apart.
    """

    tree_cores: float | None
    foreign_cores: float | None
    stolen_cores: float | None
    cores: float | None
    seconds: float = 0.0

    @property
    def foreign_share(self) -> float | None:
        """Busy cores of other processes / allowed cores."""
        if self.foreign_cores is None or not self.cores:
            return None
        return self.foreign_cores / self.cores

    @property
    def stolen_share(self) -> float | None:
        """What the hypervisor took of that: cores that were wanted and not given / allowed cores."""
        return None if self.stolen_cores is None or not self.cores else max(self.stolen_cores, 0.0) / self.cores

    @property
    def is_full(self) -> bool:
        """Whether the training itself uses all cores, so that whoever wakes up waits for one."""
        return self.tree_cores is not None and bool(self.cores) and self.tree_cores >= FULL_FROM * (self.cores or 0.0)

    @property
    def busy(self) -> bool:
        """Whether others take so much of the machine that wall times are doubtful."""
        return is_busy(self.foreign_share)


def is_busy(foreign_share: float | None) -> bool:
    """Whether so large a share of the allowed cores, taken by others, makes wall times doubtful; not where it is unknown."""
    return foreign_share is not None and foreign_share >= BUSY_FROM


def others_use(load: Load) -> str | None:
    """Busy cores of others, of those allowed, in words; None where they are unknown."""
    if load.foreign_share is None:
        return None
    return f"other processes use {load.foreign_cores:.1f} of {load.cores:g} core{'' if load.cores == 1 else 's'}"


def find_load(readings: pl.DataFrame, edges_ns: Ints, cores: float | None) -> Load:
    """The load over the window, from the first and last reading in it. Time stolen by the hypervisor counts as foreign."""
    inside = readings.sort("time_ns").filter(pl.col("time_ns").is_between(int(edges_ns[0]), int(edges_ns[-1])))
    if inside.height < 2 or inside["time_ns"][0] == inside["time_ns"][-1]:
        return Load(tree_cores=None, foreign_cores=None, stolen_cores=None, cores=cores)
    first, last = inside.row(0, named=True), inside.row(-1, named=True)
    length = last["time_ns"] - first["time_ns"]

    def cores_of(name: str) -> float:
        return float((last[name] - first[name]) / length)

    tree, busy, stolen = cores_of("tree_cpu_ns"), cores_of("busy_cpu_ns"), cores_of("stolen_cpu_ns")
    foreign = max(busy - tree, 0.0) + max(stolen, 0.0)
    return Load(tree_cores=tree, foreign_cores=foreign, stolen_cores=stolen, cores=cores, seconds=length / 1e9)


def without_strangers(load: Load, trainer_cores: float | None) -> Load:
    """Where the training thread alone used more than the whole process tree, it runs outside of that, as a service's child (srun): then
    its own work was counted as that of others.
    """
    if load.tree_cores is None or trainer_cores is None or trainer_cores <= STRANGER_FROM + load.tree_cores:
        return load
    return replace(load, tree_cores=None, foreign_cores=None)


def mean_load(loads: Iterable[Load]) -> Load | None:
    """The load over several stretches, by those of which it is known, each by its length; None where it is of none."""
    known = [load for load in loads if load.foreign_cores is not None]
    if len(known) < 2:
        return known[0] if known else None
    whole_s = sum(load.seconds for load in known)

    def mean(of: Callable[[Load], float | None]) -> float:
        return sum((of(load) or 0.0) * load.seconds for load in known) / whole_s

    return Load(
        tree_cores=mean(lambda load: load.tree_cores),
        foreign_cores=mean(lambda load: load.foreign_cores),
        stolen_cores=mean(lambda load: load.stolen_cores),
        cores=known[0].cores,
        seconds=whole_s,
    )
