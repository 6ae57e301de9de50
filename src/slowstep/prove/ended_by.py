"""What ended an experiment, as its file and the report say it."""

from __future__ import annotations

from enum import StrEnum


class EndedBy(StrEnum):
    """What ended it: by itself, by the training's doing, or before there was a plan."""

    # Every gain is known as well as was asked for; the time is over; all blocks are done.
    NARROW_ENOUGH = "precision"
    BUDGET_SPENT = "budget"
    PLAN_DONE = "plan done"

    SCRIPT_ENDED = "script ended"
    INTERRUPTED = "interrupted"
    NEVER_TRAINED = "never trained"
    NOT_TAKEN_UP = "not taken up"  # it did train, but came to no boundary after the plan was posted
    STOOD_STILL = "stood still"  # it made no more steps
    CUT_SHORT = "cut short"  # it had to be ended: `Experiment.problem` says why
    NO_LEVER_LEFT = "no lever left"  # every arm with levers failed or was not applicable
    LOSS_NOT_FINITE = "loss not finite"  # the training did not come back from what a lever did to its loss
    LEVER_ENDED = "a lever"  # the script could not go on with one of them

    NOTHING_TO_TRY = "nothing to try"
    # Stands there for as long as nobody knows: it goes on, or was killed.
    RUNNING = "killed"
