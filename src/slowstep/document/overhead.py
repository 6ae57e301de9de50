"""The section `overhead` of a report: what slowstep itself cost the training."""

from __future__ import annotations

from slowstep.analyses.measurements import Measurements
from slowstep.document.throughput_rows import Overhead

UNKNOWN: Overhead = {"us_per_step": None, "share": None}


def overhead_section(m: Measurements) -> Overhead:
    """The cost of recording; unknown of a trace: what its profiler cost is in its times, and nobody knows how much."""
    cost = m.machine.own_cost if m.has("machine") else None
    if cost is None:
        return UNKNOWN
    row: Overhead = {"us_per_step": cost.ns_per_step / 1e3, "share": cost.share, "once_ms": cost.once_ns / 1e6}
    if cost.limited_share is not None:
        row["parts"] = [{"name": name, "share": share} for name, share in sorted(cost.parts.items(), key=lambda part: -part[1])]
        row["limit_share"] = cost.limit_share(float(m.step_ns.mean()))
        row["held"] = cost.limited_share <= row["limit_share"]
        row["call_timing_share_at_most"] = cost.timing_share
        row["may_exceed"] = cost.limited_share + (cost.timing_share or 0.0) > row["limit_share"]
    return row
