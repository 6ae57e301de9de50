"""Whether a model's own work grows because there is more to do in every step, or because something is kept."""

from __future__ import annotations

from slowstep.analyses.compute.graphs import GraphGrowth
from slowstep.analyses.measurements import Measurements
from slowstep.analyses.over_time.growth import PartGrowth
from slowstep.analyses.over_time.over_time import LARGEST_POWER, WORK
from slowstep.diagnosis.evidence.growing import GROWN_BY
from slowstep.findings import NotJudged
from slowstep.part_words import part_in_words
from slowstep.reasons import Reason, Wording

PART_GROWS = Wording("part-grows", "{part} grows from {first_ns:ms} to {last_ns:ms} ms a step")
GRAPH_NOT_SEEN = Wording(
    "graph-not-seen",
    "{grows}: whether a graph is kept from step to step, or the model does more in each, was not seen; see which it is",
)
GROWS_WITH_INPUTS = Wording("grows-with-inputs", "{grows} with its inputs, of which the last are {times:times} as large")
GROWS_WITH_PARAMETERS = Wording(
    "grows-with-parameters", "{grows} with the model, of which {times:times} as many parameters get a gradient at the end"
)
GROWS_BESIDE_PARAMETERS = Wording(
    "grows-beside-parameters", "{grows}, and also while these stay the same; see what is kept from step to step"
)
GROWS_BY_OPERATIONS = Wording(
    "grows-by-operations",
    "{grows}, and a step's operations from {first:.0f} to {last:.0f}: longer unrolling does that, and so does a history that is kept and "
    "walked; see which it is",
)
GROWS_AS_A_WHOLE = Wording(
    "grows-as-a-whole",
    "{grows}, and so does the rest of the model's work: longer inputs do that, and so does a history that is kept; see which it is",
)


def keeps_graph(growth: PartGrowth, graph: GraphGrowth | None) -> bool:
    """Whether it is seen that backward goes through more and more of what earlier steps have made."""
    if graph is None or graph.kept is None or growth.part not in WORK:
        return False
    first, last = graph.kept
    return last - first > GROWN_BY * graph.nodes[0]


def does_more(m: Measurements, growth: PartGrowth, rule: str) -> NotJudged | None:
    """Why the model's own work may grow though nothing is kept; None where it does not."""
    graph = m.over_time.graph
    if growth.part not in WORK:
        return None
    grows = PART_GROWS(part=part_in_words(growth.part), first_ns=max(growth.trend.first, 0.0), last_ns=growth.trend.last)
    if (answer := _by_inputs(m, growth, grows, rule)) is not None:
        return answer
    if keeps_graph(growth, graph):
        return None
    if graph is None:
        return NotJudged(rule=rule, reason=GRAPH_NOT_SEEN(grows=grows))
    return _by_parameters(m, graph, grows, rule) or _by_operations(m, growth, graph, grows, rule)


def _by_inputs(m: Measurements, growth: PartGrowth, grows: Reason, rule: str) -> NotJudged | None:
    sizes = m.input.facts.sizes
    if sizes is None or not growth.is_models:
        return None
    if growth.trend.last > (1 + GROWN_BY) * max(growth.trend.first, 0.0) * sizes.growth**LARGEST_POWER:
        return None
    return NotJudged(rule=rule, reason=GROWS_WITH_INPUTS(grows=grows, times=sizes.growth), advisory=True)


def _by_parameters(m: Measurements, graph: GraphGrowth, grows: Reason, rule: str) -> NotJudged | None:
    if graph.parameters is None or graph.parameters[1] <= graph.parameters[0]:
        return None
    first, last = graph.parameters
    more = GROWS_WITH_PARAMETERS(grows=grows, times=last / first) if first else grows
    trend, beside = m.over_time.trend, graph.same_parameters_low_ns
    if trend is not None and beside is not None and beside >= GROWN_BY * trend.first:
        return NotJudged(rule=rule, reason=GROWS_BESIDE_PARAMETERS(grows=more))
    return NotJudged(rule=rule, reason=more, advisory=True)


def _by_operations(m: Measurements, growth: PartGrowth, graph: GraphGrowth, grows: Reason, rule: str) -> NotJudged | None:
    first, last = graph.nodes
    if growth.is_models and last > (1 + GROWN_BY) * first:
        return NotJudged(rule=rule, reason=GROWS_BY_OPERATIONS(grows=grows, first=first, last=last))
    if growth.both and m.input.facts.sizes is None:
        return NotJudged(rule=rule, reason=GROWS_AS_A_WHOLE(grows=grows))
    return None
