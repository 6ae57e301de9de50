"""The topic `input`: who makes batches, what that takes, and what of it the training waits for."""

from __future__ import annotations

from dataclasses import dataclass

from slowstep.analyses.batches.counted_work import CountedWork
from slowstep.analyses.batches.demand import Demand
from slowstep.analyses.batches.loader import Loader
from slowstep.analyses.batches.made_by_loader import MadeByLoader
from slowstep.analyses.batches.sampler import SamplerTime
from slowstep.analyses.input.input_facts import InputFacts
from slowstep.analyses.input.loop_input import LoopInput
from slowstep.analyses.input.padding import PaddingLook
from slowstep.analyses.input.pipeline import Pipeline
from slowstep.analyses.input.prefetch_threads import PrefetchThreads
from slowstep.analyses.input.rebuilt import RebuiltInput
from slowstep.analyses.input.stored_reads import StoredReads
from slowstep.analyses.python.calls import TimedFunction
from slowstep.analyses.steps.loader_changes import LoaderChange
from slowstep.analyses.steps.steps import Floats
from slowstep.faults import MayLack


@dataclass(frozen=True, kw_only=True, slots=True)
class InputTopic(MayLack):
    """The making of batches, by a loader or by the loop itself. None is unknown, or that there is none."""

    facts: InputFacts  # of samples, functions, reads
    loader: Loader | None
    loader_changes: tuple[LoaderChange, ...]  # in the whole recording
    demand: Demand
    counted: CountedWork | None  # of threads of the framework, where it keeps sums only
    unmatched_share: float  # of the window, in waits for batches whose producer is unknown
    filling_ns: Floats  # waits per step for the making of an iterator's first batch: no number of workers makes it ahead
    made_by_loader: tuple[MadeByLoader, ...]  # what making batches takes, apart for each loader
    fetch_function: TimedFunction | None  # that holds most of the producers' time outside collate
    collate_function: TimedFunction | None  # of the user's, that holds most of the collate function which calls it
    timed_fetches: int  # batches in whose making calls were timed, which is how that function is known
    held_transfer_share: float  # of all waits for input, in which a batch was made, and its worker computed instead of handing it over
    sampler_time: SamplerTime | None  # what the loader's sampler does on the training thread
    rebuilt: RebuiltInput | None  # of a loop that is fed, between passes over its loader
    loop_input: LoopInput | None  # where the loop makes its batches itself
    prefetch_threads: PrefetchThreads | None  # of the process's other threads those that make batches
    pipeline: Pipeline | None  # that a framework runs in threads of its own, where it was looked at
    padding: PaddingLook | None  # of the sequences in its batches; None where none was looked at
    stored_reads: StoredReads | None  # what its batches read whole for a part of it; None where none was looked at
