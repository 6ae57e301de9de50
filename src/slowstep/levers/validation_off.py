"""The training does not stop to validate.

What it changes:
    Trainers of Lightning and Hugging Face, and Keras' fit, do not begin validations, as by their own switches. In a loop of the script's
    own, a loader that is read several batches at a time between two updates ends after its first batch, for scripts divide by the number
    of batches. With `:every=k` one validation in k is whole.
What it answers:
    What the training would gain without validation, or with validation every k times as many steps. In a loop of the script's own the
    start of the loader's workers and the first batch of each validation are still paid for (facts.batches_kept): of n batches some 1/n.
    How long they take is measured (facts.kept_ns), and the gain lies between that with them and that without them. What a validation does
    after its last batch is paid for too, and not measured.
When it has no meaning:
    Where no such loader was read before the experiment began: a validation that reads arrays, or the training's own loader, or comes once
    an epoch of minutes; where a validation reads a single batch; and in a loop of the script's own with Keras. Use stub=MODULE:FUNCTION on
    the function that validates. Callbacks of Keras that look at a validation's results (EarlyStopping, a best model) warn that there are
    none.
How it is undone:
    The functions of torch or of the framework are the same objects all the time, and get their own code back.
"""

from __future__ import annotations

from slowstep.record.experiment.lever import Lever, OnLongSteps

LEVER = Lever(name="validation-off", every=True, long_steps=OnLongSteps.OWN)
