"""Everything that rules may know of a trace."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

import polars as pl

from slowstep.analyses.accounted import Kind
from slowstep.analyses.events.tables import WINDOW
from slowstep.analyses.ledger.ledger import Ledger
from slowstep.analyses.replay.recording_cost import LESS_MOST_COST, LESS_USUAL_COST
from slowstep.analyses.replay.scenarios import UNCHANGED
from slowstep.faults import Fault, MayLack
from slowstep.frameworks._known import plain
from slowstep.frameworks._words import Words
from slowstep.parts import Part
from slowstep.reasons import Reason
from slowstep.timeline.trace import TraceFacts


@dataclass(frozen=True, kw_only=True, slots=True)
class Coverage:
    """How much of what happened the trace shows. None is unknown; shares are 0 to 1."""

    kernels: int
    kernels_with_launch: float | None  # share of the device's kernels whose launch is in the trace (graph launches count for all theirs)
    launches: int
    launches_with_kernel: float | None  # share of launches whose kernel is in the trace
    inside_steps: float | None  # share of the trace's whole time that lies inside the window's steps
    devices: int
    streams: int
    clocks_differ: str | None = None  # how the clocks of host and device differ, in words; None where nothing shows that they do


@dataclass(frozen=True, kw_only=True, slots=True)
class TraceMeasurements(MayLack):
    """One rank's trace as measured. `tables` are by the names in `tables.py`, all of them there but
    for `ledger`, empty where nothing was seen.

    `training` is False where there is no backward pass: inference, or a part of a training that shows none. `batch_size` is what the
    user said, else what the input's shapes tell, else None. `chosen_of` is the number of the trace's whole steps where the user chose one
    of them: all tables then are of that one. Reading what an analysis of `faults` should have found raises `Faulty`.
    """

    facts: TraceFacts
    coverage: Coverage
    ledger: Ledger
    tables: Mapping[str, pl.DataFrame]
    training: bool
    batch_size: int | None
    batch_size_from: str | None
    device_name: str | None
    compute_capability: float | None
    device_busy_share: float | None  # of the window; None without device events
    has_device: bool
    chosen_of: int | None = None
    words: Words = field(default_factory=plain)  # of the framework that trains
    notes: tuple[Reason, ...] = ()  # what the reader must see, e.g. how the steps were made out
    faults: tuple[Fault, ...] = ()  # errors of slowstep's own in its analyses

    @property
    def kind(self) -> Kind:
        """A profiler's trace."""
        return "trace"

    def table(self, name: str) -> pl.DataFrame:
        """A table by name. Raises KeyError for one that is not declared."""
        return self.tables[name]

    @property
    def whole_steps(self) -> int:
        """How many whole steps the trace has, looked at or not."""
        return self.tables["steps"].height if self.chosen_of is None else self.chosen_of

    @property
    def is_chosen(self) -> bool:
        """Whether the user chose one step of several, so that nothing here is of the others."""
        return self.whole_steps > self.tables["steps"].height

    @property
    def is_window(self) -> bool:
        """Whether the trace shows no steps, and all of it is taken as one."""
        steps = self.tables["steps"]
        return steps.height > 0 and steps["mark"][0] == WINDOW

    @property
    def step_ns(self) -> list[int]:
        """Length of each step of the window."""
        steps = self.tables["steps"]
        return (steps["end_ns"] - steps["start_ns"]).to_list()

    @property
    def window_ns(self) -> int:
        """Length of all steps together."""
        return sum(self.step_ns)

    @property
    def mean_step_ns(self) -> float:
        """Length of the mean step; 0 without steps."""
        return self.window_ns / max(len(self.step_ns), 1)

    @property
    def recording_share(self) -> tuple[float, float] | None:
        """What the profiler took of the host's time in the replayed steps: usual and highest share; None where too little, or unknown."""
        rows = (
            self.tables["replay"].filter(pl.col("scenario") == UNCHANGED).group_by("recording").agg(pl.col("taken_ns", "observed_ns").sum())
        )
        shares = {row["recording"]: row["taken_ns"] / max(row["observed_ns"], 1) for row in rows.iter_rows(named=True)}
        return (shares[LESS_USUAL_COST], shares[LESS_MOST_COST]) if LESS_USUAL_COST in shares else None

    def share(self, stage: str) -> float:
        """Share of the window charged to a stage."""
        return self.ledger.share(stage)

    def share_of(self, *parts: Part) -> float:
        """Share of the window charged to some parts together."""
        return self.ledger.share_of(*parts)
