"""How many samples a step trains on that makes one input of several batches of its loader, by the forwards that it calls with them."""

from __future__ import annotations

import polars as pl

# In so many of the steps in which both are known they tell the same.
AGREE = 0.9


def joined_samples(got: pl.DataFrame, forwards: pl.DataFrame) -> pl.DataFrame:
    """One batch for each step in place of those that it asks for (`got`, with its `step`), with as many samples as it trains on: all that
    were asked for, or those of the last batch where a filter let no other one through. Null where the forwards with gradients (`forwards`,
    with their `step`) tell neither: of what was packed, or drawn from a buffer, they say nothing of samples.
    """
    order = got.sort("start_ns")
    steps = order.group_by("step", maintain_order=True).agg(
        pl.col("iterator", "start_ns").first(),
        pl.when(pl.col("samples").null_count() == 0).then(pl.col("samples").sum()).first().alias("all"),
        pl.col("samples").last().alias("last"),
    )
    called = forwards.group_by("step").agg(
        calls=pl.len(), in_all=pl.col("samples").sum(), each=pl.col("samples").unique(), known=pl.col("samples").is_not_null().all()
    )
    each = steps.join(called.filter("known").drop("known"), on="step", how="inner")
    only = pl.when(pl.col("each").list.len() == 1).then(pl.col("each").list.first())
    whole = (pl.col("in_all") == pl.col("all")) | (only == pl.col("all"))
    filtered = (only == pl.col("last")) & (pl.col("calls") == 1)
    told = each.select(whole=whole.fill_null(False).mean(), filtered=filtered.fill_null(False).mean()).row(0)
    means = [pl.col(name) for name, share in zip(("all", "last"), told, strict=True) if share is not None and share >= AGREE]
    samples = means[0] if means else pl.lit(None, pl.Int64)
    return steps.select("iterator", "start_ns", samples.cast(pl.Int64).alias("samples"))
