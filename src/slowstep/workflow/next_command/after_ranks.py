"""After the report of one of several ranks: the report of the rank that it waits for."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from slowstep.command_words import analyze
from slowstep.document.next_step import NextStep


def after_rank(slower: int, paths: Sequence[Path]) -> NextStep:
    """`slower` is the rank that holds up the job, in what lies at the paths."""
    return NextStep(command=analyze(*paths, "--rank", str(slower)))


def after_launcher(other: Path) -> NextStep:
    """`other` is the folder of the next launcher of the same job, whose ranks are recorded there."""
    return NextStep(command=analyze(other))
