"""Log lines, prints or event files keep the next step waiting.

What it sees:
    Of a function of the user's that runs after every update, or of a line of the training loop itself, at least half of the time is spent
    in logging, print, csv, TensorBoard, tqdm or a tracker's client, and it holds at least 3 % of the window. Calls in these gaps are timed
    in a few steps; a write holds no stack long enough to be seen otherwise.
Why it costs:
    A log line is formatted in Python and flushed to a file or terminal, 10 to 50 us each, while the training waits.
How the gain is predicted:
    r is 49 fiftieths of that function's or line's time: it runs once in 50 steps; what the step after it takes longer goes with it as with
    slow-callback's. B is what the loader's workers need per step. Where the loop itself calls what logs, and too few stacks were taken to
    know its lines, r is at best also what is unattributed: making what is logged may take longer than logging it.
When it is wrong:
    Timing makes Python code two to three times as slow; that is measured and taken out, but by estimate. A terminal or a remote disk
    that is slow only now and then is seen only if it was slow in a timed step.
What to try:
    Log every k steps, raise the level, or write in another thread. What is printed: fewer lines, or those of a step at once.
"""

from __future__ import annotations

from slowstep.analyses.measurements import Measurements
from slowstep.diagnosis.evidence.after_update import EVERY, call_seldom, costliest, lever_of
from slowstep.diagnosis.lever_specs import LOGGING_OFF
from slowstep.diagnosis.rule import Answer, Rule
from slowstep.findings import Evidence, Fix
from slowstep.part_words import part_noun
from slowstep.shares import MOSTLY

NAME = "chatty-logging"
LOG_LESS = "raise the level of the logger, or let a QueueHandler write in another thread"
PRINT_LESS = "write fewer lines, or gather those of a step and write them at once, flushed once at most"


def judge(m: Measurements) -> Answer:
    """Whether log lines after every step hold the training thread."""
    entry = costliest(m, lambda entry: entry.is_logger)
    if entry is None:
        return None
    return call_seldom(
        m,
        entry,
        rule=NAME,
        does="write",
        what="log lines",
        nature=Evidence(name="in logging", value=entry.logging, unit=f"share of the {part_noun(entry.part)}", threshold=MOSTLY),
        fixes=(
            Fix(text=f"log once in {EVERY} steps: keep a running mean, and {entry.call} every k steps", lever=lever_of(entry)),
            Fix(text=PRINT_LESS if entry.prints else LOG_LESS, lever=LOGGING_OFF),
        ),
    )


RULE = Rule(
    name=NAME,
    stages=("output", "store"),
    topics=("after_update", "compute", "input", "ledger", "machine", "over_time", "steps", "trainer"),
    judge=judge,
)
