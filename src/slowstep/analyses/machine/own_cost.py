"""What recording cost: events at their calibrated cost, and the CPU time of the stack samplers and of the thread that reads monitors."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

import numpy as np
import polars as pl

from slowstep.analyses.steps.captures import Capture
from slowstep.analyses.steps.trainer import Trainer, other_training_processes
from slowstep.cost_parts import CostPart
from slowstep.timeline.timeline import ProcessFacts, Timeline

# What recording costs at most: a share of a step of 20 ms, and ns on top of an empty one (benchmarks/overhead.py holds it to both).
MOST_SHARE, MOST_NS = 0.005, 12_000.0


@dataclass(frozen=True, kw_only=True, slots=True)
class OwnCost:
    """Cost inside the training process per step, and that of all processes as a share of the time in which the training ran. `once_ns` is
    no part of either: what is spent in a recording of any length, on code that is met for the first time and on calibration.

    `parts` are what the share is made of. `timing_share` is no part of it, since nothing says how much of the time in which calls were
    timed was their timing: at most so much.
    """

    ns_per_step: float
    share: float | None
    once_ns: float
    parts: Mapping[CostPart, float] = field(default_factory=dict)
    timing_share: float | None = None

    def limit_share(self, step_ns: float) -> float:
        """What the share may be in steps of this length: of short ones what an empty step may cost."""
        return max(MOST_SHARE, MOST_NS / step_ns)

    @property
    def limited_share(self) -> float | None:
        """The share that is held against the limit: without the profiler, which somebody has asked for."""
        return None if self.share is None else self.share - self.parts.get(CostPart.PROFILER, 0.0)


def find_own_cost(timeline: Timeline, trainer: Trainer, steps: int, capture: Capture | None = None) -> OwnCost | None:
    """The cost of recording so many steps, and of a capture among them; None where no process has measured what
    an event costs, or none was recorded.
    """
    known = _that_know(timeline, trainer)
    if not known or steps == 0:
        return None
    # Of a session, what was recorded while other cells trained belongs to them; so it does of trainings before and after.
    elsewhere = trainer.other_cells + (0 if trainer.elsewhere is None else trainer.elsewhere.updates)
    own = len(trainer.update_end_ns) / (len(trainer.update_end_ns) + elsewhere)
    first, last = int(trainer.update_end_ns[0]), int(trainer.update_end_ns[-1])
    inside = sum(sum(_of_process(facts, own, first, last)) for facts in known if facts.pid == trainer.facts.pid)
    captured = (capture.extra_ns or 0.0) if capture is not None else 0.0
    inside += captured
    once = float(trainer.facts.once_cpu_ns or 0)
    if last <= first:
        return OwnCost(ns_per_step=inside / steps, share=None, once_ns=once)
    hooks, stacks = (sum(each) for each in zip(*(_of_process(facts, own, first, last) for facts in known), strict=True))
    monitors = _of_launcher(timeline.table("launcher_costs"), first, last)
    used = {CostPart.HOOKS: hooks, CostPart.STACKS: stacks, CostPart.MONITORS: monitors, CostPart.PROFILER: captured}
    return OwnCost(
        ns_per_step=inside / steps,
        share=sum(used.values()) / (last - first),
        once_ns=once,
        parts={name: ns / (last - first) for name, ns in used.items() if ns},
        timing_share=own * _of_timing(timeline.table("calls"), trainer) / (last - first),
    )


def _that_know(timeline: Timeline, trainer: Trainer) -> list[ProcessFacts]:
    """The processes that have measured what an event costs, but for those of other trainings: their cost is their own."""
    others = other_training_processes(timeline, trainer.process)
    return [
        facts
        for process, facts in enumerate(timeline.processes)
        if facts.events is not None and facts.event_cost_ns is not None and process not in others
    ]


def _of_process(facts: ProcessFacts, own: float, first_ns: int, last_ns: int) -> tuple[float, float]:
    """What its hooks cost, of which a part is the training's `own`, and its stacks between two times: those taken while a model was
    compiled at the start are no part of the training.
    """
    hooks = own * ((facts.events or 0) * (facts.event_cost_ns or 0.0) + facts.spent_ns)
    if len(facts.sampling) < 2 or last_ns <= first_ns:
        # Not told, as in older recordings. What was spent once is told at once, the sampler's time with its next reading.
        return hooks, own * max((facts.sampler_cpu_ns or 0) - (facts.once_cpu_ns or 0), 0)
    time_ns, used_ns = zip(*facts.sampling, strict=True)
    begin, end = np.interp([first_ns, last_ns], time_ns, used_ns)
    return hooks, max(float(end - begin), 0.0)


def _of_timing(calls: pl.DataFrame, trainer: Trainer) -> float:
    """How much longer the training process took at most for timing calls: as long as if all that it did meanwhile had been Python code."""
    each = calls.filter(pl.col("process") == trainer.process).group_by("kind").agg(pl.col("wall_ns", "slowdown").first())
    longer = each["wall_ns"] * (1 - 1 / each["slowdown"].fill_null(1.0).clip(lower_bound=1.0))
    return float(longer.sum() or 0.0)


def _of_launcher(costs: pl.DataFrame, first_ns: int, last_ns: int) -> float:
    """Between two times. What it used while the command was starting is no part of the training."""
    if costs.is_empty():
        return 0.0
    costs = costs.sort("time_ns")
    begin, end = np.interp([first_ns, last_ns], costs["time_ns"].to_numpy(), costs["cpu_ns"].to_numpy())
    return float(end - begin)
