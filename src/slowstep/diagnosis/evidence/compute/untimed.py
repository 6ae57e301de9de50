"""Why the rules that look into the steps' bodies cannot judge where no calls were timed in them."""

from __future__ import annotations

from slowstep.analyses.measurements import Measurements
from slowstep.diagnosis.law import HEALTHY_SHARE_OF_UNKNOWN_GAIN
from slowstep.frameworks._remedies import Remedy
from slowstep.reasons import Reason, Wording
from slowstep.record.writing.format import UNTIMED_COMPILED

BESIDE = {True: "compiled code", False: "the script's other threads"}
WITHOUT_THREADS = "record once without those threads, or with Python 3.11, which has them timed"

UNTIMED = Wording(
    "untimed",
    "with {beside} no calls are timed inside the steps; {stacks} of {of} stacks stand there in the script's own code{most}: "
    "it may hold up to {at_most:share} of the time; {remedy}",
)
UNTIMED_MOST = Wording("untimed-most", ", most of them in {line} or right behind a function that it calls")


def unseen_python(m: Measurements) -> Reason | None:
    """What the user's own Python may hold of the bodies, unseen; None where calls were timed, or stacks say that it is little.

    With an accelerator they say nothing: the line that reads a loss back stands in all of them, and waits.
    """
    untimed = m.compute.work.untimed
    if m.compute.device != "cpu" or untimed is None or untimed.at_most < HEALTHY_SHARE_OF_UNKNOWN_GAIN:
        return None
    compiled = UNTIMED_COMPILED in untimed.why
    # A loop in Python that keeps the GIL is over when a stack is taken: it stands in who called it then.
    return UNTIMED(
        beside=BESIDE[compiled],
        stacks=untimed.stacks,
        of=untimed.of,
        most=UNTIMED_MOST(line=untimed.most) if untimed.most else None,
        at_most=untimed.at_most,
        remedy=m.training.words.advise(Remedy.NOT_COMPILED) if compiled else WITHOUT_THREADS,
    )
