"""What lies beside the traces that a report is of, and is not judged in it: each kind said once, by name, with what to do."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import chain
from pathlib import Path
from typing import Final

from slowstep.analyses.job.job import TracedRank
from slowstep.analyses.job.repeated_captures import Preferred
from slowstep.document.finding_rows import HealthRow
from slowstep.document.rows import health_row
from slowstep.findings import Verdict
from slowstep.health import HealthKind
from slowstep.reason_words import sentence
from slowstep.workflow.traces.find import Skipped

# Files and traces that are named.
SHOWN: Final = 5
# Ranks or processes with several traces that are named.
PREFERRED_SHOWN: Final = 3
REFUSED_SHOWN: Final = 3
UNREADABLE_TRACES: Final = HealthKind("unreadable-traces", "data_loss", "{named}")
DUPLICATE_TRACES: Final = HealthKind(
    "duplicate-traces", "notice", "packed copies of traces next to them, which are one trace and were read once: {named}"
)
CAPTURES_OF_ONE_PROCESS: Final = HealthKind(
    "captures-of-one-process",
    "notice",
    "of the captures of a process only one is judged, that of most steps and of equal ones the last: {named}; "
    "give another by its path for its report",
)
DUPLICATE_RANKS: Final = HealthKind(
    "duplicate-ranks", "notice", "several traces are of one rank: the one with most events was taken: {named}"
)
UNRELATED_TRACES: Final = HealthKind(
    "unrelated-traces",
    "notice",
    "of other jobs by their number of ranks, time or steps, and each judged alone: {named}; name one for its report",
)
SKIPPED_FILES: Final = HealthKind("skipped-files", "notice", "{named}")
OTHER_FILES: Final = HealthKind("other-files", "info", "files that are no traces: {named}")


def left_out(
    *,
    refused: Sequence[str],
    skipped: Sequence[Skipped],
    copies: Sequence[Path],
    captures: Sequence[Preferred],
    doubles: Sequence[Preferred],
    unrelated: Sequence[tuple[TracedRank, Verdict]],
) -> list[HealthRow]:
    """A row for each kind that there is."""
    others = [f"{rank.name} ({verdict.rule or verdict.state})" for rank, verdict in unrelated]
    rows = (
        _row(UNREADABLE_TRACES, len(refused), "; ".join(refused[:REFUSED_SHOWN])),
        _row(DUPLICATE_TRACES, len(copies), _listed(_names(copies))),
        _row(CAPTURES_OF_ONE_PROCESS, _others(captures), _named(captures)),
        _row(DUPLICATE_RANKS, _others(doubles), _named(doubles)),
        _row(UNRELATED_TRACES, len(unrelated), _listed(others)),
    )
    return [*chain.from_iterable(rows), *not_read(skipped)]


def not_read(skipped: Sequence[Skipped]) -> list[HealthRow]:
    """What is said of files that no source knows: on the screen where a trace may be missed, else only in the report's file."""
    missed = [f"{each.path.name} {sentence(each.reason)}" for each in skipped if each.reason is not None]
    others = [each.path.name for each in skipped if each.reason is None]
    return [*_row(SKIPPED_FILES, len(missed), _listed(missed, "; ")), *_row(OTHER_FILES, len(others), _listed(others))]


def _row(kind: HealthKind, count: int, named: str) -> list[HealthRow]:
    """The row of a kind, none where nothing is of it."""
    return [health_row(kind(count, named=named))] if count else []


def _others(preferred: Sequence[Preferred]) -> int:
    return sum(len(each.others) for each in preferred)


def _named(preferred: Sequence[Preferred]) -> str:
    """Which trace was taken, and which were not."""
    texts = []
    for each in preferred[:PREFERRED_SHOWN]:
        one, *others = _names([each.one.path, *(rank.path for rank in each.others)])
        texts.append(f"{one}, and not {_listed(others)}")
    more = f"; and so for {len(preferred) - PREFERRED_SHOWN} more" if len(preferred) > PREFERRED_SHOWN else ""
    return "; ".join(texts) + more


def _names(paths: Sequence[Path]) -> list[str]:
    """The files' names, with their folders where only these tell them apart."""
    names = [path.name for path in paths]
    return names if len(set(names)) == len(names) else [str(path) for path in paths]


def _listed(names: Sequence[str], between: str = ", ") -> str:
    return between.join(names[:SHOWN]) + (f"{between}and {len(names) - SHOWN} more" if len(names) > SHOWN else "")
