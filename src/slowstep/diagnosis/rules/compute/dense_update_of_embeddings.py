"""Embedding tables are updated as a whole for a few rows of them.

On a processor: the gradient of a table is as large as the table, and so is the optimizer's work on it.

What it sees:
    Tables that the training takes rows of and uses in no other way (graphs of backward passes are looked at, now and then), whose gradient
    is not sparse and which Adam, AdamW, NAdam, RAdam, Adamax, RMSprop, Adadelta, Adagrad or SGD holds. At least 10 % of the time would be
    saved of what their gradients and their share of the optimizer's call take. Each row that a batch takes is counted as often as it is
    taken: more cannot be touched.
Why it costs:
    In the backward a gradient of the whole table is filled with zeros, a few rows of it are added to, and the optimizer reads and writes
    the table, that gradient and its averages: a step takes as long as the table is large, whatever the batch holds.
How the gain is predicted:
    r is the time of the tables' nodes in the backward (measured in passes that were looked at), their share of the optimizer's by elements,
    and what a large gradient takes to be given back, or to be added to another of the same table; less what a sparse update of the rows of
    a batch costs, and with what the rest gains that finds its caches warm (benchmarks/sparse_update.py). B is what the loader's workers
    need for a batch.
When it is wrong:
    SparseAdam is not Adam: the averages of a row stand still while no batch touches it, weights do not decay, and the numbers change. Of
    SGD and Adagrad without momentum and decay they do not. Clipping of gradients goes over the tables too, which is not counted, and does
    not take sparse ones. Where few ids are drawn again and again the touched rows are fewer, and more is gained. A table that the loss also
    uses as a whole (weights that an output layer shares, a penalty on all of it) has a dense gradient by itself and is not blamed. On an
    accelerator, and of tables in compiled code, nothing is known. Where updates are made inside calls that show none of it (a step that is
    compiled as a whole), it is not judged if a parameter is as tall as a table, and else there is none: that leaves no verdict open.
What to try:
    sparse gradients, with an optimizer for the tables that knows them; smaller tables, by hashing ids or leaving out rare ones.
"""

from __future__ import annotations

from slowstep.analyses.compute.embedding_tables import EmbeddingTable, Updater
from slowstep.analyses.ledger.closures import has_closures
from slowstep.analyses.measurements import Measurements
from slowstep.diagnosis.evidence.compute.table_side import (
    EXPECTED,
    dense_tables,
    part_ns,
    saved_ns,
    sparse_counterfactual,
    sparse_fix,
    taken_ns,
    whole_ns,
    worth_it,
)
from slowstep.diagnosis.gain import predict, saved_by, share_interval
from slowstep.diagnosis.rule import Answer, Judged, Rule
from slowstep.findings import Evidence, Finding, Fix, NotJudged
from slowstep.parts import BACKWARD, OPTIMIZER
from slowstep.reasons import Wording
from slowstep.units import format_share

NAME = "dense-update-of-embeddings"
# Of the time: what saves less is no bottleneck.
WORTH = 0.10
# A matrix of so many rows, and of so many times as many rows as columns, may be a table. Both are assumed: vocabularies begin at some ten
# thousand words, and layers are seldom so tall.
FEWEST_ROWS = 10_000
TALLER = 16

NO_GRAPH = Wording(
    "no-graph-of-tables", "no whole graph of a backward pass was looked at, which would show embedding tables; record longer"
)
ROWS_UNKNOWN = Wording(
    "rows-of-tables-unknown", "how many rows of an embedding table a batch takes is unknown: hooks on saved tensors hide it"
)
UPDATE_UNSEEN = Wording(
    "update-of-tables-unseen",
    "a parameter of {rows} rows of {width} may be an embedding table, and updates are made inside calls that show neither its gradient nor "
    "the rows that a batch takes",
)
SEVERAL_RANKS = Wording(
    "tables-of-ranks", "{ranks} ranks share dense gradients of embedding tables; what sharing sparse ones takes is unknown"
)


