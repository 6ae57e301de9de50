from __future__ import annotations

import polars as pl
import pytest

from slowstep.analyses.trace.names import matches


@pytest.mark.parametrize("kind", [pl.String, pl.Categorical])
def test_names_match_and_null_does_not(kind):
    names = pl.Series(["aten::mm", None, "aten::add", "aten::mm"], dtype=kind)

    assert matches(names, "mm$").to_list() == [True, False, False, True]
    assert matches(names, "nothing").to_list() == [False] * 4
    assert matches(names.clear(), "mm").to_list() == []
