from __future__ import annotations

import polars as pl

from slowstep.timeline.schema import TABLE
from slowstep.timeline.table import light


def test_absent_columns_keep_their_place_and_type_and_take_no_room():
    absent = [pl.Series(name, [None] * 1000, dtype=kind) for name, kind in (("b", pl.Int64), ("d", pl.Categorical))]
    columns = [pl.Series("a", range(1000)), absent[0], pl.Series("c", range(1000)), absent[1]]

    found = light(columns)

    assert found.equals(pl.DataFrame(columns))
    assert found.schema == pl.DataFrame(columns).schema
    assert light(columns).estimated_size() < pl.DataFrame(columns).estimated_size() - 8 * 1000


def test_frames_without_rows_or_without_a_known_value_are_as_they_were():
    empty = pl.DataFrame(schema={"a": pl.Int64, "b": pl.String})
    unknown = pl.DataFrame({"a": [None, None], "b": [None, None]}, schema={"a": pl.Int64, "b": pl.String})

    for frame in (empty, unknown):
        assert light(frame.get_columns()).equals(frame)
        assert light(frame.get_columns()).schema == frame.schema


def test_a_table_without_rows_is_made_once_and_as_one_with_rows():
    table = TABLE["threads"]
    rows = [tuple(None for _ in table.columns)]

    assert table.of([]) is table.empty()
    assert table.empty().schema == table.of(rows).schema == pl.Schema(table.schema)
    assert table.of(rows).height == 1
