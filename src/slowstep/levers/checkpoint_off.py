"""Checkpoints are not written: the file is there, and empty.

What it changes:
    torch.save, safetensors' save_file, Lightning's Trainer.save_checkpoint, the checkpoints of Hugging Face's Trainer and what Keras writes
    of a model (save, save_weights, and by ModelCheckpoint, BackupAndRestore and OrbaxCheckpoint) are left out.
    Where a path was to be written and nothing is there yet, an empty file is made, so that it can be renamed, listed or deleted; what is
    there already stays as it is. File objects get nothing. Where the script loads such an empty file, with torch.load, safetensors'
    load_file or Keras, it gets the very object that was to be written, with the values that it has by then (facts.loads). With `:every=k`
    one of k steps with checkpoints writes them.
What it answers:
    What the training would gain if checkpoints took no time on the training thread, or were written k times as rarely.
When it has no meaning:
    For checkpoints that are written by other means (pickle, numpy, torch.distributed.checkpoint, tf.train.Checkpoint): use
    stub=MODULE:FUNCTION. What a script does to prepare one, such as copying the state to memory, is done still. Without a sandbox that
    holds back all writes (`slowstep run --with`, `slowstep prove --allow-writes`) it is refused: an empty file that the script then renames
    would take the place of a checkpoint of the user's.
How it is undone:
    The functions are the same objects all the time, and get their own code back. The empty files stay, for the script may look for them:
    trainings under experiment write into a sandbox.
"""

from __future__ import annotations

from typing import Final

from slowstep.record.experiment.lever import Lever, OnLongSteps

HARMS: Final = "the empty files that it leaves could take the place of your own checkpoints"
LEVER = Lever(name="checkpoint-off", every=True, long_steps=OnLongSteps.OWN, harms=HARMS)
