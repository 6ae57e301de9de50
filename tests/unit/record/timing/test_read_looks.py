"""Looks at what known readers read: what is written down, and that calls are as ever meanwhile and afterwards."""

from __future__ import annotations

import cProfile
import sys
import time
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from made_libraries import library, rows_in_a_file
from slowstep.record.timing import read_looks
from slowstep.record.timing.call_times import FIRST, CallTimes
from slowstep.record.timing.read_looks import MOST_LOOKS, MOST_ROWS, ReadLooks

ROWS, WIDTH, CHUNK = 640, 16, 64
CHUNK_BYTES, ROW_BYTES = CHUNK * WIDTH * 4, WIDTH * 4
S = 10**9


class Looked:
    """Batches that are made one a second, of which all are looked at whose turn it is; `timed` was in the timed calls."""

    def __init__(self, *timed: Callable[[], Any], stretches: int = 2) -> None:
        profiler = cProfile.Profile(builtins=False)
        profiler.enable()
        for make in timed:
            make()
        profiler.disable()
        self.notes: list[dict[str, Any]] = []
        self.faults: list[Exception] = []
        self.calls = SimpleNamespace(stretches=stretches, entries=profiler.getstats)
        self.looks = ReadLooks(self.notes.append, self.faults.append, self.calls, passed=1)  # type: ignore[arg-type]
        # On a clock that runs ahead of this machine's, looks cost next to nothing.
        self._at_ns = time.monotonic_ns()

    def make(self, batch: Callable[[], Any], times: int = FIRST, samples: int = 4) -> Any:
        result = None
        for _ in range(times):
            self._at_ns += S
            begun = self.looks.begin(self._at_ns)
            try:
                result = batch()
            finally:
                if begun:
                    self.looks.end(self._at_ns + 1000, samples=samples)
        return result

    @property
    def last(self) -> dict[str, Any]:
        """The last look."""
        look: dict[str, Any] = self.notes[-1]["looks"][-1]
        return look


@pytest.fixture
def rows(tmp_path: Path) -> Any:
    """A data set in chunks, of which the library keeps the last one that was read."""
    return library(tmp_path, "h5py").Dataset(rows_in_a_file(tmp_path, ROWS, WIDTH), ROWS, WIDTH, CHUNK)


def test_a_row_at_any_place_has_its_chunk_read(rows: Any) -> None:
    def make_batch() -> list[Any]:
        return [rows[place] for place in (0, 100, 200, 300)]

    looked = Looked(make_batch)
    looked.make(make_batch)

    (row,) = looked.last["rows"]
    assert {key: row[key] for key in ("library", "reader", "chunk", "selected", "calls", "inflating")} == {
        "library": "h5py",
        "reader": "Dataset.__getitem__",
        "chunk": [CHUNK, WIDTH],
        "selected": [1, WIDTH],
        "calls": 4,
        "inflating": 4,
    }
    assert (row["inflated_bytes"], row["used_bytes"]) == (4 * CHUNK_BYTES, 4 * ROW_BYTES)
    assert (row["file"], row["line"] - row["first_line"]) == (__file__, 1)
    assert row["function"].endswith("make_batch")
    # Each chunk that is read takes 2 ms.
    assert 8_000_000 <= row["total_ns"] <= looked.last["wall_ns"]
    assert looked.last["samples"] == 4
    assert looked.faults == []


def test_of_rows_in_order_only_the_first_of_a_chunk_has_it_read(rows: Any) -> None:
    looked = Looked(lambda: [rows[place] for place in range(8)])
    looked.make(lambda: [rows[place] for place in range(64, 192)], samples=128)

    (row,) = looked.last["rows"]
    assert (row["calls"], row["inflating"], row["inflated_bytes"]) == (128, 2, 2 * CHUNK_BYTES)
    assert row["used_bytes"] == 128 * ROW_BYTES


@pytest.mark.parametrize(("filters", "read"), [(1, [(4, 4)]), (0, [])], ids=["compressed", "plain, of which only the selection is read"])
def test_a_chunk_that_is_too_large_to_be_kept_is_read_each_time(rows: Any, filters: int, read: list[tuple[int, int]]) -> None:
    looked = Looked(lambda: rows[0])
    rows.chunks, rows.id.filters = (1 << 15, WIDTH), filters
    looked.make(lambda: [rows[place] for place in range(4)])

    assert [(row["calls"], row["inflating"]) for row in looked.last["rows"]] == read
    assert looked.faults == []


def test_an_array_that_is_stored_in_one_piece_tells_nothing(rows: Any) -> None:
    looked = Looked(lambda: rows[0])
    rows.chunks = None
    looked.make(lambda: rows[0])

    assert looked.last["rows"] == []


def test_a_class_of_the_scripts_own_is_not_asked(rows: Any) -> None:
    class Own(type(rows)):  # type: ignore[misc]
        asked = 0

        @property
        def chunks(self) -> Any:
            Own.asked += 1
            return (CHUNK, WIDTH)

        @chunks.setter
        def chunks(self, value: Any) -> None:
            pass

    own = Own(rows.path, ROWS, WIDTH, CHUNK)
    looked = Looked(lambda: own[0])
    looked.make(lambda: own[0])

    assert looked.last["rows"] == []
    assert Own.asked == 0


