"""Steps of the same kind take very different times.

What it sees:
    Steps without periodic events vary by at least half of their median (one standard deviation, from the 16th and 84th percentile), and one
    part of the training thread's own work holds most of that. Waits for input and functions after the update have findings of their own.
    It is not judged where the machine may be what varies: where others use it, where its pace varied from one part of the run to the next,
    where steps vary mostly by what they wait for a core, and of less than 10 s.
Why it costs:
    A varying step is a sign (samples of very different size, a cache that is missed, a core that is shared) and makes every comparison
    uncertain; across ranks all wait for the slowest.
How the gain is predicted:
    It is not: what an even step would take is not known. It is advice.
When it is wrong:
    Batches of different lengths by design (buckets) vary, and are right to. Different numbers of samples or of forwards (episodes) do not
    count.
What to try:
    Group samples by length, pad to few sizes; where all steps have as many samples, look at what differs from step to step. Pin the
    process to cores of its own.
"""

from __future__ import annotations

from slowstep.analyses.measurements import Measurements
from slowstep.analyses.over_time.over_time import variation
from slowstep.diagnosis.advice import advice
from slowstep.diagnosis.gain import is_pace_uneven
from slowstep.diagnosis.rule import Answer, Rule
from slowstep.findings import Evidence
from slowstep.part_words import part_in_words
from slowstep.parts import PartKind
from slowstep.units import format_share

NAME = "unstable-step-time"
# An even step varied by 0.38 on a shared, loaded machine (1879 steps, measured): beyond that, it is the training.
VARIATION = 0.5
MOST_OF_IT = 0.5
# Numbers of samples that vary by so much of what the time does are the reason: a larger batch takes longer, by less than in proportion.
BY_SAMPLES = 0.5
# As for a verdict (docs/definitions.md): of fewer steps, or less time, a spread says nothing.
FEWEST_STEPS = 30
FEWEST_NS = 10e9


def judge(m: Measurements) -> Answer:
    """Whether the training's own work varies much from step to step."""
    found = m.over_time.unsteady
    if m.machine.load.busy or is_pace_uneven(m) or m.steps.count < FEWEST_STEPS or m.steps.length_ns < FEWEST_NS:
        return None
    if found.variation < VARIATION or found.part_share < MOST_OF_IT:
        return None
    if found.part.stage != "compute" or found.part.kind is PartKind.CORE_WAIT:
        return None
    if variation(m.steps.samples) >= BY_SAMPLES * found.variation:
        return None
    evidence = (
        Evidence(name="variation", value=found.variation, unit="of the median step", threshold=VARIATION),
        Evidence(name="part that varies most", value=part_in_words(found.part), unit="", where=found.part.stage),
        Evidence(name="its share", value=found.part_share, unit="share of the variance", threshold=MOST_OF_IT),
    )
    title = f"steps vary by {format_share(found.variation)} of their median, mostly in: {part_in_words(found.part)}"
    return advice(NAME, found.part.stage, title, evidence, "every step took the same time", (_fix(m),))


def _fix(m: Measurements) -> str:
    # Of an unknown size NaN is told, which equals nothing.
    if (m.steps.samples == m.steps.samples[0]).all():
        return (
            "look at what differs there from step to step, such as how long the samples are; "
            "where nothing does, pin the process to cores of its own"
        )
    return "group samples by length, or pad to few sizes"


RULE = Rule(name=NAME, stages=("compute",), topics=("machine", "over_time", "steps"), judge=judge)
