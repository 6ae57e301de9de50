"""What lies beside the traces that a report is of, and is not judged in it: each kind said once, by name, with what to do."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Final

from slowstep.analyses.job.job import TracedRank
from slowstep.analyses.job.repeated_captures import Preferred
from slowstep.document.report import HealthRow
from slowstep.findings import Verdict
from slowstep.health import Severity
from slowstep.workflow.traces.find import Skipped

# Files and traces that are named.
SHOWN: Final = 5
# Ranks or processes with several traces that are named.
PREFERRED_SHOWN: Final = 3


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
    rows: list[HealthRow] = []

    def add(name: str, severity: Severity, count: int, remedy: str) -> None:
        if count:
            rows.append({"name": name, "severity": severity, "count": count, "remedy": remedy})

    add("unreadable-traces", "data_loss", len(refused), "; ".join(refused[:3]))
    add(
        "duplicate-traces",
        "notice",
        len(copies),
        f"packed copies of traces that lie beside them, which are one trace and were read once: {_listed(_names(copies))}",
    )
    add(
        "captures-of-one-process",
        "notice",
        sum(len(each.others) for each in captures),
        f"of the captures of a process only one is judged, that of most steps and of equal ones the last: {_named(captures)}; "
        "give another by its path for its report",
    )
    add(
        "duplicate-ranks",
        "notice",
        sum(len(each.others) for each in doubles),
        f"several traces are of one rank: the one with most events was taken: {_named(doubles)}",
    )
    others = _listed([f"{rank.name} ({verdict.rule or verdict.state})" for rank, verdict in unrelated])
    add(
        "unrelated-traces",
        "notice",
        len(unrelated),
        f"of other jobs by their number of ranks, time or steps, and each judged alone: {others}; name one for its report",
    )
    return [*rows, *not_read(skipped)]


def not_read(skipped: Sequence[Skipped]) -> list[HealthRow]:
    """What is said of files that no source knows: on the screen where a trace may be missed, else only in the report's file."""
    missed = [f"{each.path.name} {each.reason}" for each in skipped if each.reason is not None]
    others = [each.path.name for each in skipped if each.reason is None]
    rows: list[HealthRow] = []
    if missed:
        rows.append({"name": "skipped-files", "severity": "notice", "count": len(missed), "remedy": _listed(missed, "; ")})
    if others:
        rows.append(
            {"name": "other-files", "severity": "info", "count": len(others), "remedy": f"files that are no traces: {_listed(others)}"}
        )
    return rows


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
