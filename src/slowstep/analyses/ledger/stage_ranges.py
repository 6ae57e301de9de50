"""Which named ranges of a host thread tell the stage that the time inside them belongs to: input waits, callbacks, validation, writes.

Names come from the frameworks that make them (`frameworks/NAME/outside/trace_events.py`), and are what people call their own ranges. Of
Python functions only those of known libraries count. A range with any other name tells its stage by its place, where that is beside the
model (`beside_model.py`): `output`, by its name; where it is not after an update and is called as the making of input is, input.
"""

from __future__ import annotations

from typing import Final

import polars as pl

from slowstep.analyses.events.names import host_named, host_names
from slowstep.analyses.events.training_thread import OPTIMIZER_RANGE, training_thread
from slowstep.analyses.ledger.beside_model import COMPUTES, beside_model
from slowstep.frameworks._events import Event
from slowstep.frameworks._known import events
from slowstep.parts import PartKind
from slowstep.timeline.timeline import Timeline, found_once

# As in `load_batch`, `wait_for_batch`, `get next input`.
LOAD_BATCH: Final = (
    r"(?i)(^|[^a-z])(load|get|next|fetch|wait|read|prepare)(_|-| )?(for(_|-| ))?(next(_|-| ))?(the(_|-| ))?"
    r"(batch|data|input|sample)(es|s)?([^a-z_]|$)"
)
# What people call the making of a batch and an agent's environment: between an update and the next step's first kernel either may be
# input or a result, by its place.
MAKES_INPUT: Final = (
    r"(?i)(^|[^a-z])(mak|build|creat|augment|tokeni[sz]|collat|transform|decod|pre_?process|crop|resiz|normali[sz]|shuffl|pack|pad)[a-z]*"
    r"([^a-z]|$)|(^|[^a-z])(batch(es)?|datasets?|inputs?|env(ironment)?_?steps?|roll_?outs?)([^a-z]|$)"
)
CALLBACK: Final = events(Event.CALLBACK)
# A range that stands for more than one thing is a part by its own name, shortened.
RANGES: Final = (
    ("preprocess", PartKind.INPUT_WAIT, events(Event.INPUT_WAIT)),
    (
        "preprocess",
        PartKind.INPUT_WAIT,
        LOAD_BATCH,
    ),
    (
        "preprocess",
        PartKind.INPUT_WAIT,
        r"(?i)(^|[^a-z])(data|input|batch)(_|-| )?(load|loading|loader|wait|fetch|fetching|pipeline)([^a-z_]|$)",
    ),
    ("preprocess", PartKind.INPUT_WAIT, r"(?i)^\W*data_?loader\W*$"),
    (
        "store",
        PartKind.SPAN,
        r"(?i)check_?point(_|-| |er|ing|$)*(save|write|$)|(save|write)(_|-| )(check_?point|ckpt|model|state)|ModelCheckpoint",
    ),
    ("output", PartKind.SPAN, CALLBACK),
    (
        "output",
        PartKind.VALIDATION,
        r"(?i)(^|[^a-z])(validation|validate|evaluation|evaluate|val_step|eval_step|eval_epoch|val_epoch)([^a-z]|$)",
    ),
    (
        "output",
        PartKind.SPAN,
        r"(?i)(^|[^a-z])(callbacks?|metrics?|logging|logger|log_(metrics|images?|scalars?|step)|plot|visuali[sz]e|tensorboard|wandb|summary_writer)([^a-z]|$)",
    ),
)
FUNCTIONS: Final = (
    ("preprocess", PartKind.INPUT_WAIT, events(Event.INPUT_WAIT_FUNCTION)),
    ("store", PartKind.CHECKPOINT, events(Event.CHECKPOINT_FUNCTION)),
    ("output", PartKind.LOGGING, r"(tensorboard|tensorboardX)/\w*writer\.py\(\d+\): add_\w+$|wandb/sdk/wandb_run\.py\(\d+\): log$"),
    ("output", PartKind.LOGGING, r"matplotlib/figure\.py\(\d+\): savefig$|mlflow/tracking/fluent\.py\(\d+\): log_\w+$"),
)
# Written by libraries around their calls.
LIBRARIES: Final = r"^((nccl|rccl|gloo|mpi|ucc|cu(blas|dnn|sparse|fft|solver))[A-Z_:]|[A-Za-z_]\w*::)"
WRAPPED: Final = r"^[#\s]+|[#\s]+$"


