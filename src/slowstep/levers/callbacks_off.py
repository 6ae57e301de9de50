"""A trainer's callbacks are not called: those of a class, or all.

It is for Lightning's, Hugging Face's and Keras' trainers.

What it changes:
    callbacks-off=NAME leaves out what callbacks of one class do at every batch, at the end of an epoch and in a validation. Without a name
    `slowstep prove` tries classes one by one: those that took most time in the recording, up to six, progress bars among them; the rest is
    listed as untried. Where none took 0.2 % of the time, and in `slowstep run --with`, all are left out at once. What they do where a
    training or an epoch begins is done, for they prepare themselves there. Left as they are: callbacks that steer the training (they stop
    it, schedule it, freeze layers, say when to log or to save), and those that write checkpoints (checkpoint-off), unless one is named.
    Of classes that are tried one by one such are known by their names: a class of the script's own that steers is tried like any other.
    With `:every=k` one step in k has its callbacks.
What it answers:
    What the training would gain without its callbacks, or with callbacks every k steps. facts.left_out says how often each was left out.
When it has no meaning:
    In a loop of the script's own, where nobody knows what is a callback: use stub=MODULE:FUNCTION. The same for hooks of the module
    itself (LightningModule.on_train_batch_end). The framework's own walk through its callbacks, some 5 us a callback and step, stays.
How it is undone:
    The callbacks' methods are hidden by attributes of the instances, which are taken away.
"""

from __future__ import annotations

from slowstep.record.experiment.lever import Lever, OnLongSteps

LEVER = Lever(
    name="callbacks-off",
    takes="NAME",
    takes_optional=True,
    every=True,
    long_steps=OnLongSteps.OWN,
    same_numbers=False,
    hint="callbacks are known of frameworks' trainers only; in a loop of the script's own use stub=MODULE:FUNCTION",
)
