"""From the traces of a job's ranks to their reports: read, measured and judged one after the other."""

from __future__ import annotations

import itertools
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Final

import polars as pl

from slowstep.analyses.coverage import find_doubts
from slowstep.analyses.late_ranks import Compared, pace_of
from slowstep.analyses.measure_trace import Chosen, measure_trace
from slowstep.analyses.measurements import Measurements
from slowstep.analyses.steps.marks import find_mark_doubts
from slowstep.diagnosis.law import Diagnosis
from slowstep.diagnosis.trace_doubts import is_inference
from slowstep.diagnosis.trace_engine import diagnose_trace
from slowstep.document.build import build
from slowstep.document.next_step import NextStep
from slowstep.document.report import HealthRow
from slowstep.document.sections import ALONE, RankSection
from slowstep.document.trace import sections_of_trace
from slowstep.document.trace_ranks import Preferred, Rank, trace_rank_sections
from slowstep.document.words import sentence
from slowstep.errors import BadUsage, UnreadableInput
from slowstep.faults import Attempts, Fault
from slowstep.health import Health
from slowstep.sources._source import Reading
from slowstep.timeline.timeline import Timeline
from slowstep.workflow.internal_errors import fault_rows
from slowstep.workflow.next_command.after_fault import after_fault
from slowstep.workflow.next_command.after_trace import after_trace
from slowstep.workflow.traces.among_ranks import compare_ranks, first_shown, judge_among_ranks, notes_among_ranks
from slowstep.workflow.traces.cycles import one_of_each_process
from slowstep.workflow.traces.find import FoundTrace, Skipped, each_process
from slowstep.workflow.traces.jobs import clocks_apart, jobs
from slowstep.workflow.traces.left_out_traces import left_out
from slowstep.workflow.traces.parsed_traces import read_cached
from slowstep.workflow.traces.trace_copies import without_copies
from slowstep.workflow.traces.trace_memory import exceeded

# Records at the ends of a trace always lack the other half: of fewer than half a percent that share is rounded off.
SHOWN_AT_LEAST: Final = 0.995


@dataclass(frozen=True, kw_only=True, slots=True)
class TraceRequest:
    """What the user said of the traces: which step to look at, and the batch size of a step."""

    step: Chosen = None
    batch_size: int | None = None


def diagnose_traces(
    found: Sequence[FoundTrace], skipped: Sequence[Skipped], *, given: Sequence[Path], rank: int | None, asked: TraceRequest, how: Reading
) -> dict[str, Any]:
    """The report of one rank's trace, the others in its table; `given` are the paths at which the user said that they lie.

    Raises UnreadableInput where none can be read, BadUsage for a wrong rank.
    """
    attempt = Attempts()
    read: list[Rank] = []
    refused: list[str] = []
    single, copies = without_copies(found)
    traces = each_process(single)
    for index, each in enumerate(traces):
        share = _part(how, index, len(traces))
        try:
            # What fails in the only trace is told by whoever asked for it.
            one = _diagnose(each, asked, share) if len(traces) == 1 else attempt.outcome(each.path.name, _diagnose, each, asked, share)
            refused += [f"{each.path.name}: {sentence(one.reason)}"] if isinstance(one, Fault) else []
            read += [] if isinstance(one, Fault) else [one]
        except UnreadableInput as error:
            if len(traces) == 1:
                raise
            refused.append(f"{each.path.name}: {error}")
    if not read:
        raise UnreadableInput(refused[0])
    processes, captures = one_of_each_process(read)
    job, *others = jobs(processes)
    ranks, doubles = _numbered(job)
    compared = attempt.otherwise(None, compare_ranks, ranks)
    number = attempt.otherwise(min(ranks), first_shown, ranks, compared) if rank is None else rank
    if number not in ranks:
        raise BadUsage(f"--rank {number}: these traces are of rank {', '.join(map(str, sorted(ranks)))}.")
    unrelated = [rank for other in others for rank in other]
    beside = left_out(refused=refused, skipped=skipped, copies=copies, captures=captures, doubles=doubles, unrelated=unrelated)

    joined = attempt.outcome(judge_among_ranks.__name__, _joined, ranks, compared, given, [*clocks_apart(job), *beside])
    shown, others_of = ranks[number].sections, ALONE
    if isinstance(joined, Fault):
        shown = shown.opened_by(joined)
    else:
        shown, others_of = joined[0][number].sections, joined[1][number]
    faults = fault_rows({each: [*one.faults, *attempt.faults] for each, one in ranks.items()}, None)
    return dict(build(shown, ranks=others_of, more_health=faults[number]))


