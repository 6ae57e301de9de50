"""Steps of a trace that marks none: taken from the optimizer's ranges, else from the period with which launches repeat."""

from __future__ import annotations

from typing import Final

import numpy as np
import polars as pl

from slowstep.analyses.events.names import matches
from slowstep.analyses.events.runtime_calls import calls_of_runtime
from slowstep.analyses.events.training_thread import OPTIMIZER_RANGE, training_thread
from slowstep.timeline.intervals import Ints
from slowstep.timeline.timeline import Timeline
from slowstep.timeline.trace_tables import NOT_PYTHON

# A pattern counts as repeated where this share of its launches meets the same name one period later. Steps of one training launch the
# same kernels; shapes that differ from batch to batch change some of them. A layer inside a step repeats too, but not across the whole.
SAME_AT_LEAST: Final = 0.8
# Of two periods that fit about as well the shorter one is the step, the longer one a multiple of it.
ABOUT_AS_WELL: Final = 0.01
SHORTEST_PERIOD: Final = 5
FEWEST_PERIODS: Final = 3
# Random signs by name whose autocorrelation stands for the number of equal names: its error falls with their number.
PROJECTIONS: Final = 8
CANDIDATES: Final = 64


def infer_marks(timeline: Timeline) -> tuple[pl.DataFrame, str] | None:
    """Steps as rows of `number`, `start_ns`, `end_ns`, `thread`, and from what they were inferred; None where nothing repeats."""
    thread = training_thread(timeline)
    if thread is None:
        return None
    return _by_optimizer(timeline, thread) or _by_period(timeline, thread)


def _by_optimizer(timeline: Timeline, thread: int) -> tuple[pl.DataFrame, str] | None:
    host = timeline.rows("host_events", "thread", "start_ns", "end_ns", "name", kinds=NOT_PYTHON)
    calls = host.filter((pl.col("thread") == thread) & matches(host["name"], OPTIMIZER_RANGE))
    if calls.is_empty():
        return None
    counts = calls.group_by("name").agg(pl.len(), pl.col("start_ns").min()).sort(["len", "start_ns"], descending=[True, False])
    anchor = calls.filter(pl.col("name") == counts["name"][0]).sort("start_ns")
    if len(anchor) < FEWEST_PERIODS:
        return None
    return _between(anchor["end_ns"].to_numpy(), thread), f"the ends of {counts['name'][0]}"


def _by_period(timeline: Timeline, thread: int) -> tuple[pl.DataFrame, str] | None:
    calls = calls_of_runtime(timeline).filter((pl.col("thread") == thread) & pl.col("correlation").is_not_null())
    kernels = timeline.rows("device_events", "correlation", "name", "from_graph", kinds=["kernel"]).filter(~pl.col("from_graph"))
    launches = calls.select("correlation", "start_ns").join(kernels.select("correlation", "name"), on="correlation").sort("start_ns")
    what = "kernels that are launched"
    if len(launches) < SHORTEST_PERIOD * FEWEST_PERIODS:
        operators = timeline.rows("host_events", "thread", "start_ns", "name", kinds=["operator"])
        launches, what = operators.filter(pl.col("thread") == thread).sort("start_ns"), "operators"
    names, starts = launches["name"].to_physical().to_numpy().astype(np.int64), launches["start_ns"].to_numpy()
    period = find_period(names)
    if period is None:
        return None
    begins = _begins(names, starts, period)
    return (_between(starts[begins], thread), f"the period of the {what}") if len(begins) >= FEWEST_PERIODS else None


def _between(edges_ns: Ints, thread: int) -> pl.DataFrame:
    columns = {"number": np.arange(len(edges_ns) - 1), "start_ns": edges_ns[:-1], "end_ns": edges_ns[1:]}
    return pl.DataFrame(columns).with_columns(pl.lit(thread, dtype=pl.Int32).alias("thread"))


def find_period(names: Ints) -> int | None:
    """After how many items a sequence of codes, shape (n,), repeats itself; None where it does not, or fewer than three times."""
    longest = len(names) // FEWEST_PERIODS
    if longest < SHORTEST_PERIOD:
        return None
    lags = np.arange(SHORTEST_PERIOD, longest + 1)
    likeness = _likeness(names)[lags] / (len(names) - lags)
    likely = lags[np.argsort(-likeness, kind="stable")[:CANDIDATES]]
    same = {int(lag): float(np.mean(names[lag:] == names[:-lag])) for lag in likely}
    best = max(same.values())
    if best < SAME_AT_LEAST:
        return None
    found = min(lag for lag, share in same.items() if share >= best - ABOUT_AS_WELL)
    # One name alone repeats after every item: that is no pattern.
    return found if len(np.unique(names[:found])) > 1 else None


def _likeness(names: Ints) -> np.ndarray:
    """About how many items equal the one that comes each lag later, shape (n,); by the Fourier transform of random signs."""
    codes, inverse = np.unique(names, return_inverse=True)
    signs = np.random.default_rng(0).choice([-1.0, 1.0], size=(PROJECTIONS, len(codes)))
    size = 1 << int(2 * len(names) - 1).bit_length()
    total = np.zeros(size // 2 + 1)
    for sign in signs:
        total += np.abs(np.fft.rfft(sign[inverse], size)) ** 2
    return np.asarray(np.fft.irfft(total, size)[: len(names)] / PROJECTIONS)


def _begins(names: Ints, starts_ns: Ints, period: int) -> Ints:
    """Where the periods begin: at a name that occurs once in each, before which the host waits longest."""
    codes, counts = np.unique(names, return_counts=True)
    periods = len(names) / period
    once = codes[(counts >= np.floor(periods)) & (counts <= np.ceil(periods))]
    waits = np.diff(starts_ns, prepend=starts_ns[0])
    at_once = np.flatnonzero(np.isin(names, once))
    regular = (
        pl.DataFrame({"name": names[at_once], "at": at_once, "wait": waits[at_once]})
        .group_by("name")
        .agg(pl.col("wait").median(), pl.col("at").first(), (pl.col("at").diff().drop_nulls() - period).abs().max().alias("off"))
    )
    regular = regular.filter(pl.col("off") <= max(1, period // 10)).sort(["wait", "at"], descending=[True, False])
    if len(regular):
        return np.flatnonzero(names == regular["name"][0])
    offset = int(np.argmax([np.median(waits[at::period][1:]) for at in range(period)]))
    return np.arange(offset, len(names), period)
