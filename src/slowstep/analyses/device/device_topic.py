"""The topic `device`: what ran on the device, what the host did for that, and when the device had nothing to do."""

from __future__ import annotations

from dataclasses import dataclass

import polars as pl

from slowstep.faults import MayLack


@dataclass(frozen=True, kw_only=True, slots=True)
class DeviceTopic(MayLack):
    """The device that is judged, and tables of its work by the declarations in `events/tables.py`, empty where nothing was seen."""

    seen: bool  # whether any work of a device was
    name: str | None
    compute_capability: float | None
    busy_share: float | None  # of the window; None without device events
    gaps: pl.DataFrame
    kernels: pl.DataFrame
    operators: pl.DataFrame
    launches: pl.DataFrame
    copies: pl.DataFrame
    synchronizations: pl.DataFrame
    collectives: pl.DataFrame
    memory: pl.DataFrame
    requests: pl.DataFrame  # for the next batch (`LOADER`)
    placement: pl.DataFrame
    compilations: pl.DataFrame
    named_work: pl.DataFrame
    loss_scaling: pl.DataFrame
