from __future__ import annotations

import polars as pl
import pytest

from slowstep.analyses.events.names import as_text, matches


@pytest.mark.parametrize("kind", [pl.String, pl.Categorical])
def test_names_match_and_null_does_not(kind):
    names = pl.Series(["aten::mm", None, "aten::add", "aten::mm"], dtype=kind)

    assert matches(names, "mm$").to_list() == [True, False, False, True]
    assert matches(names, "nothing").to_list() == [False] * 4
    assert matches(names.clear(), "mm").to_list() == []


def test_categories_become_text_in_their_order_and_null_stays():
    names = pl.Series("op", ["aten::mm", None, "aten::add", "aten::mm"], dtype=pl.Categorical)

    assert as_text(names).equals(names.cast(pl.String), check_names=True)
    assert as_text(names.clear()).dtype == pl.String
