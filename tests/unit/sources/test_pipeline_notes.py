"""Lines on input pipelines become tables; those that make no sense are counted and left out."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from slowstep.sources._recording.notes import MALFORMED_NOTES, read_notes
from slowstep.sources._recording.pipelines import pipeline_tables

STAGES = [
    {"kind": "Batch", "into": -1},
    {"kind": "Map", "into": 0, "function": ["parse", "/a/train.py", 9], "python": [["load", "/a/train.py", 3]]},
]
NODE = {"id": 2, "name": "MapAndBatch", "inputs": [3], "elements": 6, "ns": 90, "buffered": 1, "bytes": 60, "ratio": 4.0}
PIPELINE = {"kind": "pipeline", "id": 1, "iterator": 7, "stages": STAGES}
READING = {"kind": "pipeline_nodes", "id": 1, "at_ns": 50, "nodes": [{**NODE, "parallelism": 2, "parallelism_tuned": True}]}


def tables(tmp_path: Path, *notes: dict[str, Any]) -> tuple[dict[str, Any], int]:
    path = tmp_path / "1-1.jsonl"
    path.write_text("".join(json.dumps(note) + "\n" for note in notes))
    read = read_notes(path)
    return pipeline_tables(0, read), sum(row.count for row in read.health if row.name == MALFORMED_NOTES.name)


def test_without_pipelines_there_are_empty_tables(tmp_path):
    assert all(table.is_empty() for table in tables(tmp_path)[0].values())


def test_stages_functions_and_readings_are_rows(tmp_path):
    found, bad = tables(tmp_path, PIPELINE, READING, {"kind": "pipeline_unread", "id": 1, "why": "autotune is off"})

    assert bad == 0
    assert found["pipelines"].rows() == [(0, 1, 7, "autotune is off")]
    assert found["pipeline_stages"].select("stage", "kind", "into").rows() == [(0, "Batch", None), (1, "Map", 0)]
    assert found["pipeline_functions"].select("stage", "in_python", "name", "first_line").rows() == [
        (1, False, "parse", 9),
        (1, True, "load", 3),
    ]
    assert found["pipeline_nodes"].rows() == [(0, 1, 50, 2, "MapAndBatch", [3], 6, 90, 1, 60, 4.0, 2, True, None)]


def test_a_ratio_of_nothing_is_unknown_and_a_stage_may_have_no_function(tmp_path):
    found, _ = tables(tmp_path, {**PIPELINE, "stages": STAGES[:1]}, {**READING, "nodes": [{**NODE, "ratio": 0.0}]})

    assert found["pipeline_nodes"]["ratio"].to_list() == [None]
    assert found["pipeline_functions"].is_empty()


@pytest.mark.parametrize(
    "note",
    [
        {**PIPELINE, "stages": [{"kind": 3, "into": -1}]},
        {**PIPELINE, "stages": [{"kind": "Map", "into": 0}]},
        {**PIPELINE, "stages": [{"kind": "Map", "into": -1, "python": ["load"]}]},
        {**PIPELINE, "stages": [{"kind": "Map", "into": -1, "python": 5}]},
        {**PIPELINE, "stages": [{"kind": "Map", "into": -1, "function": True}]},
        {**PIPELINE, "stages": [{"kind": "Map", "into": "0"}]},
        {**PIPELINE, "stages": [{"kind": "Map", "into": False}]},
        {**PIPELINE, "stages": [{"kind": "Map", "into": -1, "reads": 5}]},
        {**PIPELINE, "stages": [{"kind": "Map", "into": -1, "loops": 5}]},
        {**PIPELINE, "stages": [{"kind": "Map", "into": -1, "function": ["parse", "/a/train.py"]}]},
        {**PIPELINE, "stages": [{"kind": "Map", "into": -1, "python": [["load", "/a/train.py", True]]}]},
        {**PIPELINE, "stages": ["Map"]},
        {**PIPELINE, "stages": {}},
        {**READING, "nodes": [{**NODE, "elements": -1}]},
        {**READING, "nodes": [{**NODE, "id": None}]},
        {**READING, "nodes": [{**NODE, "name": 3}]},
        {**READING, "nodes": [{**NODE, "inputs": ["3"]}]},
        {**READING, "nodes": [{**NODE, "inputs": 3}]},
        {**READING, "nodes": [{**NODE, "ratio": None}]},
        {**READING, "nodes": [{**NODE, "ratio": True}]},
        {**READING, "nodes": ["Map"]},
        {**READING, "nodes": [{**NODE, "ns": "x"}]},
        {**READING, "nodes": [{**NODE, "buffer_size": "x"}]},
        {**READING, "nodes": [{**NODE, "parallelism": -1}]},
        {**READING, "nodes": [{**NODE, "parallelism": True}]},
        {**READING, "nodes": [{**NODE, "parallelism_tuned": 5}]},
        {**READING, "nodes": {}},
        {"kind": "pipeline_unread", "id": 1},
    ],
)
def test_lines_that_make_no_sense_are_counted(tmp_path, note):
    found, bad = tables(tmp_path, note)

    assert bad == 1
    assert all(table.is_empty() for table in found.values())
