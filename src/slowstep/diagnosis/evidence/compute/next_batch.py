"""B where steps get shorter: what makes the next batch meanwhile."""

from __future__ import annotations

from slowstep.analyses.measurements import Measurements
from slowstep.diagnosis.evidence.trainer_side import concurrent_producers_ns


def next_batch_ns(m: Measurements, spared_ns: float) -> float:
    """What workers of a loader, or the slowest stage of a pipeline, need per step, where the training thread computes so much less. They
    kept up with the step as it is.
    """
    pipeline = m.input.pipeline
    stages = () if pipeline is None else pipeline.stages
    batches = m.steps.requests_per_step or 1.0
    slowest = max((stage.busy_ns / max(stage.thread.servers, 1) for stage in stages), default=0.0)
    return max(min(slowest * batches, float(m.step_ns.mean())), concurrent_producers_ns(m, spared_cpu_ns=spared_ns))
