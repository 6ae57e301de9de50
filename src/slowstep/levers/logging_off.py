"""Nothing is logged or printed: no metrics, records, progress bars.

What it changes:
    Loggers of Lightning and of Hugging Face's Trainer, SummaryWriter.add_* (torch, tensorboardX), wandb's Run.log, mlflow.log_*, records of
    the `logging` module below ERROR (loguru's too), csv.DictWriter, tqdm's bars, and `print` to the real standard output or error are left
    out. With `:every=k` one of k steps that log does log.
What it answers:
    What the training would gain without logging, or with logging k times as rarely. facts.left_out says how often each was left out.
When it has no meaning:
    What a script does before it calls a logger (`.item()`, figures, f-strings) is done still, except where a framework does it. Files that
    the script writes itself, `csv.writer` and `sys.stdout.write` are not reached: use stub=MODULE:FUNCTION.
How it is undone:
    The functions are the same objects all the time, and get their own code back; `print` is the built-in one again.
"""

from __future__ import annotations

from slowstep.levers._calls.logs import LoggingOff
from slowstep.record.experiment.lever import Lever, OnLongSteps

LEVER = Lever(name="logging-off", every=True, long_steps=OnLongSteps.OWN, prepare=LoggingOff.prepare)
