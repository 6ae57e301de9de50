"""Tables in a file are the same as in memory, whatever columns and rows of them are asked for."""

from __future__ import annotations

import polars as pl
import pytest

from slowstep.timeline import stored
from slowstep.timeline.stored import Stored, chosen
from slowstep.timeline.table import light
from slowstep.timeline.trace_tables import HOST_KIND, HOST_KINDS

ROWS = 1000


def table() -> pl.DataFrame:
    at = pl.int_range(ROWS, eager=True)
    return light(
        [
            at.alias("start_ns"),
            (at % 5).cast(pl.Int32).alias("thread"),
            pl.Series("kind", HOST_KINDS, dtype=HOST_KIND).gather(at % 6).alias("kind"),
            pl.Series("name", ["mm", None, "cudaLaunchKernel"], dtype=pl.Categorical).gather(at % 3).alias("name"),
            at.set(at % 2 == 0, None).alias("correlation"),
            (at % 7 == 0).set(at % 11 == 0, None).alias("pageable"),
            (at / 3).cast(pl.Float32).alias("occupancy"),
            pl.repeat(None, ROWS, dtype=pl.Categorical, eager=True).alias("shapes"),
        ]
    )


@pytest.fixture
def kept(monkeypatch: pytest.MonkeyPatch) -> Stored:
    monkeypatch.setattr(stored, "SMALLEST_BYTES", 0)
    monkeypatch.setattr(stored, "SLICE", 64)
    return Stored({"host_events": table(), "texts": pl.DataFrame({"text": ["a", None]})})


def test_a_stored_table_is_the_one_that_was_given(kept: Stored) -> None:
    assert kept["host_events"].equals(table())
    assert kept["host_events"].schema == table().schema
    assert kept["texts"].to_dict(as_series=False) == {"text": ["a", None]}
    assert set(kept) == {"host_events", "texts"}
    assert "host_events" in kept
    assert "device_events" not in kept
    assert (kept.count("host_events"), kept.count("texts"), len(kept)) == (ROWS, 2, 2)


@pytest.mark.parametrize("kinds", [(), ("operator",), ("driver", "runtime"), HOST_KINDS])
def test_rows_of_some_kinds_are_those_in_memory(kept: Stored, kinds: tuple[str, ...]) -> None:
    for columns in (table().columns, ["name"], ["shapes", "correlation"], ["kind", "start_ns"]):
        assert kept.rows("host_events", columns, kinds).equals(chosen(table(), columns, kinds))


def test_a_kind_that_never_occurs_has_no_rows(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(stored, "SMALLEST_BYTES", 0)
    calls = table().filter(pl.col("kind") == "runtime")
    found = Stored({"host_events": calls}).rows("host_events", calls.columns, ["python"])
    assert found.schema == calls.schema
    assert found.is_empty()


def test_what_is_stored_is_not_held(kept: Stored) -> None:
    given = {"host_events": table()}
    Stored(given)
    assert given == {}
