"""Notes that are read while they are written."""

from __future__ import annotations

from pathlib import Path

from slowstep.prove.stats.readings import NoteReader, no_steps


def test_lines_are_read_once_they_are_whole(tmp_path: Path):
    path = tmp_path / "notes.jsonl"
    path.write_text("")
    reader = NoteReader(path)
    assert reader.read() == []

    path.write_text('{"kind": "lever", "arm": 1}\n{"kind": "lev')
    assert reader.read() == [{"kind": "lever", "arm": 1}]
    path.write_text('{"kind": "lever", "arm": 1}\n{"kind": "lever", "arm": 2}\n\n{"kind": "end"}\n')
    assert [note["kind"] for note in reader.read()] == ["lever", "lever", "end"]
    assert len(reader.read()) == 3


def test_before_the_first_step_there_are_none():
    assert len(no_steps().ns) == 0
    assert no_steps().settling.dtype == bool
