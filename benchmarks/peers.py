"""Holds slowstep's account of a trace against Holistic Trace Analysis (HTA), on the same device events.

    python benchmarks/peers.py TRACE...

Prints a line per trace, stores all numbers under `results/` and draws `peers.md`. Exit code: 0 if every share and every kernel's total
agree within 1 % or the difference is explained, 1 if not, 2 if HTA could not be had.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
from peers_page import page, unexplained
from rivals import LIMIT_S, NotInstalled, environment_of

from slowstep.analyses.events.device_work import work_kinds
from slowstep.analyses.events.unions import Union
from slowstep.sources.kineto import read

HERE = Path(__file__).parent
HTA = "traceinsight"
# HTA cuts times to whole microseconds unless it is told not to; with kernels of a few microseconds that is more than 1 %.
EXACT = {"HTA_DISABLE_NS_ROUNDING": "1"}
KINDS = {"compute": "COMPUTATION", "communication": "COMMUNICATION", "copies": "MEMORY"}


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.split("\n", 1)[0])
    parser.add_argument("traces", nargs="+", type=Path)
    traces = parser.parse_args().traces
    try:
        python = environment_of(HTA) / "python"
    except NotInstalled as error:
        print(error, file=sys.stderr)
        return 2
    rows = [compared(python, trace) for trace in traces]
    for row in rows:
        print(row["trace"], *(unexplained(row) or ["agrees, or says why not"]), sep=": ")
    stored = HERE / "results" / f"peers-{datetime.now(UTC):%Y-%m-%d}.json"
    stored.write_text(json.dumps(rows, indent=1), encoding="utf-8")
    (HERE / "peers.md").write_text(page(stored.name, rows), encoding="utf-8")
    return int(any(unexplained(row) for row in rows))


def compared(python: Path, trace: Path) -> dict[str, Any]:
    """HTA's numbers of one trace, as it gives them and with exact times, and ours over the same device events."""
    exact, usual = (hta(python, trace, extra) for extra in (EXACT, {}))
    row: dict[str, Any] = {"trace": trace.name.removesuffix(".gz").removesuffix(".json")}
    if exact is None or usual is None:
        return row | {"hta": None}
    device = read(trace).table("device_events").with_columns(pl.col("name").cast(pl.String))
    mine = device.filter(pl.col("correlation").is_in(exact["correlations"]))
    kinds = our_kinds(mine)
    its = mine["name"].replace_strict(exact["kinds"], default=None, return_dtype=pl.String)
    differing = mine.with_columns(kinds.alias("ours"), its.alias("its")).filter(pl.col("ours") != pl.col("its"))
    row |= {"hta": shares_of_hta(exact, exact=True), "hta_usual": shares_of_hta(usual, exact=False), "ours": shares(mine, kinds)}
    row |= {"ours_by_its_kinds": shares(mine, its), "events": {"hta": exact["events"], "ours": mine.height, "trace": device.height}}
    row |= {
        "synchronizations": exact["synchronizations"],
        "differing": sorted(differing.select("name", "ours", "its").unique().iter_rows()),
    }
    return row | {"totals": totals(mine, exact["totals_us"])}


def hta(python: Path, trace: Path, extra: dict[str, str]) -> dict[str, Any] | None:
    """What `peers_hta.py` says of a trace; None where HTA cannot read it."""
    words = [str(python), str(HERE / "peers_hta.py"), str(trace.resolve())]
    done = subprocess.run(
        words, capture_output=True, text=True, timeout=LIMIT_S, env={**os.environ, "PYTHONPATH": "", **extra}, check=False
    )
    return json.loads(done.stdout) if done.returncode == 0 else None


def our_kinds(device: pl.DataFrame) -> pl.Series:
    """What we take each event for, in HTA's words: it keeps copies and memsets together and apart from compute."""
    words = {"kernel": "COMPUTATION", "collective": "COMMUNICATION"}
    return work_kinds(device).replace_strict(words, default="MEMORY", return_dtype=pl.String)


def shares(device: pl.DataFrame, kinds: pl.Series) -> dict[str, float]:
    """Shares of the time from the first event's begin to the last one's end, an instant in which several run counted once."""
    window = int(device["end_ns"].max()) - int(device["start_ns"].min())  # type: ignore[arg-type]
    found = {name: covered(device.filter(kinds == kind)) / window for name, kind in KINDS.items()}
    busy = covered(device) / window
    return {"busy": busy, "idle": 1 - busy, **found}


def covered(device: pl.DataFrame) -> int:
    """Length of the union of all events, in ns."""
    union = Union(np.zeros(device.height, dtype=np.int64), device["start_ns"].to_numpy(), device["end_ns"].to_numpy())
    return int((union.ends - union.starts).sum())


def shares_of_hta(counted: dict[str, Any], *, exact: bool) -> dict[str, float]:
    """The same shares from HTA: with exact times as its function merges them, else from its tables, which cut them."""
    temporal = counted["temporal"][0]
    window = temporal["kernel_time(us)"]
    from_table = {kind: sum(row["sum"] for row in counted["types"] if kind in row["kernel_type"]) for kind in KINDS.values()}
    us = {kind: counted["merged_us"].get(kind, 0.0) for kind in KINDS.values()} if exact else from_table
    idle = temporal["idle_time(us)"] / window
    return {"busy": 1 - idle, "idle": idle, **{name: us[kind] / window for name, kind in KINDS.items()}}


def totals(device: pl.DataFrame, its_us: dict[str, float]) -> dict[str, Any]:
    """How far the totals of kernels of at least 1 % of all time are apart, and that of all events together."""
    ours = dict(device.group_by("name").agg((pl.col("end_ns") - pl.col("start_ns")).sum() / 1e3).iter_rows())
    whole = sum(ours.values())
    known = {name: us for name, us in its_us.items() if name in ours}
    apart = {name: us / ours[name] - 1 for name, us in known.items() if ours[name] >= 0.01 * whole}
    return {"kernels": len(apart), "most_apart": max(map(abs, apart.values()), default=0.0), "all": sum(known.values()) / whole - 1}


if __name__ == "__main__":
    sys.exit(main())
