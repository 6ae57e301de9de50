"""What asking a table for one row takes, and what the same takes of arrays that were taken out of it before.

Prints a table; one core, no options; libraries that are not installed are left out. Rules take the former for work that other code does not
do (`src/slowstep/diagnosis/evidence/input/faster_making.py`).
"""

from __future__ import annotations

import importlib.util
import statistics
import time
from collections.abc import Callable

import numpy as np

ROWS, CALLS, REPEATS = 6_000, 2_000, 9


def pandas_ways() -> dict[str, Callable[[int], object]]:
    import pandas as pd

    rng = np.random.default_rng(0)
    table = pd.DataFrame({"subject": rng.choice(["a", "b"], ROWS), "start": rng.integers(0, ROWS, ROWS), "quality": rng.random(ROWS)})
    starts, quality = table["start"].to_numpy(), table["quality"].to_numpy()
    return {
        "pandas: frame.iloc[i], two values": lambda i: (table.iloc[i]["start"], table.iloc[i]["quality"]),
        "pandas: frame.iloc[i]": lambda i: table.iloc[i],
        "pandas: frame.loc[i]": lambda i: table.loc[i],
        "pandas: frame.at[i, name]": lambda i: table.at[i, "start"],
        "pandas: column.iloc[i]": lambda i: table["start"].iloc[i],
        "numpy: two arrays": lambda i: (starts[i], quality[i]),
    }


def xarray_ways() -> dict[str, Callable[[int], object]]:
    import xarray as xr

    values = xr.Dataset({"start": ("row", np.arange(ROWS)), "quality": ("row", np.arange(ROWS) * 0.5)})
    return {"xarray: dataset.isel(row=i)": lambda i: values.isel(row=i), "xarray: array.isel(row=i)": lambda i: values["start"].isel(row=i)}


def polars_ways() -> dict[str, Callable[[int], object]]:
    import polars as pl

    table = pl.DataFrame({"start": np.arange(ROWS), "quality": np.arange(ROWS) * 0.5})
    return {"polars: frame.row(i)": lambda i: table.row(i), "polars: frame[i, name]": lambda i: table[i, "start"]}


def us_a_call(ask: Callable[[int], object]) -> float:
    times = []
    for _ in range(REPEATS):
        begin = time.perf_counter()
        for i in range(CALLS):
            ask(i)
        times.append(time.perf_counter() - begin)
    return statistics.median(times) / CALLS * 1e6


def main() -> None:
    ways = {"pandas": pandas_ways, "xarray": xarray_ways, "polars": polars_ways}
    for library, of in ways.items():
        if importlib.util.find_spec(library) is None:
            print(f"{library}: not installed")
            continue
        for name, ask in of().items():
            print(f"{name:36} {us_a_call(ask):8.2f} us")


if __name__ == "__main__":
    main()