def test_row_groups_are_read_whole_and_those_of_any_size_stand_in_one_row(tmp_path: Path) -> None:
    parquet = library(tmp_path, "pyarrow").ParquetFile()

    looked = Looked(lambda: parquet.read_row_group(0))
    looked.make(lambda: [parquet.read_row_group(place) for place in range(4)])

    (row,) = looked.last["rows"]
    assert (row["library"], row["chunk"], row["selected"], row["used_bytes"]) == ("pyarrow", [1024], None, None)
    assert (row["calls"], row["inflated_bytes"]) == (4, 4 * 266_240)


def test_what_a_reader_raises_is_raised_as_ever_and_not_counted(tmp_path: Path) -> None:
    parquet = library(tmp_path, "pyarrow").ParquetFile()
    looked = Looked(lambda: parquet.read_row_group(0))
    looked.make(lambda: parquet.read_row_group(0), times=FIRST - 1)

    with pytest.raises(IndexError, match="-1"):
        looked.make(lambda: parquet.read_row_group(-1), times=1)
    assert sys.getprofile() is None
    looked.make(lambda: parquet.read_row_group(0), times=1)

    assert [len(look["rows"]) for look in looked.notes[-1]["looks"]] == [0, 1]
    assert looked.faults == []


def test_nothing_is_looked_at_where_no_known_reader_holds_time(rows: Any) -> None:
    looked = Looked(lambda: sum(range(1000)))
    looked.make(lambda: rows[0], times=20)

    assert looked.notes == []


def test_what_comes_later_in_the_timed_calls_is_looked_at_then(rows: Any) -> None:
    looked, later = Looked(lambda: sum(range(1000))), Looked(lambda: rows[0])
    looked.make(lambda: rows[0])
    looked.calls.entries, looked.calls.stretches = later.calls.entries, 4
    looked.make(lambda: rows[0])

    assert looked.last["rows"]


def test_beside_a_profiler_of_the_scripts_own_nothing_is_looked_at(rows: Any) -> None:
    looked = Looked(lambda: rows[0])
    sys.setprofile(lambda *_: None)
    try:
        own = sys.getprofile()
        looked.make(lambda: rows[0], times=10)
        assert sys.getprofile() is own
    finally:
        sys.setprofile(None)

    assert looked.notes == []


def test_a_profiler_that_the_script_begins_meanwhile_is_left_alone(rows: Any) -> None:
    looked = Looked(lambda: rows[0])

    def own(*_: Any) -> None:
        return

    looked.make(lambda: rows[0], times=FIRST - 1)
    try:
        looked.make(lambda: sys.setprofile(own), times=1)
        assert sys.getprofile() is own
    finally:
        sys.setprofile(None)


def test_an_error_of_our_own_is_counted_and_not_raised(rows: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    looked = Looked(lambda: rows[0])
    monkeypatch.setattr(read_looks, "line_of", lambda _: 1 / 0)

    result = looked.make(lambda: rows[0])

    assert list(result) == [0.0] * WIDTH
    assert [type(error) for error in looked.faults] == [ZeroDivisionError]
    assert sys.getprofile() is None


def test_what_a_library_objects_to_being_asked_is_no_error_of_ours(rows: Any) -> None:
    looked = Looked(lambda: rows[0])
    rows.dtype = None
    rows.kept = (0, [[1.0] * WIDTH] * CHUNK)

    assert looked.make(lambda: rows[0]) == [1.0] * WIDTH
    assert looked.last["rows"] == []
    assert looked.faults == []


def test_notes_stay_small(rows: Any) -> None:
    scope: dict[str, Any] = {}
    exec("\n".join(f"def read_{k}(rows):\n    return rows[{k}]" for k in range(MOST_ROWS + 5)), scope)
    readers = [scope[f"read_{k}"] for k in range(MOST_ROWS + 5)]

    looked = Looked(lambda: rows[0])
    looked.make(lambda: [read(rows) for read in readers], times=3 * MOST_LOOKS)

    looks = looked.notes[-1]["looks"]
    assert len(looks) == MOST_LOOKS
    assert {len(look["rows"]) for look in looks} == {MOST_ROWS}


def test_after_a_fork_nothing_is_left(rows: Any) -> None:
    looked = Looked(lambda: rows[0])
    assert not any(looked.looks.begin(at * S) for at in range(1, FIRST))
    assert looked.looks.begin(FIRST * S)

    looked.looks.forget()

    assert sys.getprofile() is None
    assert not looked.looks.running


def test_before_any_call_was_timed_nothing_is_looked_at() -> None:
    looks = ReadLooks(lambda _: None, lambda _: None, CallTimes("fetch", lambda _: None), passed=1)

    assert not any(looks.begin(at * S) for at in range(1, 10))
