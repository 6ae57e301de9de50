"""Whatever lies at a path, a recording or the traces of ranks, becomes the report to show."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from slowstep.command_words import analyze as analyze_again
from slowstep.errors import BadUsage, NothingRecorded
from slowstep.record.launching.folder import as_typed
from slowstep.record.launching.leftovers import remove_leftovers_of_starts
from slowstep.sources._source import PLAIN, HowRead
from slowstep.workflow.diagnose_recordings import diagnose_recording
from slowstep.workflow.judge_job import Examined
from slowstep.workflow.next_command.command_lines import or_compared
from slowstep.workflow.runs import is_going_on
from slowstep.workflow.traces.find import RECORDING, FoundTrace, find
from slowstep.workflow.traces.left_out_traces import not_read
from slowstep.workflow.traces.trace_request import TraceRequest
from slowstep.workflow.traces.traces import diagnose_traces


def analyze(
    paths: Sequence[Path],
    *,
    warmup: int | None = None,
    rank: int | None = None,
    asked: TraceRequest | None = None,
    how: HowRead = PLAIN,
) -> dict[str, Any]:
    """The report alone of what lies at the paths, as `slowstep compare` needs it."""
    return examine(paths, warmup=warmup, rank=rank, asked=asked, how=how).report


def examine(
    paths: Sequence[Path],
    *,
    warmup: int | None = None,
    rank: int | None = None,
    asked: TraceRequest | None = None,
    how: HowRead = PLAIN,
) -> Examined:
    """What is to be told of a recording, or of the rank to be shown first of all traces at the paths.

    Raises UnreadableInput where nothing can be read, NothingRecorded where nothing trained, BadUsage for options that do not fit.
    """
    found, skipped = find(paths)
    if not any(each.source.name == RECORDING for each in found):
        if warmup is not None:
            raise BadUsage("--warmup is for recordings: of a trace, --step chooses what is looked at.")
        return diagnose_traces(found, skipped, given=paths, rank=rank, asked=asked or TraceRequest(), how=how)
    _refuse_several(found)
    _refuse_options_of_traces(asked, how)
    try:
        return Examined(report=diagnose_recording(found[0].path, warmup=warmup, rank=rank, beside=not_read(skipped)))
    except NothingRecorded as error:
        if is_going_on(found[0].path):
            raise _not_yet(found[0].path) from error
        raise
    finally:
        # Of a launcher that was killed: whatever became of its recording, nobody needs them.
        remove_leftovers_of_starts(str(found[0].path))


def _refuse_several(found: Sequence[FoundTrace]) -> None:
    if len(found) > 1:
        first = next(each.path for each in found if each.source.name == RECORDING)
        alone = f"{len(found)} recordings or traces were given, of which {first} is a recording: give one recording alone"
        raise BadUsage(f"{alone}{or_compared([each.path for each in found])}")


def _refuse_options_of_traces(asked: TraceRequest | None, how: HowRead) -> None:
    if asked is not None and asked != TraceRequest():
        raise BadUsage("--step and --batch-size are for traces: a recording has the batch size, and its report is of all steps.")
    if how.memory_bytes is not None:
        raise BadUsage("--memory is for traces: recordings are small, and are read whole.")


def _not_yet(path: Path) -> NothingRecorded:
    again = analyze_again(as_typed(str(path)))
    return NothingRecorded(f"{path.name} is being recorded now, and has no steps to look at yet. Look later: {again}")
