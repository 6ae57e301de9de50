"""What a recording holds of an experiment: its plan, its steps, what its levers noted, and what others took of the machine meanwhile.

Later starts of the script have recordings of their own below that of the first (`LATER_STARTS_FOLDER`): all of it is one experiment.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import msgspec
import numpy as np

from slowstep.analyses.machine.load import Load, find_load, mean_load
from slowstep.errors import UnreadableInput
from slowstep.prove.stats.plan import Plan
from slowstep.prove.stats.readings import ExperimentSteps, StepReader
from slowstep.prove.stats.starts import StartedPlan, as_one
from slowstep.record.writing.format import LATER_STARTS_FOLDER, PLAN_FILE
from slowstep.sources._recording.machine import machine_tables, sound_readings
from slowstep.sources._recording.notes import read_notes
from slowstep.sources._recording.records import read_records

# Beyond any clock.
_NEVER_NS: Final = 1 << 62


@dataclass(frozen=True, kw_only=True, slots=True)
class Recorded:
    """The plan that was taken up, its steps, what the levers noted, and what others used of the cores (None where it was not read)."""

    plan: Plan
    steps: ExperimentSteps
    notes: tuple[Mapping[str, Any], ...]
    load: Load | None

    @property
    def foreign_share(self) -> float | None:
        """The share of the cores that others used."""
        return None if self.load is None else self.load.foreign_share

    @property
    def stolen_share(self) -> float | None:
        """What the hypervisor took of that."""
        return None if self.load is None else self.load.stolen_share

    @property
    def took_s(self) -> float:
        """How long all of its steps took, those in which it settled among them."""
        return float(self.steps.ns.sum()) / 1e9


def later_folders(folder: Path) -> list[Path]:
    """The recordings of the script's later starts, in their order."""
    return sorted((folder / LATER_STARTS_FOLDER).glob("*/"), key=lambda place: int(place.name) if place.name.isdecimal() else 0)


def read_experiment(folder: Path, *, from_ns: int | None, cores: float | None) -> Recorded | None:
    """Read it; None where no plan was taken up. `from_ns` is when the experiment began, None where the first start did not come to one.

    Raises UnreadableInput for a damaged plan.
    """
    try:
        places = _places(folder, from_ns)
        found = [each for place, _ in places if (each := _of_start(place)) is not None]
    except (OSError, msgspec.MsgspecError) as error:
        raise UnreadableInput(f"the experiment in {folder} cannot be read: {error}.") from error
    if not found:
        return None
    whole = as_one(found)
    return Recorded(plan=whole.plan, steps=whole.steps, notes=whole.notes, load=_load(places, cores))


def _places(folder: Path, from_ns: int | None) -> list[tuple[Path, int]]:
    """The recordings of all starts, and since when others are looked for there: all of a later one is of the experiment."""
    first = [] if from_ns is None else [(folder, from_ns)]
    return [*first, *((place, 0) for place in later_folders(folder))]


def _of_start(folder: Path) -> StartedPlan | None:
    plan = _plan(folder) if (folder / PLAN_FILE).exists() else None
    files = folder.glob("*.jsonl" if plan is None or plan.process is None else f"{plan.process}-*.jsonl")
    for path in sorted(files):
        notes = read_notes(path).of("lever")
        if notes:
            steps = StepReader(path.with_suffix(".rec")).read()
            return StartedPlan(plan=plan or _plan(folder), steps=steps, notes=tuple(notes))
    return None


def _plan(folder: Path) -> Plan:
    return msgspec.json.decode((folder / PLAN_FILE).read_bytes(), type=Plan)


def foreign_share(folder: Path, from_ns: int | None, cores: float | None) -> float | None:
    """Cores that others used since a time (CLOCK_MONOTONIC, ns; None: not in the first start) and in later starts, by the cores allowed;
    None where that was not read.
    """
    load = _load(_places(folder, from_ns), cores)
    return None if load is None else load.foreign_share


def _load(places: Iterable[tuple[Path, int]], cores: float | None) -> Load | None:
    return mean_load(load for place, since in places if (load := load_since(place, since, cores)) is not None)


def load_since(folder: Path, from_ns: int, cores: float | None) -> Load | None:
    """What others used of the allowed cores since a time (CLOCK_MONOTONIC, ns); None where that was not read."""
    launcher = folder / "launcher.jsonl"
    if not launcher.exists():
        return None
    written = read_records(launcher.with_suffix(".rec"))
    readings = machine_tables(read_notes(launcher), sound_readings(written.records))["readings"]
    return find_load(readings, np.array([from_ns, _NEVER_NS]), cores)