def judge(m: Measurements) -> Answer:
    """Whether tables are updated as a whole for a few rows, and what it would gain to update those alone."""
    if m.compute.device != "cpu" or m.trainer.by_hand or has_closures(m.trainer):
        return None
    if not m.trainer.has_optimizers:
        return _inside_calls(m)
    if share_interval(m, whole_ns(m))[0] < WORTH:
        return None
    if m.compute.tables is None:
        return NotJudged(rule=NAME, reason=NO_GRAPH(), advisory=True)
    tables = worth_it(m, dense_tables(m))
    saved = part_ns(m, sum(saved_ns(m, table, EXPECTED) for table in tables))
    if not tables or share_interval(m, saved)[0] < WORTH:
        return None
    if any(table.ids is None for table in tables):
        return NotJudged(rule=NAME, reason=ROWS_UNKNOWN(), advisory=True)
    if m.sharing.ranks > 1:
        return NotJudged(rule=NAME, reason=SEVERAL_RANKS(ranks=m.sharing.ranks), advisory=True)
    return _judged(m, tables)


def _inside_calls(m: Measurements) -> NotJudged | None:
    """What is left open where no optimizer is called that could be seen: nothing of a training without a parameter like a table."""
    tallest = m.compute.work.tallest
    if tallest is None or m.ledger.share("compute") < WORTH:
        return None
    rows, width = tallest
    if rows < max(FEWEST_ROWS, TALLER * width):
        return None
    return NotJudged(rule=NAME, reason=UPDATE_UNSEEN(rows=rows, width=width), advisory=True)


def _judged(m: Measurements, tables: tuple[EmbeddingTable, ...]) -> Judged:
    share, low, high = share_interval(m, part_ns(m, sum(taken_ns(m, table) for table in tables)))
    counterfactual = sparse_counterfactual(m, tables)
    rows, ids = sum(table.rows for table in tables), sum(min(table.ids or 0, table.rows) for table in tables)
    kinds = " and ".join(sorted({updater.kind for updater in _updaters(tables)}))
    finding = Finding(
        rule=NAME,
        stage="compute",
        title=f"{kinds} updates all {rows:,} rows of {_named(tables)}, of which a batch touches at most {ids:,}: with the gradients "
        f"{format_share(share)} of the time",
        opens_with_name=True,
        share=share,
        share_low=low,
        share_high=high,
        claims=(OPTIMIZER, BACKWARD),
        evidence=(
            Evidence(name="dense update of tables", value=share, unit="share of window", threshold=WORTH),
            Evidence(name="rows of the tables", value=rows, unit="rows"),
            Evidence(name="rows touched at most", value=ids, unit="rows per step"),
            Evidence(name="their elements", value=_share_of_elements(tables), unit="share of parameters", where=kinds),
            Evidence(name="making their gradients", value=_made_ms(tables), unit="ms per step"),
            saved_by(m, counterfactual),
        ),
        gain=predict(m, counterfactual),
        fixes=(
            *(sparse_fix(m.training.words, updater) for updater in _updaters(tables)),
            Fix(text="smaller tables, by hashing ids or leaving out rare ones", changes_numerics=True),
        ),
        names_cause=True,
    )
    return Judged(finding=finding, counterfactual=counterfactual)


def _updaters(tables: tuple[EmbeddingTable, ...]) -> list[Updater]:
    """Those that hold the tables, each once."""
    found = {table.updater.number: table.updater for table in tables if table.updater is not None}
    return [found[number] for number in sorted(found)]


def _named(tables: tuple[EmbeddingTable, ...]) -> str:
    return f"{len(tables)} embedding tables" if len(tables) > 1 else "an embedding table"


def _share_of_elements(tables: tuple[EmbeddingTable, ...]) -> float:
    return sum(table.elements for table in tables) / max(sum(updater.elements for updater in _updaters(tables)), 1)


def _made_ms(tables: tuple[EmbeddingTable, ...]) -> float | None:
    """None where it was not measured of each."""
    known = [table.backward_ns for table in tables if table.backward_ns is not None]
    return sum(known) / 1e6 if len(known) == len(tables) else None


RULE = Rule(
    name=NAME,
    stages=("compute",),
    topics=("compute", "input", "ledger", "machine", "sharing", "steps", "trainer", "training"),
    judge=judge,
)
