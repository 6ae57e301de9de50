"""Host work beside the model that tells no stage by its name: ranges that somebody has named, and functions of the script.

Its place tells the stage, as in a trace without a device: what runs where the model does nothing is done with results. Most ranges of a
trace lie around the step's own work (steps, forward, layers, backward, optimizer), and an idle device inside those is launches that come
late. So a range counts only where it hardly launches anything itself, and lies as a whole where the model pauses (`model_pauses.py`); or,
amid the model's launches, where it works for long by itself and no part of the model is around it. Functions have names anyway: they count
after an update only, as before the next one they may make input.
"""

from __future__ import annotations

from typing import Final

import numpy as np
import polars as pl

from slowstep.analyses.events.names import host_named, host_names, matches
from slowstep.analyses.events.synchronizing import synchronizing_calls
from slowstep.analyses.events.training_thread import OPTIMIZER_RANGE, training_thread
from slowstep.analyses.events.unions import merged
from slowstep.analyses.ledger.model_pauses import ModelPauses, calls_that_launch, within
from slowstep.analyses.ledger.own_work import LONG_NS
from slowstep.analyses.python.user_places import own_function, user_function
from slowstep.frameworks._events import Event
from slowstep.frameworks._known import events
from slowstep.parts import PartKind
from slowstep.timeline.intervals import Flags, Ints, covered_ns
from slowstep.timeline.timeline import Timeline

# The framework's operator around a launch takes 10 to 50 us, and a profiler makes that up to 1.7 times as long (seed 002).
EACH_LAUNCH_NS: Final = 100_000
# Checkpointing of activations is a way of computing, and names of modules and kernels say "checkpoint" for it.
COMPUTES: Final = r"(?i:activation|recompute|CheckpointFunction|checkpoint_?wrapper|checkpointed|backward|forward)"
# Of a range launching may explain this much; where it explains more, the range is there for what it launches.
LAUNCHING_AT_MOST: Final = 0.1


def beside_model(timeline: Timeline, candidates: pl.Expr) -> pl.DataFrame:
    """Named ranges and functions of the training thread beside the model: `thread`, `start_ns`, `end_ns`, `range` (what it is called),
    `kind`, `name` and `place` of the part, and whether `after` the update of a marked step. Empty without a device, and of a trace that
    does not tell what somebody has named from what the framework names for itself.

    Of those inside each other the outermost. `candidates`: which rows of `host_names` tell nothing else by their name.
    """
    thread, facts = training_thread(timeline), timeline.trace
    names = host_names(timeline, ["annotation", "python"])
    told = [_name_and_part(kind, text) for kind, text in names.select("kind", "text").iter_rows()]
    labels = pl.DataFrame(told, schema=dict.fromkeys(("range", "part_kind", "part_name", "place"), pl.String), orient="row")
    names = pl.concat([names, labels], how="horizontal").filter(pl.col("range").is_not_null() & candidates)
    if facts is None or not facts.tells_users_names or not timeline.count("device_events"):
        names = names.clear()
    rows = host_named(timeline, names).filter(pl.col("thread") == pl.lit(thread, dtype=pl.Int32))
    rows = rows.sort("start_ns", "end_ns", "range", descending=[False, True, False])
    rows = _outside_model(timeline, rows) if rows.height else rows.with_columns(pl.lit(value=False).alias("after"))
    reach = pl.col("end_ns").cum_max().shift(1)
    rows = rows.filter(reach.is_null() | (pl.col("start_ns") >= reach))
    return rows.select("thread", "start_ns", "end_ns", "range", "place", "after", kind="part_kind", name="part_name")


def _name_and_part(kind: str, text: str) -> tuple[str | None, str | None, str | None, str | None]:
    """What a range or function is called, and its part's kind, name and place; nothing of a function that is not the user's."""
    if kind != "python":
        return text, PartKind.SPAN.value, text, None
    function = own_function(text)
    return (user_function(text), *function) if function is not None else (None, None, None, None)


def _outside_model(timeline: Timeline, rows: pl.DataFrame) -> pl.DataFrame:
    """The rows that are beside the model, and not there for what they launch or for the input that they copy to the device."""
    kernels, inputs = calls_that_launch(timeline, "kernel", "h2d")
    start, end = rows["start_ns"].to_numpy(), rows["end_ns"].to_numpy()
    launches, function = _count(kernels, start, end), (rows["kind"] == "python").to_numpy()
    pauses = ModelPauses(timeline, kernels)
    anywhere = pauses.anywhere(start, end) | ((launches == 0) & _works_alone(timeline, rows))
    after = pauses.after_update(start, end)
    apart = np.where(function, after, anywhere)
    hardly = launches * EACH_LAUNCH_NS <= LAUNCHING_AT_MOST * (end - start)
    found = apart & hardly & (_count(inputs, start, end) == 0)
    return rows.with_columns(pl.Series("after", after, dtype=pl.Boolean)).filter(pl.Series(found, dtype=pl.Boolean))


def _works_alone(timeline: Timeline, rows: pl.DataFrame) -> Flags:
    """Whether the host works in each row for so long that no launching explains it, with no part of the model around it."""
    thread, start, end = rows["thread"][0], rows["start_ns"].to_numpy(), rows["end_ns"].to_numpy()
    waits = merged(synchronizing_calls(timeline).filter(pl.col("thread") == thread))
    working = end - start - (covered_ns(*waits, end) - covered_ns(*waits, start))
    hosts = timeline.rows("host_events", "thread", "start_ns", "end_ns", "kind", "name", kinds=["operator", "annotation", "python"])
    hosts = hosts.filter((pl.col("thread") == thread) & (pl.col("end_ns") - pl.col("start_ns") >= LONG_NS))
    of_model = matches(hosts["name"], f"{COMPUTES}|{OPTIMIZER_RANGE}|{events(Event.MODEL)}")
    model = merged(hosts.filter((pl.col("kind") == "operator") | of_model))
    return np.asarray((working >= LONG_NS) & ~within(model, start, end))


def _count(calls: pl.DataFrame, start: Ints, end: Ints) -> Ints:
    """How many of the calls begin in each stretch."""
    at = calls["start_ns"].to_numpy()
    return np.asarray(np.searchsorted(at, end) - np.searchsorted(at, start))
