"""Questions about names, asked once of each different name: a trace repeats few names millions of times."""

from __future__ import annotations

import polars as pl


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
