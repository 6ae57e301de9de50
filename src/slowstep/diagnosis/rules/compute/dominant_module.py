"""One line of the model's own code holds most of the forward.

What it sees:
    Of at least 30 stacks inside the forward, at least half stand under one line of the user's own modules (the innermost of their own
    code), others under other lines, and that line holds at least a quarter of the training thread's time.
Why it costs:
    It need not: some layer must be the largest. But whatever is gained in it counts, and whatever is gained elsewhere hardly does.
How the gain is predicted:
    It is not: what the line could take instead is unknown. The finding is advice.
When it is wrong:
    Only the forward is seen: on the processor the backward of a line runs in another thread without a stack of Python. Stacks are taken
    where the GIL is given away, which long operations do and short ones hardly.
What to try:
    A cheaper layer, a smaller input to it, channels_last for convolutions, torch.compile, or bfloat16 for that part.
"""

from __future__ import annotations

from slowstep.analyses.measurements import Measurements
from slowstep.diagnosis.advice import advice
from slowstep.diagnosis.rule import Answer, Rule
from slowstep.findings import Evidence
from slowstep.frameworks._remedies import Remedy
from slowstep.units import format_share

NAME = "dominant-module"
DOMINATES = 0.5
# Of the training thread's time: below a quarter, halving it gains less than 1.14.
WORTH = 0.25


def judge(m: Measurements) -> Answer:
    """Whether one line holds most of the forward."""
    line = m.compute.work.forward_line
    if line is None or line.lines < 2 or line.share < DOMINATES or line.share * line.forward_share < WORTH:
        return None
    share = line.share * line.forward_share
    what = f"{line.where}" + (f" (mostly {line.operation})" if line.operation else "")
    evidence = (
        Evidence(name="line", value=line.where, unit="", where=line.function),
        Evidence(name="its share of the forward", value=line.share, unit="share of forward", threshold=DOMINATES),
        Evidence(name="its share of the time", value=share, unit="share of window", threshold=WORTH),
        Evidence(name="stack samples in the forward", value=line.stacks, unit="samples"),
    )
    title = f"{what} in {line.function} holds {format_share(line.share)} of the forward"
    layout = "channels_last, " if "Conv" in (line.operation or "") else ""
    fix = f"look at {what} first: a cheaper layer, a smaller input to it, {layout}or {m.training.words.advise(Remedy.COMPILE)}"
    return advice(NAME, "compute", title, evidence, "that line took less time", (fix,), share=share)


RULE = Rule(name=NAME, stages=("compute",), topics=("compute", "training"), judge=judge)
