"""Measures one half of a training alone, in the unmodified script: its loader without the training, its training on cached batches.

One process of the script does all of it. After its first updates the training thread is held: its loader is read alone (`bench_data`),
then it trains on, as it is and on cached batches in interleaved blocks. The loader comes first: it takes no steps of a script that has few.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Final

from slowstep.errors import SlowstepError
from slowstep.prove.executor import LiveExecutor
from slowstep.prove.sandboxed_run import sandboxed_run
from slowstep.reasons import SAID
from slowstep.record.launching.folder import holds_nothing, remove_folder
from slowstep.units import format_about, format_duration
from slowstep.workflow.bench_act import BenchAct, BenchLimits, BenchMeasurements
from slowstep.workflow.bench_request import BenchRequest
from slowstep.workflow.diagnose_recordings import diagnose_recording
from slowstep.workflow.nothing_recorded import describe_nothing
from slowstep.workflow.progress import TellPhase

# What is left to do when the time for everything else is over.
_AFTER_S: Final = 60.0


def bench(
    asked: BenchRequest, environ: Mapping[str, str], *, say: Callable[[str], None], phase: TellPhase, limits: BenchLimits | None = None
) -> BenchMeasurements:
    """Run the script and measure. Nothing of it is left running, whatever happens.

    Raises BadUsage before anything has started, NoSandbox where the user's files could not be kept from harm.
    """
    limits, measured = limits or BenchLimits(), None
    try:
        with sandboxed_run(asked.words, environ, out=asked.out, allow_writes=asked.allow_writes, kind=asked.sandbox) as place:
            sandbox = place.sandbox
            whole_s = limits.start_s + limits.slow_s + limits.overtime * asked.budget_s + _AFTER_S
            say(place.announced)
            say(how_long(asked, limits, whole_s))
            for warning in sandbox.warnings:
                say(warning)
            measured = BenchMeasurements(
                place.command, place={"kind": sandbox.kind, "claims": sandbox.claims, "warnings": list(sandbox.warnings)}
            )
            measured.place["folder"] = str(place.folder)
            executor = LiveExecutor(place.command, place.folder, sandbox, environ, limit_s=whole_s)
            measured = BenchAct(executor, asked, measured, phase, limits).run()
            if measured.came_untrained_to_its_end:
                said = _why_untrained(place.folder)
                measured.reason = measured.reason if said is None else SAID(said=said)
            return measured
    finally:
        if measured is not None and (measured.left_nothing or (not measured.updates and holds_nothing(str(place.folder)))):
            # It would be taken for one of a training that left nothing.
            remove_folder(str(place.folder))


def _why_untrained(folder: Path) -> str | None:
    """What `slowstep run` says of a command that left such a recording, as a clause; None where it says nothing of that kind."""
    try:
        if holds_nothing(str(folder)):
            return describe_nothing(folder).rstrip(".")
        diagnose_recording(folder)
    except SlowstepError as error:
        return str(error).rstrip(".")
    return None


def how_long(asked: BenchRequest, limits: BenchLimits, whole_s: float) -> str:
    """How long it takes, and at most: said before it begins."""
    usual, longest = format_about(asked.budget_s + limits.enough_s), format_duration(whole_s * 1e9)
    extra = "and before that as long as the script takes to begin"
    return f"Takes about {usual} once training starts, {extra}; longer where batches are slow (stops after {longest} at the latest)"
