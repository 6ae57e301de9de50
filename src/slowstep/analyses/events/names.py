"""Questions about names, asked once of each different name: a trace repeats few names millions of times."""

from __future__ import annotations

from collections.abc import Collection

import polars as pl

from slowstep.timeline.schema import TABLE
from slowstep.timeline.timeline import Timeline, found_once


def matches(names: pl.Series, pattern: str) -> pl.Series:
    """Whether each name, shape (n,), contains the regular expression; a null name does not."""
    texts = names.unique().cast(pl.String)
    wanted = texts.filter(texts.str.contains(pattern))
    if names.dtype == pl.Categorical:
        wanted = wanted.cast(names.dtype)
    return names.is_in(wanted.implode()).fill_null(value=False)


def as_text(names: pl.Series) -> pl.Series:
    """Categories as text, shape (n,). Rows of one name share its text; a cast would write it once for each row."""
    distinct = names.drop_nulls().unique()
    known = pl.DataFrame({"name": distinct, "text": distinct.cast(pl.String)})
    rows = names.to_frame("name").join(known, on="name", how="left", maintain_order="left")
    return rows["text"].alias(names.name)


def host_names(timeline: Timeline, kinds: Collection[str] = ()) -> pl.DataFrame:
    """Each kind and name of host events once (of these kinds, of all where none is given), and the name as `text`."""
    found = _host_names(timeline)
    return found.filter(pl.col("kind").is_in(list(kinds))) if kinds else found


@found_once
def _host_names(timeline: Timeline) -> pl.DataFrame:
    found = timeline.rows("host_events", "kind", "name").unique()
    return found.with_columns(pl.col("name").cast(pl.String).alias("text"))


def host_named(timeline: Timeline, names: pl.DataFrame) -> pl.DataFrame:
    """The host events with one of these kinds and names, rows of `host_names`; what lasts no time is left out.

    Columns: `thread`, `start_ns`, `end_ns`, `kind`, `name`, and what else `names` has.
    """
    columns = ("thread", "start_ns", "end_ns", "kind", "name")
    kinds = names["kind"].unique().to_list()
    host = timeline.rows("host_events", *columns, kinds=kinds) if kinds else TABLE["host_events"].empty().select(columns)
    return host.join(names, on=["kind", "name"], how="inner").filter(pl.col("end_ns") > pl.col("start_ns"))
