"""Which framework's loop a trace is of: by Python functions, stacks and ranges that only its trainer has."""

from __future__ import annotations

from dataclasses import replace

import polars as pl

from slowstep.frameworks._known import words_of_marks, words_of_profiler
from slowstep.frameworks._words import Words
from slowstep.timeline.timeline import Timeline
from slowstep.timeline.trace_tables import NOT_PYTHON


def find_words(timeline: Timeline) -> Words:
    """The words of the framework that trains: by names that only its trainer has, else by whose profiler it was."""
    names = timeline.rows("host_events", "name", kinds=["annotation", "python"])["name"]
    stacks = timeline.rows("host_events", "stack", kinds=NOT_PYTHON)["stack"]
    texts = pl.concat([each.unique().cast(pl.String) for each in (names, stacks)])
    facts = timeline.trace
    otherwise = words_of_profiler(None) if facts is None else words_of_profiler(facts.framework, facts.profiler)
    found = words_of_marks(lambda pattern: bool(texts.str.contains(pattern).any()), otherwise)
    return replace(found, profiler=otherwise.profiler)
