"""Makes each rank's report take account of the other ranks' traces: who is late, who waits, and whose report to look at."""

from __future__ import annotations

import shlex
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Final

from slowstep.analyses.trace.ranks import STEPS_AT_LEAST, Compared, compare
from slowstep.diagnosis.among_ranks import among_ranks, look_at
from slowstep.diagnosis.among_ranks import pace as pace_of_job
from slowstep.report.words import sentence
from slowstep.workflow.rank_rows import JUDGED_SINGLY
from slowstep.workflow.trace_document import fill_diagnosis
from slowstep.workflow.trace_next import next_after_trace
from slowstep.workflow.trace_ranks import Rank, size_of

APART: Final = (
    "whether a rank is late is not known: there are no two steps that all traces hold; profile all ranks with one schedule, "
    "in the same steps"
)


def compare_ranks(ranks: Mapping[int, Rank]) -> Compared | None:
    """The ranks held against each other, those of which steps are known; None where there are not two."""
    return compare({number: rank.pace for number, rank in sorted(ranks.items()) if rank.pace is not None}, size_of(ranks))


def first_shown(ranks: Mapping[int, Rank], compared: Compared | None) -> int:
    """The rank that the others wait for; the lowest where none stands out."""
    lowest = min(ranks)
    if compared is None or not compared.is_one:
        return lowest
    waits = lowest in compared.standings and compared.standings[lowest].waits
    return compared.slowest if waits or compared.is_uneven else lowest


def judge_among_ranks(ranks: Mapping[int, Rank], compared: Compared | None, given: Sequence[Path]) -> None:
    """Judge each compared rank's report again, by what is known of the others. `given` are the paths at which the traces lie."""
    if compared is None:
        _note(ranks, *([APART] if _are_apart(ranks) else []))
        return
    said = pace_of_job(compared)
    place = shlex.join(map(str, given))
    for number in compared.standings:
        report = ranks[number].report
        # What a trace could not show is no stage's largest.
        shares = {row["stage"]: row["share"] or 0.0 for row in report["ledger"]}
        diagnosis = among_ranks(ranks[number].diagnosis, compared, number, shares=shares)
        fill_diagnosis(report, diagnosis, next_after_trace(diagnosis, ranks[number].facts, ranks[number].path))
        other = look_at(compared, number)
        if other is not None and report["verdict"]["state"] == "undetermined":
            report["run"]["next_command"] = f"slowstep analyze {place} --rank {other}"
    _note(ranks, *([] if said is None else [sentence(said), JUDGED_SINGLY]))


def _are_apart(ranks: Mapping[int, Rank]) -> bool:
    """Whether ranks that share something were traced for long enough, but not in the same steps."""
    paces = [rank.pace for rank in ranks.values() if rank.pace is not None and len(rank.pace.own_ns) >= STEPS_AT_LEAST]
    return len(paces) > 1 and any(pace.shared_ns.any() for pace in paces)


def _note(ranks: Mapping[int, Rank], *notes: str) -> None:
    for rank in ranks.values():
        rank.report["run"]["notes"] = [*rank.report["run"].get("notes", []), *notes]
