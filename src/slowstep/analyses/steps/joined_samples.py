"""How many samples a step trains on that makes one input of several batches of its loader, by the forwards that it calls with them."""

from __future__ import annotations

import polars as pl

# In so many of the steps in which both are known they tell the same.
AGREE = 0.9


def joined_samples(got: pl.DataFrame, forwards: pl.DataFrame) -> pl.DataFrame:
    """One batch for each step in place of those that it asks for (`got`, with its `step`), with as many samples as it trains on: all that
    were asked for, or those of the last batch where no other one was chosen. Null where the `forwards` (with their `step`, and whether they
    have `gradients`) tell neither: of what was packed, or drawn from a buffer, they say nothing of samples.
    """
    order = got.sort("start_ns")
    steps = order.group_by("step", maintain_order=True).agg(
        pl.col("iterator", "start_ns").first(),
        pl.len().alias("requests"),
        pl.when(pl.col("samples").null_count() == 0).then(pl.col("samples").sum()).first().alias("all"),
        pl.col("samples").last().alias("last"),
    )
    each = steps.join(_training_calls(forwards), on="step", how="inner").join(_looked_at(forwards), on="step", how="left")
    only = pl.when(pl.col("each").list.len() == 1).then(pl.col("each").list.first())
    whole = (pl.col("in_all") == pl.col("all")) | (only == pl.col("all"))
    # Packed into one row several batches of one sample, or of as many each, look the same: a filter is irregular, or looks at them first.
    is_choice = (pl.col("looked_at") == pl.col("all")) | (pl.lit(_is_irregular(steps["requests"])) & (pl.col("last") > 1))
    chosen = (only == pl.col("last")) & (pl.col("calls") == 1) & is_choice
    agreeing = each.select(all=whole.fill_null(False).mean(), last=chosen.fill_null(False).mean())
    columns = [name for name in ("all", "last") if (agreeing[name][0] or 0.0) >= AGREE]
    samples = pl.col(columns[0]) if columns else pl.lit(None, pl.Int64)
    return steps.select("iterator", "start_ns", samples.cast(pl.Int64).alias("samples"))


def _training_calls(forwards: pl.DataFrame) -> pl.DataFrame:
    """How often each step calls models with gradients, and on how many samples; without those of which that is not known of every call."""
    called = forwards.filter("gradients").group_by("step")
    known = pl.col("samples").is_not_null().all().alias("known")
    sizes = called.agg(known, calls=pl.len(), in_all=pl.col("samples").sum(), each=pl.col("samples").unique())
    return sizes.filter("known").drop("known")


def _looked_at(forwards: pl.DataFrame) -> pl.DataFrame:
    """On how many samples each step calls models without gradients."""
    return forwards.filter(~pl.col("gradients")).group_by("step").agg(looked_at=pl.col("samples").sum())


def _is_irregular(requests: pl.Series) -> bool:
    """Whether steps ask for different numbers of batches, beside an epoch's rest."""
    return requests.len() > 0 and float(requests.value_counts()["count"].max()) < AGREE * requests.len()  # type: ignore[arg-type]
