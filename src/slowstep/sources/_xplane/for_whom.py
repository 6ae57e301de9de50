"""For which thread the others of an XPlane file worked: the table `handed_work`, of the rows of `handed.py`."""

from __future__ import annotations

from typing import Final

import numpy as np
import polars as pl

from slowstep.sources._xplane.handed import EXECUTOR_WORK, GRAPH, INPUT, OPERATION, OWN, PROGRAM, WAITS
from slowstep.timeline.intervals import containing, cut, union

# Calls of graphs inside of graphs that are followed up: each level is a function that was not inlined.
_DEEPEST: Final = 16
COLUMNS: Final = ("thread", "start_ns", "end_ns", "for_thread", "handed_ns", "works")


def handed_work(rows: pl.DataFrame) -> pl.DataFrame:
    """One row per stretch in which a thread did what was handed over by one that is known (`COLUMNS`)."""
    graphs, work = _joined(_of(rows, GRAPH), _of(rows, EXECUTOR_WORK))
    own, waits = _of(rows, OWN), _of(rows, WAITS)
    calls = _with_thread(pl.concat([_of(rows, PROGRAM), waits]), works=False)
    found = [
        _without_input(work, _of(rows, INPUT)),
        _operations(_of(rows, OPERATION), _of(rows, PROGRAM)),
        _with_thread(own, works=True),
        calls,
        graphs.filter(pl.col("thread") == pl.col("for_thread")).with_columns(works=pl.lit(value=False)),
    ]
    return pl.concat([frame.select(COLUMNS) for frame in found]).drop_nulls("for_thread").sort("start_ns", "thread")


def _of(rows: pl.DataFrame, role: str) -> pl.DataFrame:
    return rows.filter(pl.col("role") == role).drop("role")


def _with_thread(rows: pl.DataFrame, *, works: bool) -> pl.DataFrame:
    """What threads do for themselves."""
    return rows.with_columns(for_thread="thread", handed_ns="start_ns", works=pl.lit(works))


def _joined(graphs: pl.DataFrame, work: pl.DataFrame) -> tuple[pl.DataFrame, pl.DataFrame]:
    """Calls of graphs, and the executor's work for them, each with the thread that has made the outermost of these calls, and when."""
    calls = graphs.drop_nulls("key").unique("key", keep="none", maintain_order=True)
    within = _index_within(calls, work)
    inside = pl.Series("inside", within["key"].to_list() if len(within) else [], dtype=pl.String)
    calls = calls.with_columns(inside, for_thread="thread", handed_ns="start_ns")
    for _ in range(_DEEPEST):
        outer = calls.select(inside="key", outer_thread="for_thread", outer_ns="handed_ns", outer_inside="inside")
        found = calls.join(outer, on="inside", how="left", maintain_order="left")
        known = pl.col("outer_thread").is_not_null()
        deeper = found.select(
            *("thread", "start_ns", "end_ns", "key"),
            # Inside of work for a call that is not in the trace: nobody is known to have made it.
            inside=pl.when(known).then("outer_inside").otherwise("inside"),
            for_thread=pl.when(known).then("outer_thread").otherwise("for_thread"),
            handed_ns=pl.when(known).then("outer_ns").otherwise("handed_ns"),
        )
        if not found["outer_thread"].count():
            break
        calls = deeper
    calls = calls.with_columns(for_thread=pl.when(pl.col("inside").is_null()).then("for_thread"))
    by_key = calls.select("key", "for_thread", "handed_ns")
    return calls, work.join(by_key, on="key", how="left").with_columns(works=pl.lit(value=True))


def _index_within(calls: pl.DataFrame, work: pl.DataFrame) -> pl.DataFrame:
    """For each call the key of the executor's work that it was made in, on its own thread; null where in none."""
    rows = calls.with_row_index("row").select("row", "thread", at="start_ns").sort("at")
    stretches = work.select("thread", "key", at="start_ns", until="end_ns").sort("at")
    found = rows.join_asof(stretches, on="at", by="thread", strategy="backward", check_sortedness=False).sort("row")
    return found.select(key=pl.when(pl.col("until") > pl.col("at")).then(pl.coalesce("key", pl.lit(""))))


def _operations(operations: pl.DataFrame, calls: pl.DataFrame) -> pl.DataFrame:
    """XLA's operations, each with the thread that calls its program: the only one that calls any, or that calls one of its name."""
    operations = _runs(operations)
    threads = calls["thread"].unique()
    if len(threads) == 1:
        thread = pl.lit(threads[0], dtype=pl.Int32)
        rows = operations.with_columns(for_thread=thread)
    else:
        by_name = calls.drop_nulls("key").group_by("key").agg(threads=pl.col("thread").n_unique(), for_thread=pl.col("thread").first())
        rows = operations.join(by_name.filter(pl.col("threads") == 1), on="key", how="left")
    # A call returns before its program runs: which of the calls it was is not told.
    return rows.with_columns(handed_ns=pl.lit(None, dtype=pl.Int64), works=pl.lit(value=True))


def _runs(operations: pl.DataFrame) -> pl.DataFrame:
    """One row per run of a program, from its first operation to the end of the last, on whichever threads; without its number one each."""
    numbered = operations.filter(pl.col("run").is_not_null())
    whole = numbered.group_by("run").agg(
        *(pl.col("thread").first(), pl.col("start_ns").min(), pl.col("end_ns").max()),
        *(pl.col("key").drop_nulls().first(), pl.col("key").count().alias("operations")),
    )
    # A wait alone is no work: of a run whose operations are not in the trace nothing is known.
    whole = whole.filter(pl.col("operations") > 0).select("thread", "start_ns", "end_ns", "key")
    return pl.concat([operations.filter(pl.col("run").is_null()).select(whole.columns), whole])


def _without_input(work: pl.DataFrame, waits: pl.DataFrame) -> pl.DataFrame:
    """The executor's work without the input that it takes meanwhile, on the same thread."""
    pieces = [work.filter(~pl.col("thread").is_in(waits["thread"].unique().implode()))]
    for (thread,), rows in waits.group_by("thread"):
        mine = work.filter(pl.col("thread") == thread)
        start, end = union(rows["start_ns"].to_numpy(), rows["end_ns"].to_numpy())
        of, begins, ends = cut(mine["start_ns"].to_numpy(), mine["end_ns"].to_numpy(), np.append(start, end))
        kept = containing(start, end, begins) < 0
        pieces.append(mine[of[kept]].with_columns(start_ns=pl.Series(begins[kept]), end_ns=pl.Series(ends[kept])))
    return pl.concat(pieces)
