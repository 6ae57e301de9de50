"""The part of experiments that runs inside the training: which lever is on at which step, losses, seeds."""
