"""What the training's own work is made of: number formats, modes, accelerators left alone, loops and lines that hold it."""

from __future__ import annotations

from dataclasses import dataclass
from enum import IntEnum
from typing import Any

import polars as pl

from slowstep.analyses.compute.anomaly import AnomalyCost, find_anomaly_cost
from slowstep.analyses.compute.forward_function import ForwardFunction, find_forward_function
from slowstep.analyses.compute.forward_line import ForwardLine, convolutions_share, find_forward_line, find_forward_stacks
from slowstep.analyses.compute.recurrence import Recurrence, find_recurrence
from slowstep.analyses.compute.untimed import Untimed, find_untimed
from slowstep.analyses.python.calls import of_bodies
from slowstep.analyses.python.functions import Stacks
from slowstep.analyses.python.hot_loop import HotLoop, find_hot_loop
from slowstep.analyses.python.named_functions import functions_in_callbacks
from slowstep.analyses.python.outside_model import OutsideModel, find_outside_model
from slowstep.analyses.python.timed_bodies import find_lengthened
from slowstep.analyses.steps.steps import Steps
from slowstep.analyses.steps.trainer import Trainer
from slowstep.record.device.accelerators import are_hidden
from slowstep.record.timing import modes
from slowstep.timeline.timeline import Timeline


class DebugMode(IntEnum):
    """What makes every operation slower while it is on: its bit in recordings."""

    ANOMALY = modes.ANOMALY
    DETERMINISTIC = modes.DETERMINISTIC
    FRAMEWORK_PROFILER = modes.FRAMEWORK_PROFILER
    DEBUGGER = modes.TRACED
    PYTHON_PROFILER = modes.PROFILED
    PLAIN_KERNELS = modes.PLAIN_KERNELS


@dataclass(frozen=True, kw_only=True, slots=True)
class Work:
    """Facts about the training's own work. None is unknown."""

    loop: HotLoop | None
    outside_model: OutsideModel | None
    bodies_timed: int
    untimed: Untimed | None  # where calls in bodies could not be timed
    forward_line: ForwardLine | None
    forward_function: ForwardFunction | None
    convolutions: float | None  # share of the forward's time, by stacks
    dtypes: dict[str, int] | None  # elements of the anchor optimizer's parameters, by type
    modes: dict[DebugMode, float]  # what was on, and in which share of the looks; empty where none was
    looks: int
    accelerators: dict[str, int] | None  # that the process could open, by make
    accelerator_built: bool | None  # whether the installed framework can use any
    accelerators_hidden: bool  # by an environment variable: on purpose
    anomaly: AnomalyCost | None = None  # where anomaly detection was on, and stacks tell
    tallest: tuple[int, int] | None = None  # rows and width of the matrix among the anchor optimizer's parameters that has most rows
    recurrence: Recurrence | None = None  # a layer that is called for one place of its sequences after the other


def find_work(timeline: Timeline, trainer: Trainer, steps: Steps, stacks: Stacks) -> Work:
    """Gather the facts."""
    notes = trainer.facts.notes
    facts, optimizers = notes["facts"], notes["optimizers"]
    mine: dict[str, Any] = next((note for note in optimizers if note.get("id") == trainer.optimizer), {})
    forward = find_forward_stacks(steps, stacks)
    looks = timeline.table("modes").filter(pl.col("process") == trainer.process)
    apart = functions_in_callbacks(trainer, stacks)
    # Of a loop that is not fed and calls no module, bodies were timed that are not the ledger's.
    are_bodies = trainer.is_fed or not trainer.training_forwards.is_empty()
    bodies = of_bodies(timeline, "calls", trainer.process)["stretches"]
    on = _modes(looks, steps)
    return Work(
        loop=find_hot_loop(timeline, trainer.process, find_lengthened(timeline, trainer), apart) if are_bodies else None,
        outside_model=find_outside_model(timeline, trainer.process, apart) if are_bodies else None,
        bodies_timed=int(bodies[0]) if len(bodies) else 0,
        untimed=find_untimed(timeline, trainer, steps, stacks),
        forward_line=find_forward_line(timeline, trainer, forward),
        forward_function=find_forward_function(timeline, trainer, steps, stacks) if are_bodies else None,
        convolutions=convolutions_share(forward),
        dtypes=mine.get("dtypes"),
        tallest=_matrix(mine.get("tallest")),
        modes=on,
        looks=looks.height,
        anomaly=find_anomaly_cost(timeline, trainer, steps, stacks) if DebugMode.ANOMALY in on else None,
        recurrence=find_recurrence(timeline, trainer.process, trainer.facts.script) if are_bodies else None,
        accelerators=facts.get("accelerators"),
        accelerator_built=facts.get("accelerator_built"),
        accelerators_hidden=are_hidden(notes.get("env") or {}),
    )


def _matrix(noted: list[int] | None) -> tuple[int, int] | None:
    return (noted[0], noted[1]) if noted is not None and len(noted) > 1 else None


def _modes(looks: pl.DataFrame, steps: Steps) -> dict[DebugMode, float]:
    """Share of the looks inside the window in which each was on."""
    # Our own capture, whose steps are excluded, is a profiler too.
    looks = looks.filter(pl.Series(steps.step_at(looks["time_ns"].to_numpy())[1]))
    on, looked_at = looks["on"].to_numpy(), looks["looked_at"].to_numpy()
    found = {}
    for mode in DebugMode:
        looked = (looked_at & mode.value) != 0
        if looked.any() and (share := float(((on & mode.value) != 0)[looked].mean())):
            found[mode] = share
    return found