@found_once
def stage_ranges(timeline: Timeline) -> pl.DataFrame:
    """The named ranges that tell a stage: `thread`, `start_ns`, `end_ns`, `range` (its name), and the part; empty ones are left out."""
    told, beside = told_ranges(timeline), beside_model(timeline, _tells_by_place())
    makes = ~pl.col("after") & pl.col("range").str.contains(MAKES_INPUT)
    stage = pl.when(makes).then(pl.lit("preprocess")).otherwise(pl.lit("output")).alias("stage")
    kind = pl.when(makes).then(pl.lit(PartKind.INPUT_WAIT.value)).otherwise("kind").alias("kind")
    beside = beside.with_columns(stage, kind, *(pl.when(~makes).then(column).alias(column) for column in ("name", "place")))
    return _sorted(pl.concat([told, beside.select(pl.col(n).cast(t) for n, t in told.schema.items())]))


@found_once
def told_ranges(timeline: Timeline) -> pl.DataFrame:
    """Of them those that tell it by their name."""
    names = host_names(timeline, ["annotation", "operator", "python"])
    told = pl.concat(
        [
            _with_stages(names.filter(pl.col("kind") != "python"), RANGES).filter(
                ~pl.col("text").str.contains(COMPUTES) | pl.col("text").str.contains(CALLBACK)
            ),
            _with_stages(names.filter(pl.col("kind") == "python"), FUNCTIONS),
        ]
    )
    # Frameworks' operators, as `aten::mm`, are no ranges that somebody named, whatever kind of event a profiler makes of them.
    told = told.filter(~pl.col("text").str.contains(r"^[A-Za-z_]\w*::") | pl.col("text").str.starts_with("Iterator"))
    rows = host_named(timeline, told)
    training = pl.lit(training_thread(timeline), dtype=pl.Int32)
    thread = pl.when(pl.col("text").str.contains(events(Event.INPUT_ELSEWHERE))).then(training).otherwise(pl.col("thread"))
    rows = rows.select(
        thread.alias("thread"),
        "start_ns",
        "end_ns",
        pl.col("text").alias("range"),
        "stage",
        kind="part_kind",
        name="part_name",
        place=pl.lit(None, dtype=pl.String),
    )
    return _sorted(rows)


def _tells_by_place() -> pl.Expr:
    """Which rows of `host_names` could be what somebody has named, and do not tell a stage by that name."""
    text, around = pl.col("text").str, events(Event.STEP, Event.OWN, Event.COMPILATION)
    named = "|".join([*(pattern for _, _, pattern in RANGES), COMPUTES, OPTIMIZER_RANGE, LIBRARIES, around])
    functions = "|".join([*(pattern for _, _, pattern in FUNCTIONS), LOAD_BATCH])
    return ~pl.when(pl.col("kind") == "python").then(text.contains(functions)).otherwise(text.contains(named))


def _sorted(rows: pl.DataFrame) -> pl.DataFrame:
    return rows.sort("thread", "start_ns", "end_ns", "range", descending=[False, False, True, False])


def _with_stages(names: pl.DataFrame, ranges: tuple[tuple[str, PartKind, str], ...]) -> pl.DataFrame:
    text = pl.col("text")
    stage, kind = pl.lit(None, dtype=pl.String), pl.lit(None, dtype=pl.String)
    for of_stage, of_kind, pattern in reversed(ranges):
        found = text.str.contains(pattern)
        stage = pl.when(found).then(pl.lit(of_stage)).otherwise(stage)
        kind = pl.when(found).then(pl.lit(of_kind.value)).otherwise(kind)
    told = names.with_columns(stage.alias("stage"), kind.alias("part_kind")).filter(pl.col("stage").is_not_null())
    name = pl.when(pl.col("part_kind") == PartKind.SPAN.value).then(text.str.replace_all(WRAPPED, ""))
    return told.with_columns(name.alias("part_name"))
