"""What batches read whole for a part of it, as looks at them were noted."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from made_events import Events, at
from slowstep.analyses.input.stored_reads import StoredReads
from slowstep.analyses.measure_recording import measure_recording

MS = 1_000_000


def _row(**changes: Any) -> dict[str, Any]:
    row = {
        "library": "h5py", "reader": "Dataset.__getitem__", "file": "/home/user/data.py", "function": "Rows.__getitem__", "first_line": 8,
        "line": 9, "chunk": [64, 16], "selected": [1, 16], "calls": 16, "inflating": 12, "total_ns": 6 * MS,
        "inflated_bytes": 12 * 4096, "used_bytes": 16 * 64,
    }  # fmt: skip
    return {**row, **changes}


def _look(when: float, *rows: dict[str, Any], samples: int = 16, wall_ms: int = 8) -> dict[str, Any]:
    return {"at_ns": at(when), "wall_ns": wall_ms * MS, "samples": samples, "rows": list(rows)}


def _measured(folder: Path, *looks: Any, before: tuple[Any, ...] = ()) -> StoredReads | None:
    """Of a training whose steps begin at once, that makes its batches itself; `before` stands in an earlier line of the notes."""
    events = Events(folder)
    events.loader()
    end = 0.0
    for k in range(10):
        events.fetch(end + 0.1, end + 0.9, k, cpu=0.8)
        end = events.step(end, batch=k)
    for kept in (before, looks):
        if kept:
            events.trainer.lines.append({"kind": "stored_reads", "of": "fetch", "stretches": 3, "wall_ns": 1, "looks": list(kept)})
    return measure_recording(events.timeline(), warmup=0).input.stored_reads


def test_where_no_batch_was_looked_at_nothing_is_known(tmp_path: Path) -> None:
    assert _measured(tmp_path) is None


def test_what_a_line_reads_is_that_of_all_looks(tmp_path: Path) -> None:
    found = _measured(tmp_path, _look(20, _row()), _look(40, _row(calls=8, inflating=8)), _look(60), _look(80, _row(line=30, total_ns=MS)))

    assert found is not None
    assert (found.looks, found.samples) == (4, 64)
    first, second = found.found
    assert (first.function, first.line, first.chunk, first.selected) == ("Rows.__getitem__", 9, (64, 16), (1, 16))
    assert (first.calls, first.calls_per_sample, first.inflating) == (24, 24 / 64, 20 / 24)
    assert (first.inflated_bytes, first.used_bytes) == (2 * 12 * 4096, 2 * 16 * 64)
    assert first.in_looks == pytest.approx(0.5)
    assert first.share == pytest.approx(12 / 32)
    assert (second.line, second.share) == (30, pytest.approx(1 / 32))


def test_the_last_line_has_all_looks(tmp_path: Path) -> None:
    looks = [_look(20.0 * k, _row()) for k in range(1, 4)]

    found = _measured(tmp_path, *looks, before=tuple(looks[:2]))

    assert found is not None
    assert found.looks == 3


def test_looks_before_the_window_count_where_there_are_few_in_it(tmp_path: Path) -> None:
    early = [_look(-20.0 - k, _row(inflating=16)) for k in range(3)]
    few, enough = ([_look(20.0 * k, _row(inflating=1)) for k in range(1, 1 + count)] for count in (2, 3))

    of_few, of_enough = (_measured(tmp_path / str(len(looks)), *early, *looks) for looks in (few, enough))

    assert of_few is not None
    assert of_enough is not None
    assert (of_few.looks, of_enough.looks) == (5, 3)
    assert of_enough.found[0].inflating == 1 / 16


def test_tables_of_any_length_are_one_line(tmp_path: Path) -> None:
    of_tables = {"library": "pyarrow", "reader": "ParquetFile.read_row_group", "selected": None, "used_bytes": None, "inflating": 16}

    found = _measured(tmp_path, _look(20, _row(**of_tables, chunk=[1024])), _look(40, _row(**of_tables, chunk=[100])))

    assert found is not None
    (table,) = found.found
    assert (table.chunk, table.selected, table.used_bytes) == ((1024,), None, None)


def test_of_batches_of_an_unknown_number_of_samples_nothing_is_told_per_sample(tmp_path: Path) -> None:
    found = _measured(tmp_path, _look(20, _row()), _look(40, _row(), samples=0))

    assert found is not None
    assert (found.samples, found.found[0].calls_per_sample) == (None, None)


@pytest.mark.parametrize(
    "damaged",
    [
        {"at_ns": "soon", "wall_ns": 1, "samples": 1, "rows": []},
        {"at_ns": 1, "wall_ns": 1, "samples": 1},
        {"at_ns": 1, "wall_ns": 1, "samples": 1, "rows": [_row(chunk="64x16")]},
        {"at_ns": 1, "wall_ns": 1, "samples": 1, "rows": [_row(selected=[1.5])]},
        {"at_ns": 1, "wall_ns": 1, "samples": 1, "rows": [_row(inflating=17)]},
        {"at_ns": 1, "wall_ns": 1, "samples": 1, "rows": [_row(inflated_bytes=-1)]},
        {"at_ns": 1, "wall_ns": 1, "samples": 1, "rows": [{"library": "h5py"}]},
        "look",
    ],
)
def test_a_line_that_was_written_over_is_left_out(tmp_path: Path, damaged: Any) -> None:
    assert _measured(tmp_path, damaged) is None
