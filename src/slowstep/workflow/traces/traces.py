"""From the traces of a job's ranks to their reports: read, measured and judged one after the other, and then together."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Final

import polars as pl

from slowstep.analyses.completeness import find_trace_doubts
from slowstep.analyses.job.job import TracedRank
from slowstep.analyses.job.rank_steps import RankPace, traced_steps
from slowstep.analyses.job.repeated_captures import one_of_each_process
from slowstep.analyses.job.traced_jobs import divide_into_jobs, find_differing_clocks, number_ranks, traced_job
from slowstep.analyses.measure_trace import measure_trace
from slowstep.analyses.measurements import Measurements
from slowstep.analyses.sharing.sharing import STAGE as SHARING
from slowstep.analyses.steps.marks import find_mark_doubts
from slowstep.diagnosis.law import Diagnosis
from slowstep.diagnosis.trace_doubts import is_inference
from slowstep.document.next_step import NextStep
from slowstep.document.ranks import RankSummary
from slowstep.document.rows import health_row
from slowstep.document.sections import Sections
from slowstep.document.traced_run import traced_run
from slowstep.errors import BadUsage, UnreadableInput
from slowstep.faults import Attempts, Fault, release_frames
from slowstep.health import Health, HealthKind
from slowstep.reason_words import sentence
from slowstep.sources._source import HowRead
from slowstep.timeline.timeline import Timeline
from slowstep.workflow.internal_errors import fault_rows
from slowstep.workflow.judge_job import Examined, JudgedJob, judge_job, report_of
from slowstep.workflow.judge_rank import RankSource, judge_rank
from slowstep.workflow.next_command.after_trace import after_trace
from slowstep.workflow.traces.find import FoundTrace, Skipped, each_process
from slowstep.workflow.traces.left_out_traces import left_out
from slowstep.workflow.traces.parsed_traces import read_cached
from slowstep.workflow.traces.trace_copies import without_copies
from slowstep.workflow.traces.trace_memory import exceeded
from slowstep.workflow.traces.trace_request import TraceRequest

# Records at the ends of a trace always lack the other half: of fewer than half a percent that share is rounded off.
SHOWN_AT_LEAST: Final = 0.995
KERNELS_WITHOUT_LAUNCH: Final = HealthKind(
    "kernels-without-launch", "notice", "the launches of {percent} % of the kernels are not in the trace: trace the host too"
)
LAUNCHES_WITHOUT_KERNEL: Final = HealthKind(
    "launches-without-kernel", "notice", "the kernels of {percent} % of the launches were dropped, or ran after the trace ended"
)


def diagnose_traces(
    found: Sequence[FoundTrace],
    skipped: Sequence[Skipped],
    *,
    given: Sequence[Path],
    rank: int | None,
    asked: TraceRequest,
    how: HowRead,
) -> Examined:
    """The report of one rank's trace, the others in its table; `given` are the paths at which the user said that they lie.

    Raises UnreadableInput where none can be read, BadUsage for a wrong rank.
    """
    attempt = Attempts()
    single, copies = without_copies(found)
    read, refused = _each_by_itself(each_process(single), asked, how, attempt)
    processes, captures = one_of_each_process([rank for rank, _ in read])
    of_job, *others = divide_into_jobs(processes)
    numbered, doubles = number_ranks(of_job)
    summaries = {rank.source: summary for rank, summary in read}
    ranks = {number: summaries[each.source] for number, each in numbered.items()}
    unrelated = [(each, summaries[each.source].sections.diagnosis.verdict) for other in others for each in other]
    beside = left_out(refused=refused, skipped=skipped, copies=copies, captures=captures, doubles=doubles, unrelated=unrelated)
    judged = judge_job(
        traced_job(numbered),
        ranks,
        given=given,
        report_names=lambda _: {number: each.name for number, each in numbered.items()},
        left_out=[*map(health_row, find_differing_clocks(of_job)), *beside],
    )
    return _examined(judged, judged.first if rank is None else rank, attempt)


def _examined(judged: JudgedJob, number: int, attempt: Attempts) -> Examined:
    """What is to be shown of one of the ranks. Raises BadUsage for one that is none of them."""
    if number not in judged.ranks:
        raise BadUsage(f"--rank {number}: these traces are of rank {', '.join(map(str, sorted(judged.ranks)))}.")
    met = {each: [*one.faults, *judged.faults, *attempt.faults] for each, one in judged.ranks.items()}
    report = report_of(judged, number, fault_rows(met, None)[number])
    return Examined(report=report, findings=judged.ranks[number].sections.diagnosis.findings)


def _each_by_itself(
    traces: Sequence[FoundTrace], asked: TraceRequest, how: HowRead, attempt: Attempts
) -> tuple[list[tuple[TracedRank, RankSummary]], list[str]]:
    """The traces, read, measured and judged one after the other, so that one is held at a time; and why others cannot be read.

    Raises UnreadableInput where none can be.
    """
    read: list[tuple[TracedRank, RankSummary]] = []
    refused: list[str] = []
    for index, each in enumerate(traces):
        share = _part(how, index, len(traces))
        try:
            # What fails in the only trace is told by whoever asked for it.
            one = _diagnose(each, asked, share) if len(traces) == 1 else attempt.outcome(each.path.name, _diagnose, each, asked, share)
        except UnreadableInput as error:
            if len(traces) == 1:
                raise
            refused.append(f"{each.path.name}: {error}")
            continue
        refused += [f"{each.path.name}: {sentence(one.reason)}"] if isinstance(one, Fault) else []
        read += [] if isinstance(one, Fault) else [one]
        release_frames([*attempt.faults, *(fault for _, summary in read for fault in summary.faults)])
    if not read:
        raise UnreadableInput(refused[0])
    return read, refused


def _diagnose(found: FoundTrace, asked: TraceRequest, how: HowRead) -> tuple[TracedRank, RankSummary]:
    """What one rank's trace tells by itself."""
    timeline = read_cached(found, how)
    m = measure_trace(timeline, batch_size=asked.batch_size, step=asked.step).settle()
    attempt = Attempts()
    source = RankSource(
        path=found.path,
        health=lambda: (*timeline.health, *attempt.otherwise((), _doubts, timeline, m), *exceeded(how.memory_bytes)),
        run=lambda: traced_run(found.path, m, attempt),
        next_step=lambda diagnosis: _next_step(found.path, m, diagnosis),
        pace=lambda sections: _pace(m, sections, attempt),
        following=partial(after_trace, facts=m.facts, path=found.path),
    )
    alone = judge_rank(m, source, attempt)
    told = m.facts.rank if m.facts.rank is not None else found.rank_in_name
    rank = TracedRank(
        number=told or 0,
        rank=told or 0,
        pid=found.pid if found.pid is not None else attempt.otherwise(0, _pid, timeline, m),
        path=found.path,
        steps=alone.pace.total_steps,
        facts=m.facts,
        has_own_number=told is not None,
        marked=frozenset(timeline.table("marked_steps")["number"].drop_nulls().to_list()),
        is_one_of_several=found.pid is not None,
    )
    return rank, alone


