"""The tables of input pipelines, made of a process's notes."""

from __future__ import annotations

from typing import Any

import polars as pl

from slowstep.sources._recording.notes import NoteLines
from slowstep.sources._recording.pipeline_fit import COUNTED, SET
from slowstep.timeline.schema import TABLE


def pipeline_tables(process: int, notes: NoteLines) -> dict[str, pl.DataFrame]:
    """All of them, by name; `process` is the index of the process in `processes`."""
    known = notes.of("pipeline")
    unread = {note["id"]: note["why"] for note in notes.of("pipeline_unread")}
    return {
        "pipelines": TABLE["pipelines"].of([(process, note["id"], note.get("iterator"), unread.get(note["id"])) for note in known]),
        "pipeline_stages": TABLE["pipeline_stages"].of([row for note in known for row in _stages(process, note)]),
        "pipeline_functions": TABLE["pipeline_functions"].of([row for note in known for row in _functions(process, note)]),
        "pipeline_nodes": TABLE["pipeline_nodes"].of([row for note in notes.of("pipeline_nodes") for row in _nodes(process, note)]),
    }


def _stages(process: int, note: dict[str, Any]) -> list[tuple[Any, ...]]:
    return [
        (
            process,
            note["id"],
            number,
            stage["kind"],
            None if stage["into"] < 0 else stage["into"],
            bool(stage.get("generator")),
            stage.get("reads"),
            bool(stage.get("loops")),
        )
        for number, stage in enumerate(note["stages"])
    ]


def _functions(process: int, note: dict[str, Any]) -> list[tuple[Any, ...]]:
    rows = []
    for number, stage in enumerate(note["stages"]):
        given = [] if stage.get("function") is None else [(False, *stage["function"])]
        in_python = [(True, *place) for place in stage.get("python") or ()]
        rows += [(process, note["id"], number, *each) for each in (*given, *in_python)]
    return rows


def _nodes(process: int, note: dict[str, Any]) -> list[tuple[Any, ...]]:
    return [
        (
            process,
            note["id"],
            note["at_ns"],
            node["id"],
            node["name"],
            node["inputs"],
            *(node[key] for key in COUNTED),
            node["ratio"] or None,
            *(node.get(key) for key in SET),
        )
        for node in note["nodes"]
    ]
