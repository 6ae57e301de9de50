"""What can be done about the function that holds most of a sample's making: how it may do less, and what that gains at most."""

from __future__ import annotations

from typing import Final

from slowstep.analyses.input.input_facts import InputFunction
from slowstep.analyses.measurements import Measurements
from slowstep.analyses.python.calls import DOMINANT_SHARE, TimedFunction
from slowstep.diagnosis.evidence.input.input_causes import Spared, sparing
from slowstep.diagnosis.evidence.input.input_side import InputSide
from slowstep.diagnosis.gain import predict
from slowstep.diagnosis.lever_specs import mock_loader, stub
from slowstep.findings import Fix
from slowstep.units import format_ratio

# Tables that are asked for one row, or one cell, by its label or place: file and function. pandas and xarray take a hundred times
# as long for that as an array that was taken out of the table before; polars, at three to ten times, is none (docs/decisions/0041).
ROW_ACCESS: Final = (
    ("pandas/core/indexing", "_LocationIndexer.__getitem__"),
    ("pandas/core/indexing", "_ScalarAccessIndexer.__getitem__"),
    ("pandas/core/frame", "DataFrame.iterrows"),
    ("pandas/core/frame", "DataFrame.itertuples"),
    ("pandas/core/generic", "NDFrame.xs"),
    ("xarray/core/dataset", "Dataset.isel"),
    ("xarray/core/dataset", "Dataset.sel"),
    ("xarray/core/dataarray", "DataArray.isel"),
    ("xarray/core/dataarray", "DataArray.sel"),
)


def reads_rows(m: Measurements, function: TimedFunction) -> bool:
    """Whether most of what a function takes is asking a table for single rows, which arrays give for next to nothing."""
    # One may call another: a row by its label is looked for by its place.
    asked = max((row.share for row in m.input.facts.functions if _asks_for_row(row)), default=0.0)
    return asked >= DOMINANT_SHARE * function.share


def _asks_for_row(function: InputFunction) -> bool:
    file = (function.file or "").replace("\\", "/")
    return any(of in file and function.name.endswith(name) for of, name in ROW_ACCESS)


def faster(m: Measurements, function: TimedFunction) -> str:
    """What to do about it."""
    if reads_rows(m, function):
        return f"take what {function.name} needs out of the table before training, as arrays (.to_numpy()), and index these"
    if not function.is_python and sum(share for _, share in function.parts) >= DOMINANT_SHARE * function.share:
        return f"do less in {' and '.join(name for name, _ in function.parts)}, or do it on whole batches"
    if function.of_library:
        return f"do {function.name} on whole batches, or use a faster library for it"
    if function.python_share is None or function.is_python:
        return f"vectorise {function.name}, or do it on whole batches"
    called, share = max(function.into, key=lambda row: row[1], default=("", 0.0))
    if share >= DOMINANT_SHARE * function.share:
        return f"do less of {called} in {function.name}, or use a faster library for it"
    return f"do less in {function.name}, or use faster libraries there"


def or_faster(m: Measurements, side: InputSide) -> tuple[Fix, ...]:
    """The same as an alternative to workers, with what it would gain if that function cost nothing; none where no function is known."""
    function = m.input.fetch_function
    if function is None or side.wall_ns <= 0 or _is_all_of_it(m, function):
        return ()
    share = function.share * max(1 - (m.input.demand.collate_ns or 0.0) / side.wall_ns, 0.0)
    all_of_it = Spared(expected=share, pessimistic=share, optimistic=share)
    at_most = predict(m, sparing(m, side, all_of_it, f"{function.name} cost nothing")).predicted
    limit = "" if at_most is None else f": {format_ratio(at_most)} if that cost nothing"
    # Where no lever makes the batches otherwise none bounds this either.
    bound = mock_loader(m) and (stub(m, function.name, function.file) or mock_loader(m))
    return (Fix(text=f"{faster(m, function)}{limit}", bounded_by=bound),)


def _is_all_of_it(m: Measurements, function: TimedFunction) -> bool:
    """Whether it is the data set's own method, which is the making itself, and nothing more is known of it."""
    return len(function.path) == 1 and not (function.parts or function.into or function.is_python or reads_rows(m, function))
