"""Every value of every note of a recording may be anything: what it says is then left out and counted, and the rest is read."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from fuzz.odd import NESTED, SCALARS, places, shown
from fuzz.recordings import MADE, TARGET, Document
from slowstep.sources._source import PLAIN
from slowstep.sources.recording import SOURCE

BASES = (*sorted(MADE), "worker_thread_oversubscription-problem", "dominant_module-problem", "slow_pipeline-problem")


def first_of_each_kind(document: Document) -> Iterator[tuple[str, int]]:
    seen = set()
    for name, notes in document.notes.items():
        for at, note in enumerate(notes):
            if (name.partition("-")[0], note["kind"]) not in seen:
                seen.add((name.partition("-")[0], note["kind"]))
                yield name, at


def faults(base: str, folder: Path) -> Iterator[str]:
    document = TARGET.bases[base]()
    # Notes alone are read: a third of the time.
    document.records = {name: records[:200] for name, records in document.records.items()}
    path = TARGET.write(document, folder)
    for name, at in first_of_each_kind(document):
        lines = [json.dumps(note) for note in document.notes[name]]
        note: dict[str, Any] = json.loads(lines[at])
        for holder, key in list(places(note)):
            before = holder[key]
            for value in (*SCALARS, *NESTED):
                holder[key] = value
                (path / name).write_text("\n".join([*lines[:at], json.dumps(note), *lines[at + 1 :]]))
                try:
                    SOURCE.read(path, PLAIN)
                except Exception as error:
                    yield f"{name}: {note['kind']}: {key!r} {shown(before)} -> {shown(value)}: {error!r}"
            holder[key] = before
        (path / name).write_text("\n".join(lines))


@pytest.mark.nightly
@pytest.mark.timeout(7200)
@pytest.mark.parametrize("base", BASES)
def test_any_value_of_a_note_may_be_anything(base: str, tmp_path: Path) -> None:
    assert list(faults(base, tmp_path)) == []
