"""What recording cost: events at their calibrated cost, and the CPU time of the stack samplers and of the process beside the training."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import polars as pl

from slowstep.analyses.captures import Capture
from slowstep.analyses.trainer import Trainer, training_processes
from slowstep.timeline.timeline import ProcessFacts, Timeline


@dataclass(frozen=True, kw_only=True, slots=True)
class OwnCost:
    """Cost inside the training process per step, and that of all processes as a share of the time in which the training ran. `once_ns` is
    no part of either: what is spent in a recording of any length, on code that is met for the first time and on calibration.
    """

    ns_per_step: float
    share: float | None
    once_ns: float


def find_own_cost(timeline: Timeline, trainer: Trainer, steps: int, capture: Capture | None = None) -> OwnCost | None:
    """The cost of recording so many steps, and of a capture among them; None where no process has measured what
    an event costs, or none was recorded.
    """
    others = _of_others(timeline, trainer)
    known = [
        facts
        for process, facts in enumerate(timeline.processes)
        if facts.events is not None and facts.event_cost_ns is not None and process not in others
    ]
    if not known or steps == 0:
        return None
    # Of a session, what was spent while other cells trained belongs to them; so it does of trainings before and after.
    elsewhere = trainer.other_cells + (0 if trainer.elsewhere is None else trainer.elsewhere.updates)
    own = len(trainer.update_end_ns) / (len(trainer.update_end_ns) + elsewhere)
    inside = own * sum(_of_process(facts) for facts in known if facts.pid == trainer.facts.pid)
    captured = (capture.extra_ns or 0.0) if capture is not None else 0.0
    inside += captured
    once = float(trainer.facts.once_cpu_ns or 0)
    first, last = int(trainer.update_end_ns[0]), int(trainer.update_end_ns[-1])
    if last <= first:
        return OwnCost(ns_per_step=inside / steps, share=None, once_ns=once)
    everywhere = captured + own * sum(map(_of_process, known)) + _of_launcher(timeline.table("launcher_costs"), first, last)
    return OwnCost(ns_per_step=inside / steps, share=everywhere / (last - first), once_ns=once)


def _of_others(timeline: Timeline, trainer: Trainer) -> set[int]:
    """The processes of other trainings beside this one, with their workers: their cost is their own."""
    others = set(training_processes(timeline)) - {trainer.process}
    pids = [timeline.processes[process].pid for process in others]
    workers = timeline.table("processes").filter(pl.col("role") == "worker", pl.col("parent_pid").is_in(pids))
    return others | set(workers["process"].to_list())


def _of_process(facts: ProcessFacts) -> float:
    # What was spent once is told at once, the sampler's time with its next reading.
    sampling = max((facts.sampler_cpu_ns or 0) - (facts.once_cpu_ns or 0), 0)
    return (facts.events or 0) * (facts.event_cost_ns or 0.0) + sampling


def _of_launcher(costs: pl.DataFrame, first_ns: int, last_ns: int) -> float:
    """Between two times. What it used while the command was starting is no part of the training."""
    if costs.is_empty():
        return 0.0
    costs = costs.sort("time_ns")
    begin, end = np.interp([first_ns, last_ns], costs["time_ns"].to_numpy(), costs["cpu_ns"].to_numpy())
    return float(end - begin)