def _joined(
    ranks: Mapping[int, Rank], compared: Compared | None, given: Sequence[Path], left_out: Sequence[HealthRow]
) -> tuple[dict[int, Rank], dict[int, RankSection]]:
    """The ranks, judged by what is known of all of them, and what each of their reports says of the others."""
    judged = judge_among_ranks(ranks, compared, given)
    return judged, trace_rank_sections(judged, left_out, notes_among_ranks(ranks, compared))


def _numbered(read: Sequence[Rank]) -> tuple[dict[int, Rank], list[Preferred]]:
    """The ranks by number, and which traces were left out as others of a rank that is there.

    What does not tell its rank gets the lowest numbers that no other trace has, in the order of reading.
    """
    told: dict[int, list[Rank]] = {}
    for one in sorted((rank for rank in read if rank.told), key=lambda rank: -rank.events):
        told.setdefault(one.number, []).append(one)
    ranks = {number: first for number, (first, *_) in told.items()}
    doubles = [Preferred(one=first, others=tuple(others)) for first, *others in told.values() if others]
    free = (number for number in itertools.count() if number not in ranks)
    for one in [rank for rank in read if not rank.told]:
        number = next(free)
        ranks[number] = replace(one, number=number)
    return ranks, doubles


def _diagnose(found: FoundTrace, asked: TraceRequest, how: Reading) -> Rank:
    timeline = read_cached(found, how)
    m = measure_trace(timeline, batch_size=asked.batch_size, step=asked.step).settle()
    told = m.facts.rank if m.facts.rank is not None else found.rank_in_name
    attempt = Attempts()
    diagnosis = diagnose_trace(m)
    attempt.faults += [*m.faults, *diagnosis.faults]
    health = (*timeline.health, *attempt.otherwise((), _doubts, timeline, m), *exceeded(how.memory_bytes))
    sections = sections_of_trace(found.path, m, diagnosis, health, attempt)
    next_step = after_fault(found.path) if diagnosis.by_fault else attempt.otherwise(NextStep(), _next_step, found.path, m, diagnosis)
    return Rank(
        number=0 if told is None else told,
        told=told is not None,
        facts=m.facts,
        sections=replace(sections, next_step=next_step),
        pace=attempt.otherwise(None, pace_of, m),
        path=found.path,
        pid=found.pid if found.pid is not None else attempt.otherwise(0, _pid, timeline, m),
        is_one_of_several=found.pid is not None,
        marked=frozenset(timeline.table("marked_steps")["number"].drop_nulls().to_list()),
        faults=attempt.faults,
    )


def _next_step(path: Path, m: Measurements, diagnosis: Diagnosis) -> NextStep:
    return after_trace(diagnosis, m.facts, path, is_inference=is_inference(m), is_chosen=m.marks.is_chosen)


def _pid(timeline: Timeline, m: Measurements) -> int:
    """The process of the thread that steps; 0 where the trace does not say."""
    thread = m.marks.table["thread"].drop_nulls()
    threads = timeline.table("trace_threads")
    known = threads.filter(pl.col("thread") == thread[0])["pid"].drop_nulls() if len(thread) else threads["pid"].drop_nulls()
    return int(known[0]) if len(known) else 0


def _doubts(timeline: Timeline, m: Measurements) -> tuple[Health, ...]:
    """What is doubtful about the trace, and how much of what happened it shows."""
    rows, seen = [*find_mark_doubts(timeline.table("marked_steps")), *find_doubts(timeline)], m.coverage
    for name, known, share, remedy in (
        ("kernels-without-launch", seen.kernels, seen.kernels_with_launch, "their launches are not in the trace: trace the host too"),
        ("launches-without-kernel", seen.launches, seen.launches_with_kernel, "their kernels were dropped, or ran after the trace ended"),
    ):
        if share is not None and share < SHOWN_AT_LEAST:
            percent = max(round((1 - share) * 100), 1)
            rows.append(Health(name=name, severity="notice", count=round((1 - share) * known), remedy=f"{percent} % of them: {remedy}"))
    return tuple(rows)


def _part(how: Reading, index: int, of: int) -> Reading:
    """The reading of one of several files, its progress a part of the whole."""
    return replace(how, progress=lambda share: how.progress((index + share) / of))
