"""Finds the ranges that mark the steps of a training, by the running number in their text."""

from __future__ import annotations

from typing import Final

import polars as pl

# "step 12", "iteration 12/1000", "train_step_12", "ProfilerStep#12", "global_step: 12": a word for a step and, last, its number.
NUMBERED: Final = (
    r"(?i)^(?<words>.*?(?<word>step|iteration|iter|batch)[ \t_#:=\-\[(]{0,3})(?<number>\d{1,15})[ \t]*(?:[/|][ \t]*\d+)?[\])]?$"
)
# A word earlier here wins over one later: where both are marked, batches may be parts of a step.
WORDS: Final = ("step", "iteration", "iter", "batch")
# How many of the neighbours may fail to count up: a restart, or a step marked twice.
MOST_REPEATS: Final = 0.1
MARK: Final = "NVTX"


def possible_steps(ranges: pl.DataFrame) -> pl.DataFrame:
    """Those of some ranges (columns thread, start_ns, end_ns, name) whose name may be that of a step."""
    ranges = ranges.select("thread", "start_ns", "end_ns", "name")
    names = ranges.select("name").unique().filter(pl.col("name").cast(pl.String).str.contains(NUMBERED))
    return ranges.join(names, on="name", how="semi", maintain_order="left")


def marked_steps(ranges: pl.DataFrame) -> pl.DataFrame:
    """The steps among ranges (columns thread, start_ns, end_ns, name): number, start_ns, end_ns, thread, mark; empty where none count up.

    Steps are ranges of one thread with the same words and a number that grows from one to the next, which do not overlap.
    """
    names = ranges.select("name").unique().with_columns(pl.col("name").cast(pl.String).str.extract_groups(NUMBERED).alias("parts"))
    names = names.unnest("parts").filter(pl.col("word").is_not_null()).with_columns(pl.col("number").cast(pl.Int64))
    numbered = ranges.select("thread", "start_ns", "end_ns", "name").join(names, on="name")
    candidates = [
        (_rank(group), group)
        for _, group in numbered.sort("start_ns").group_by("thread", "words", maintain_order=True)
        if _counts_up(group)
    ]
    if not candidates:
        return pl.DataFrame(schema={"number": pl.Int64, "start_ns": pl.Int64, "end_ns": pl.Int64, "thread": pl.Int64, "mark": pl.String})
    best = max(candidates, key=lambda candidate: candidate[0])[1]
    return best.select("number", "start_ns", "end_ns", "thread", pl.lit(MARK).alias("mark"))


def _counts_up(steps: pl.DataFrame) -> bool:
    if len(steps) < 2:
        return False
    repeats = int((steps["number"].diff().drop_nulls() <= 0).sum())
    apart = (steps["start_ns"].shift(-1) - steps["end_ns"]).drop_nulls() >= 0
    return repeats <= MOST_REPEATS * (len(steps) - 1) and bool(apart.all())


def _rank(steps: pl.DataFrame) -> tuple[int, int]:
    """Steps before batches; of the same word, those that cover most time."""
    word = str(steps["word"][0]).lower()
    return -WORDS.index(word), int((steps["end_ns"] - steps["start_ns"]).sum())
