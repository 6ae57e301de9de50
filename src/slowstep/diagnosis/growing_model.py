"""Whether a model's own work grows because there is more to do in every step, or because something is kept."""

from __future__ import annotations

from slowstep.analyses.graphs import GraphGrowth
from slowstep.analyses.growth import Growth
from slowstep.analyses.measurements import Measurements
from slowstep.analyses.over_time import LARGEST_POWER, WORK
from slowstep.diagnosis.growing import GROWN_BY
from slowstep.findings import NotJudged
from slowstep.part_words import part_in_words


def keeps_graph(growth: Growth, graph: GraphGrowth | None) -> bool:
    """Whether it is seen that backward goes through more and more of what earlier steps have made."""
    if graph is None or graph.kept is None or growth.part not in WORK:
        return False
    first, last = graph.kept
    return last - first > GROWN_BY * graph.nodes[0]


def does_more(m: Measurements, growth: Growth, rule: str) -> NotJudged | None:
    """Why the model's own work may grow though nothing is kept; None where it does not."""
    graph = m.over_time.graph
    if growth.part not in WORK:
        return None
    times = f"{part_in_words(growth.part)} grows from {max(growth.trend.first, 0.0) / 1e6:.1f} to {growth.trend.last / 1e6:.1f} ms a step"
    if (answer := _by_inputs(m, growth, times, rule)) is not None:
        return answer
    if keeps_graph(growth, graph):
        return None
    if graph is None:
        reason = f"{times}: whether a graph is kept from step to step, or the model does more in each, was not seen; see which it is"
        return NotJudged(rule=rule, reason=reason)
    return _by_parameters(m, graph, times, rule) or _by_operations(m, growth, graph, times, rule)


def _by_inputs(m: Measurements, growth: Growth, times: str, rule: str) -> NotJudged | None:
    sizes = m.input.sizes
    if sizes is None or not growth.is_models:
        return None
    if growth.trend.last > (1 + GROWN_BY) * max(growth.trend.first, 0.0) * sizes.growth**LARGEST_POWER:
        return None
    return NotJudged(rule=rule, reason=f"{times} with its inputs, of which the last are {sizes.growth:.1f} times as large", advisory=True)


def _by_parameters(m: Measurements, graph: GraphGrowth, times: str, rule: str) -> NotJudged | None:
    if graph.parameters is None or graph.parameters[1] <= graph.parameters[0]:
        return None
    first, last = graph.parameters
    more = f"{times} with the model, of which {last / first:.1f} times as many parameters get a gradient at the end" if first else times
    trend, beside = m.over_time.trend, graph.beside_low_ns
    if trend is not None and beside is not None and beside >= GROWN_BY * trend.first:
        return NotJudged(rule=rule, reason=f"{more}, and beside that while these stay the same; see what is kept from step to step")
    return NotJudged(rule=rule, reason=more, advisory=True)


def _by_operations(m: Measurements, growth: Growth, graph: GraphGrowth, times: str, rule: str) -> NotJudged | None:
    first, last = graph.nodes
    if growth.is_models and last > (1 + GROWN_BY) * first:
        more = f"{times}, and a step's operations from {first:.0f} to {last:.0f}"
        return NotJudged(
            rule=rule, reason=f"{more}: longer unrolling does that, and so does a history that is kept and walked; see which it is"
        )
    if growth.both and m.input.sizes is None:
        reason = (
            f"{times}, and so does the rest of the model's work: longer inputs do that, and so does a history that is kept; see which it is"
        )
        return NotJudged(rule=rule, reason=reason)
    return None
