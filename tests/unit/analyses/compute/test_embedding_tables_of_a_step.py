"""Embedding tables of a step: what was noted of passes, for as many as a step has, and the optimizer that holds them."""

from __future__ import annotations

from typing import Any

import pytest

from made_recordings import Training, make_recording
from slowstep.analyses.compute.embedding_tables import EmbeddingTables
from slowstep.analyses.measure_recording import measure_recording
from slowstep.sources.recording import read

TABLE: dict[str, Any] = {
    "rows": 1000, "width": 16, "item_bytes": 4, "ids": 40, "lookups": 2, "seen": 4, "optimizer": 0, "backward_ns": 900, "is_sparse": False,
    "is_dense_anyway": False,
}  # fmt: skip
ADAM: dict[str, Any] = {"type": "Adam", "device": "cpu", "params": 20_000, "tensors": 3, "fused": True, "momentum": None, "decays": True}


def _found(folder, **training: Any) -> EmbeddingTables | None:
    return measure_recording(read(make_recording(folder, Training(steps=60, optimizer=ADAM, **training)))).compute.tables


def test_a_table_that_half_of_the_passes_go_through_makes_half_a_gradient_a_step_and_its_ids_are_the_most(tmp_path):
    tables = _found(tmp_path, tables=(TABLE,))

    assert tables is not None
    (table,) = tables.found
    assert (tables.looks, table.elements, table.gradient_bytes, table.ids) == (8, 16_000, 64_000, 40)
    assert (table.lookups, table.backward_ns) == (pytest.approx(1.0, rel=0.05), pytest.approx(450, rel=0.05))
    updater = table.updater
    assert updater is not None
    assert (updater.kind, updater.share, updater.elements, updater.tensors) == ("Adam", 1.0, 20_000, 3)
    assert (updater.is_fused, updater.has_momentum, updater.decays) == (True, None, True)


def test_of_a_table_whose_holder_is_not_known_no_optimizer_is_told(tmp_path):
    tables = _found(tmp_path, tables=({**TABLE, "optimizer": None, "ids": None, "backward_ns": None},))

    assert tables is not None
    (table,) = tables.found
    assert (table.updater, table.ids, table.backward_ns) == (None, None, None)


def test_where_no_graph_was_looked_at_nothing_is_known_and_where_they_have_no_tables_that_is(tmp_path):
    none = _found(tmp_path / "none", looks_at_graphs=False)
    without = _found(tmp_path / "without")

    assert none is None
    assert without == EmbeddingTables(looks=8, found=())


@pytest.mark.parametrize("change", [{"rows": 0}, {"seen": -1}, {"ids": -3}, {"width": "8"}, {"is_sparse": 1}], ids=str)
def test_a_damaged_note_tells_nothing(tmp_path, change):
    assert _found(tmp_path, tables=({**TABLE, **change},)) is None