def _pace(m: Measurements, sections: Sections, attempt: Attempts) -> RankPace:
    return RankPace(
        steps=attempt.otherwise(None, traced_steps, m),
        total_steps=sections.run["steps"],
        step_ms=_step_ms(sections),
        own_ms=_own_ms(sections),
    )


def _step_ms(sections: Sections) -> float | None:
    per_second = sections.throughput["steps_per_s"]
    return None if not per_second else 1e3 / per_second


def _own_ms(sections: Sections) -> float | None:
    """A step without what is shared with other ranks; None where that is unknown."""
    shared = next((row["share"] for row in sections.ledger if row["stage"] == SHARING), None)
    step_ms = _step_ms(sections)
    return None if shared is None or step_ms is None else step_ms * (1 - shared)


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
    rows, seen = [*find_mark_doubts(timeline.table("marked_steps")), *find_trace_doubts(timeline)], m.completeness
    for kind, known, share in (
        (KERNELS_WITHOUT_LAUNCH, seen.kernels, seen.kernels_with_launch),
        (LAUNCHES_WITHOUT_KERNEL, seen.launches, seen.launches_with_kernel),
    ):
        if share is not None and share < SHOWN_AT_LEAST:
            rows.append(kind(round((1 - share) * known), percent=max(round((1 - share) * 100), 1)))
    return tuple(rows)


def _part(how: HowRead, index: int, of: int) -> HowRead:
    """The reading of one of several files, its progress a part of the whole."""
    return replace(how, progress=lambda share: how.progress((index + share) / of))
