from __future__ import annotations

import polars as pl

from slowstep.timeline.table import light


def test_absent_columns_keep_their_place_and_type_and_take_no_room():
    columns = [
        pl.Series("a", [None] * 1000, dtype=pl.Int64),
        pl.Series("b", range(1000)),
        pl.Series("c", [None] * 1000, dtype=pl.Categorical),
    ]

    found = light(columns)

    assert found.equals(pl.DataFrame(columns))
    assert found.schema == pl.DataFrame(columns).schema


def test_frames_without_rows_or_without_a_known_value_are_as_they_were():
    empty = pl.DataFrame(schema={"a": pl.Int64, "b": pl.String})
    unknown = pl.DataFrame({"a": [None, None], "b": [None, None]}, schema={"a": pl.Int64, "b": pl.String})

    for frame in (empty, unknown):
        assert light(frame.get_columns()).equals(frame)
        assert light(frame.get_columns()).schema == frame.schema
