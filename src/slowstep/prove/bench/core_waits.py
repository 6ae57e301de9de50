"""How many times as fast a part of a training would be if it had not waited for cores. Pure; 1 where that is not known.

Run-queue delay is the kernel's own count of it. That it is others who kept the cores, the caller has to know.
"""

from __future__ import annotations

import math

import numpy as np

from slowstep.prove.bench.loader_speed import Point
from slowstep.prove.stats.readings import ExperimentSteps


def of_steps(steps: ExperimentSteps, arms: tuple[int, ...]) -> float:
    """Of the training thread, in the counted steps of arms."""
    counted = ~steps.settling & np.isin(steps.arm, arms) & (steps.delay_ns >= 0)
    return _times(float(steps.ns[counted].sum()), float(steps.delay_ns[counted].sum()))


def of_loader(point: Point, cores: float | None) -> float:
    """Of those that make the loader's batches. Workers wait for each other, too: none can use more cores than there are."""
    took_ns = float(sum(each["wall_ns"] for each in point.slices))
    waited_ns = float(sum(min(each["delay_ns"], max(each["wall_ns"] - each["cpu_ns"], 0)) for each in point.slices))
    used_ns = sum(each["process_ns"] + (each["trainer_cpu_ns"] if point.workers else 0) for each in point.slices)
    period_ns = sum(each["period_ns"] for each in point.slices)
    most = cores * period_ns / used_ns if cores and used_ns > 0 else math.inf
    return max(min(_times(took_ns, waited_ns), most), 1.0)


def of_pipeline(point: Point, cores: float | None, foreign_cores: float | None) -> float:
    """Of threads of the framework, of which nobody counts how long they wait for cores: as if all that others used had been taken from
    them, but with no more cores than there are.
    """
    used_ns, period_ns = point.total("process_ns"), point.total("period_ns")
    if not cores or not foreign_cores or not used_ns or not period_ns:
        return 1.0
    own = used_ns / period_ns
    return max(min((own + foreign_cores) / own, cores / max(cores - foreign_cores, own)), 1.0)


def _times(took_ns: float, waited_ns: float) -> float:
    return took_ns / max(took_ns - waited_ns, 1e-3 * took_ns) if took_ns > 0 else 1.0
