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
