"""Steps of the same kind take very different times.

What it sees:
    Steps without periodic events vary by at least half of their median (one standard deviation, from the 16th and 84th percentile), and one
    part of the training thread's own work holds most of that. Waits for input and functions after the update have findings of their own.
    Steps that vary so are not judged where the machine may be what varies: where others use it, where its pace varied from one part of the
    run to the next by more than such steps do by chance, where they vary mostly by what they wait for a core; and of less than 30 steps or
    10 s.
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
from slowstep.analyses.over_time.over_time import Unsteady, variation
from slowstep.analyses.steps.steps import ENOUGH_NS, STEPS_AT_LEAST
from slowstep.calibration import between_runs
from slowstep.diagnosis.advice import advice
from slowstep.diagnosis.gain import is_pace_uneven, runs_differ
from slowstep.diagnosis.rule import Answer, Rule
from slowstep.findings import Evidence, NotJudged
from slowstep.part_words import part_in_words
from slowstep.parts import PartKind
from slowstep.reasons import Reason, Wording
from slowstep.units import format_share

NAME = "unstable-step-time"
# An even step varies by less on a shared, loaded machine: beyond that, it is the training.
_, VARIATION = between_runs.EVEN_STEPS.bounds
MOST_OF_IT = 0.5
# Numbers of samples that vary by so much of what the time does are the reason: a larger batch takes longer, by less than in proportion.
BY_SAMPLES = 0.5

TOO_SHORT = Wording(
    "spread-of-few-steps",
    f"{{steps:count step}} in {{ns:duration}} {{steps:plural does|do}} not show how much steps vary: record {STEPS_AT_LEAST} steps or "
    f"more, and {ENOUGH_NS / 1e9:.0f} s or more",
)
BY_THE_MACHINE = Wording(
    "spread-by-the-machine", "steps vary by {variation:share}, and others use the machine: record again when they do not"
)
BY_ITS_PACE = Wording(
    "spread-by-its-pace",
    "steps vary by {variation:share}, and so does the machine's pace (two runs may differ by a factor of {factor:.2f}): "
    "record on a quieter one",
)
BY_CORE_WAITS = Wording(
    "spread-by-core-waits",
    "steps vary by {variation:share}, mostly by what they wait for a core: give the training more of them, or less to do",
)


def judge(m: Measurements) -> Answer:
    """Whether the training's own work varies much from step to step."""
    found = m.over_time.unsteady
    if found.variation < VARIATION or found.part_share < MOST_OF_IT or found.part.stage != "compute":
        return None
    if variation(m.steps.samples) >= BY_SAMPLES * found.variation:
        return None
    doubt = _not_the_training(m, found)
    if doubt is not None:
        return NotJudged(rule=NAME, reason=doubt)
    evidence = (
        Evidence(name="variation", value=found.variation, unit="of the median step", threshold=VARIATION),
        Evidence(name="part that varies most", value=part_in_words(found.part), unit="", where=found.part.stage),
        Evidence(name="its share", value=found.part_share, unit="share of the variance", threshold=MOST_OF_IT),
    )
    title = f"steps vary by {format_share(found.variation)} of their median, mostly in: {part_in_words(found.part)}"
    return advice(NAME, found.part.stage, title, evidence, "every step took the same time", (_fix(m),))


def _not_the_training(m: Measurements, found: Unsteady) -> Reason | None:
    """Why such a spread need not be the training's own; None where it is."""
    if m.steps.count < STEPS_AT_LEAST or m.steps.length_ns < ENOUGH_NS:
        return TOO_SHORT(steps=m.steps.count, ns=m.steps.length_ns)
    if found.part.kind is PartKind.CORE_WAIT:
        return BY_CORE_WAITS(variation=found.variation)
    if m.machine.load.busy:
        return BY_THE_MACHINE(variation=found.variation)
    return BY_ITS_PACE(variation=found.variation, factor=runs_differ(m)) if is_pace_uneven(m) else None


def _fix(m: Measurements) -> str:
    # Of an unknown size NaN is told, which equals nothing.
    if (m.steps.samples == m.steps.samples[0]).all():
        return (
            "look at what differs there from step to step, such as how long the samples are; "
            "where nothing does, pin the process to cores of its own"
        )
    return "group samples by length, or pad to few sizes"


RULE = Rule(name=NAME, stages=("compute",), topics=("machine", "over_time", "steps"), judge=judge)
