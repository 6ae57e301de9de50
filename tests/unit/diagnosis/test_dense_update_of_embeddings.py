"""Embedding tables that are updated as a whole for few rows, and those of which that is no fault or nothing is known."""

from __future__ import annotations

from typing import Any

import pytest

from judged import answer_of, code_of, finding, judged, named, values
from made_measurements import MS, changed, measurements
from slowstep.analyses.compute.embedding_tables import EmbeddingTable, EmbeddingTables, Updater
from slowstep.analyses.measurements import Measurements
from slowstep.diagnosis.engine import diagnose
from slowstep.parts import BACKWARD, BODY, OPTIMIZER

RULE = "dense-update-of-embeddings"
ADAM: dict[str, Any] = {
    "number": 0, "kind": "Adam", "share": 1.0, "elements": 4_001_000, "tensors": 5, "is_fused": True, "has_momentum": None, "decays": False,
}  # fmt: skip
TABLE: dict[str, Any] = {
    "rows": 125_000, "width": 32, "item_bytes": 4, "ids": 512, "lookups": 1.0, "backward_ns": 4 * MS, "is_sparse": False,
    "is_dense_anyway": False,
}  # fmt: skip


def holds(
    *tables: dict[str, Any], ledger: dict[Any, float] | None = None, optimizer: dict[str, Any] | None = None, **changes: Any
) -> Measurements:
    """Steps of 20 ms with an optimizer that takes 8 of them and a backward that takes 6, of these tables."""
    updater = Updater(**{**ADAM, **(optimizer or {})})
    found = tuple(EmbeddingTable(**{**TABLE, "updater": updater, **table}) for table in tables or ({},))
    parts = {BODY: 5.5, BACKWARD: 6.0, OPTIMIZER: 8.0} if ledger is None else ledger
    return measurements(ledger=parts, tables=EmbeddingTables(looks=8, found=found), **changes)


def test_the_tables_share_of_the_optimizer_and_the_making_of_their_gradient_are_saved_but_for_the_rows_of_a_batch():
    m = holds()
    found, gain = finding(RULE, m), finding(RULE, m).gain

    shown = values(found)
    assert (shown["rows of the tables"], shown["rows touched at most"]) == (125_000, 512)
    # 8 ms but for what other elements take, and 4 of the backward; 0.15 ms and 512 rows of 1.1 us are left.
    assert shown["fix saves per step"] == pytest.approx(8 + 4 - 0.15 - 512 * 0.0011, rel=0.01)
    assert gain.predicted == pytest.approx(20 / (20 - shown["fix saves per step"]), rel=0.01)
    assert gain.low is not None
    assert gain.low < gain.predicted
    assert found.names_cause


@pytest.mark.parametrize(
    "table", [{"is_sparse": True}, {"is_dense_anyway": True}, {"updater": None}], ids=["sparse", "dense by itself", "held by nobody known"]
)
def test_no_table_is_blamed_that_is_no_dense_one_of_the_optimizers(table):
    assert answer_of(RULE, holds(table)) is None


def test_a_table_is_not_blamed_of_which_a_batch_touches_so_much_that_nothing_is_saved():
    assert answer_of(RULE, holds({"ids": 20_000})) is None
    assert answer_of(RULE, holds({"ids": 2_000})) is not None


def test_a_table_that_is_small_beside_the_rest_is_not_blamed():
    assert answer_of(RULE, holds({"backward_ns": 0.2 * MS}, optimizer={"elements": 60_000_000})) is None


def test_only_tables_are_named_whose_sparse_update_would_be_faster():
    small = {"rows": 100, "backward_ns": 0.02 * MS}

    shown = values(finding(RULE, holds({}, small)))

    assert shown["rows of the tables"] == 125_000


def test_of_an_optimizer_of_another_kind_nothing_is_claimed():
    assert answer_of(RULE, holds(optimizer={"kind": "Muon"})) is None


def test_an_optimizer_that_takes_half_of_all_updates_has_half_of_their_time():
    whole, half = (values(finding(RULE, holds(optimizer={"share": share})))["fix saves per step"] for share in (1.0, 0.5))

    assert whole - half == pytest.approx(4.0, rel=0.01)


@pytest.mark.parametrize(
    ("optimizer", "changes"),
    [
        ({"kind": "SGD", "has_momentum": False}, False),
        ({"kind": "SGD", "has_momentum": True}, True),
        ({"kind": "Adagrad", "has_momentum": None}, False),
        ({"kind": "Adagrad", "decays": True}, True),
        ({"kind": "AdamW", "decays": True}, True),
    ],
    ids=str,
)
def test_the_fix_says_whether_it_changes_the_numbers(optimizer, changes):
    first, *_ = finding(RULE, holds(optimizer=optimizer)).fixes

    assert first.changes_numerics is changes


def test_large_gradients_are_given_back_and_several_of_a_table_are_added():
    large = {"rows": 500_000, "backward_ns": 4 * MS}

    parts = {BODY: 25.5, BACKWARD: 6.0, OPTIMIZER: 8.0}
    once, twice = (
        values(finding(RULE, holds({**large, "lookups": lookups}, ledger=parts, optimizer={"elements": 16_000_000})))["fix saves per step"]
        for lookups in (1.0, 2.0)
    )

    # 16 million elements: 0.15 ns each are given back, and 0.6 added. With warm caches the rest takes 0.3 ms less.
    assert once == pytest.approx(8 + 4 + 16 * 0.15 - 0.15 - 512 * 0.0011 + 0.3, rel=0.005)
    assert twice - once == pytest.approx(16 * 0.6, rel=0.01)


def test_it_is_not_judged_where_no_graph_was_looked_at_or_the_rows_are_unknown_or_ranks_share_the_gradients():
    unseen = measurements(ledger={BODY: 5.5, BACKWARD: 6.0, OPTIMIZER: 8.0}, tables=None)

    assert code_of(RULE, unseen) == "no-graph-of-tables"
    assert code_of(RULE, holds({"ids": None})) == "rows-of-tables-unknown"
    assert code_of(RULE, holds(sharing={"ranks": 2})) == "tables-of-ranks"


@pytest.mark.parametrize(
    ("tallest", "code"),
    [((50_000, 64), "update-of-tables-unseen"), ((784, 10), None), ((12_000, 4_096), None), (None, None)],
    ids=["as tall as a table", "a small layer", "a large layer", "not noted"],
)
def test_of_updates_inside_calls_it_is_open_where_a_parameter_may_be_a_table_and_the_training_stays_healthy(tallest, code):
    m = measurements(trainer={"facts": {"notes": {"facts": {"optimizers": False}, "optimizers": []}}}, tables=None, tallest=tallest)

    assert code_of(RULE, m) == code
    assert diagnose(m).verdict.state == diagnose(changed(m, tallest=None)).verdict.state


def test_on_an_accelerator_nothing_is_claimed():
    assert answer_of(RULE, holds(device="cuda")) is None


def test_it_leads_what_else_is_said_of_the_optimizer():
    notes = {"facts": {}, "optimizers": [{"kind": "optimizer", "id": 0, "type": "Adam", "device": "cpu", "fused": False}]}
    m = holds(optimizer={"is_fused": False}, trainer={"facts": {"notes": notes}})

    assert named(m)[:2] == [RULE, "unfused-optimizer"]


def test_the_removed_time_is_never_more_than_there_is():
    m = holds({"backward_ns": 60 * MS})

    removed = judged(RULE, m).counterfactual
    assert removed is not None
    assert removed.removed_ms(m) < m.mean_step_ns / 1e6
