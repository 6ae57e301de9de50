"""Measures one half of a training alone, in the unmodified script: its loader without the training, its training on cached batches.

One process of the script does all of it. After its first updates the training thread is held: its loader is read alone (`bench_data`),
then it trains on, as it is and on cached batches in interleaved blocks. The loader comes first: it takes no steps of a script that has few.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Final

from slowstep.errors import BadUsage, CommandNotStarted
from slowstep.experiments.executor import LiveExecutor
from slowstep.experiments.sandbox import open_sandbox
from slowstep.record.command import resolve_command
from slowstep.record.folder import create_folder, remove_folder
from slowstep.workflow.bench_act import Asked, Bench, Limits, Measured, Phase

# What is left to do when the time for everything else is over.
_AFTER_S: Final = 60.0


def bench(asked: Asked, environ: Mapping[str, str], *, say: Callable[[str], None], phase: Phase, limits: Limits | None = None) -> Measured:
    """Run the script and measure. Nothing of it is left running, whatever happens.

    Raises BadUsage before anything has started, NoSandbox where the user's files could not be kept from harm.
    """
    limits = limits or Limits()
    try:
        command = resolve_command(asked.words, environ)
        folder = Path(create_folder(parent=asked.out, stem=command.stem))
    except CommandNotStarted as error:
        # Only of `run` the exit code is the command's.
        raise BadUsage(str(error)) from error
    try:
        sandbox = open_sandbox(folder, Path.cwd(), allow_writes=asked.allow_writes, kind=asked.sandbox)
    except BaseException:
        remove_folder(str(folder))
        raise
    with sandbox:
        whole_s = limits.start_s + limits.slow_s + limits.overtime * asked.budget_s + _AFTER_S
        say(f"Runs the training and throws it away: {sandbox.claims}")
        for warning in sandbox.warnings:
            say(warning)
        measured = Measured(command, place={"kind": sandbox.kind, "claims": sandbox.claims, "warnings": list(sandbox.warnings)})
        executor = LiveExecutor(command, folder, sandbox, environ, limit_s=whole_s)
        try:
            Bench(executor, asked, measured, phase, limits).run()
        except CommandNotStarted as error:
            raise BadUsage(str(error)) from error
        return measured
