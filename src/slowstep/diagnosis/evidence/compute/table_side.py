"""What a dense update of embedding tables costs, and what is left of it where only the rows are updated that a batch touches."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

import numpy as np

from slowstep.analyses.compute.embedding_tables import EmbeddingTable, Updater
from slowstep.analyses.measurements import Measurements
from slowstep.analyses.steps.steps import Floats
from slowstep.calibration import updating
from slowstep.calibration.calibration import Calibration
from slowstep.diagnosis.evidence.trainer_side import PESSIMISTIC_BESIDE, concurrent_producers_ns, delay_share, with_core_delay
from slowstep.diagnosis.gain import Case, Counterfactual
from slowstep.findings import Fix
from slowstep.frameworks._remedies import Remedy
from slowstep.frameworks._words import Words
from slowstep.parts import BACKWARD, OPTIMIZER, PartKind

# They update each element of all that has a gradient. Of these SGD and Adagrad know sparse gradients themselves, and change no row by them
# whose gradient is zero.
_SGD, _ADAGRAD = "SGD", "Adagrad"
DENSE_UPDATERS = frozenset({"Adam", "AdamW", "NAdam", "RAdam", "Adamax", "RMSprop", "Adadelta", _SGD, _ADAGRAD})
_ROW = {_SGD: updating.SPARSE_SGD_ROW, _ADAGRAD: updating.SPARSE_ADAGRAD_ROW}
# Elements of a row; what one of more costs goes with their number.
WIDTH = updating.SPARSE_ROW_ELEMENTS.value


@dataclass(frozen=True, slots=True)
class _AssumedCosts:
    """One reading of what is not measured in the recording, ns."""

    table_ns: float
    row: int  # which end of the calibrated value of a row
    tensor_ns: float  # of the optimizer's call for each tensor that is no table
    others: float  # time of an element of the others by that of a table's
    freed_ns: float  # an element of a gradient that is given back to the system
    added_ns: float  # an element of a gradient that is added to another
    warmer_ns: float  # what the rest of the step gets shorter with warm caches, and the most of it that this can be
    warmer_share: float


def _ends(of: Calibration) -> tuple[float, float, float]:
    """As expected, pessimistic and optimistic of what is left."""
    low, high = of.bounds
    return of.value, high, low


_TABLE = _ends(updating.SPARSE_TABLE)
_TENSOR = _ends(updating.UPDATED_TENSOR)
_OTHERS = _ends(updating.CACHED_UPDATE)
# What is removed besides: the other way round.
_FREED = (updating.FREED_GRADIENT.value, *updating.FREED_GRADIENT.bounds)
_ADDED = (updating.ADDED_GRADIENT.value, *updating.ADDED_GRADIENT.bounds)
_WARMER = (updating.AFTER_SWEEP.value, *updating.AFTER_SWEEP.bounds)
_WARMER_SHARE = (updating.AFTER_SWEEP_AT_MOST.value, *updating.AFTER_SWEEP_AT_MOST.bounds)
EXPECTED, PESSIMISTIC, OPTIMISTIC = (
    _AssumedCosts(_TABLE[at], at, _TENSOR[at], _OTHERS[at], _FREED[at], _ADDED[at], _WARMER[at], _WARMER_SHARE[at]) for at in range(3)
)
# Up to this size the C library keeps what was freed, and gives it out again (mallopt(3), M_MMAP_THRESHOLD's largest on 64 bits).
KEPT_BYTES = 32 << 20
# From so much on what is gone over leaves nothing else in the caches.
SWEPT_BYTES = updating.SWEPT_BYTES.value


def dense_tables(m: Measurements) -> tuple[EmbeddingTable, ...]:
    """Tables that are updated as a whole though each use of them takes rows; of which it is known what holds them."""
    found = () if m.compute.tables is None else m.compute.tables.found
    return tuple(
        table
        for table in found
        if not (table.is_sparse or table.is_dense_anyway) and table.updater is not None and table.updater.kind in DENSE_UPDATERS
    )


def worth_it(m: Measurements, tables: Iterable[EmbeddingTable]) -> tuple[EmbeddingTable, ...]:
    """Those whose sparse update is expected to be faster; one of which nobody knows what a batch takes, as if it took nothing."""
    return tuple(table for table in tables if saved_ns(m, table, EXPECTED) > 0)


def taken_ns(m: Measurements, table: EmbeddingTable, assumed: _AssumedCosts = EXPECTED) -> float:
    """What its dense gradient and update take of the mean step, but for waits for a core."""
    return _optimizer_ns(m, table, assumed) + _gradient_ns(m, table, assumed)


def saved_ns(m: Measurements, table: EmbeddingTable, assumed: _AssumedCosts) -> float:
    """What a sparse one saves of that."""
    return taken_ns(m, table, assumed) - _left_ns(table, assumed)


def _optimizer_ns(m: Measurements, table: EmbeddingTable, assumed: _AssumedCosts) -> float:
    """Its share of its optimizer's time, by elements: all are gone over alike, but those of small tensors stay in the caches."""
    updater = table.updater
    if updater is None:
        return 0.0
    held = [each for each in dense_tables(m) if each.updater is not None and each.updater.number == updater.number]
    elements = sum(each.elements for each in held)
    others = max(updater.elements - elements, 0) * assumed.others
    fixed_ns = max(updater.tensors - len(held), 0) * (0.0 if updater.is_fused else assumed.tensor_ns)
    mean_ns = float(m.ledger.of_parts(OPTIMIZER).mean()) * updater.share
    return max(mean_ns - fixed_ns, 0.0) * table.elements / max(elements + others, 1.0)


def _gradient_ns(m: Measurements, table: EmbeddingTable, assumed: _AssumedCosts) -> float:
    """What is spent on making it, on adding up several, and on giving it back."""
    made_ns = min(table.backward_ns or 0.0, float(m.ledger.of_parts(BACKWARD).mean()))
    freed_ns = table.elements * assumed.freed_ns if table.gradient_bytes >= KEPT_BYTES else 0.0
    return made_ns + freed_ns + max(table.lookups - 1, 0.0) * table.elements * assumed.added_ns


def _left_ns(table: EmbeddingTable, assumed: _AssumedCosts) -> float:
    row = _ROW.get("" if table.updater is None else table.updater.kind, updating.SPARSE_ADAM_ROW)
    return assumed.table_ns + (table.ids or 0) * _ends(row)[assumed.row] * max(table.width / WIDTH, 1.0)


def whole_ns(m: Measurements) -> Floats:
    """Time per step of optimizers and backward, with their waits for a core."""
    return with_core_delay(m, OPTIMIZER) + with_core_delay(m, BACKWARD)


def part_ns(m: Measurements, mean_ns: float) -> Floats:
    """So much of the mean step as time per step, with its share of the waits for a core, as it goes with optimizer and backward."""
    own_ns = float((m.ledger.of_parts(OPTIMIZER) + m.ledger.of_parts(BACKWARD)).mean())
    return np.asarray(whole_ns(m) * (mean_ns / own_ns if own_ns > 0 else 0.0))


def sparse_counterfactual(m: Measurements, tables: tuple[EmbeddingTable, ...]) -> Counterfactual:
    """The tables updated by the rows that a batch touches."""

    def case(assumed: _AssumedCosts, factor: float = 1.0) -> Case:
        saved = max(sum(saved_ns(m, table, assumed) for table in tables), 0.0)
        removed = part_ns(m, saved + _warmer_ns(m, tables, saved, assumed))
        beside = factor * concurrent_producers_ns(m, spared_cpu_ns=float(removed.mean()))
        return Case(removed_ns=removed, concurrent_ns=beside, delay_share=delay_share(m, OPTIMIZER, BACKWARD))

    return Counterfactual(
        assumes="only rows that a batch touches had a gradient and were updated",
        expected=case(EXPECTED),
        pessimistic=case(PESSIMISTIC, PESSIMISTIC_BESIDE),
        optimistic=case(OPTIMISTIC),
    )


def _warmer_ns(m: Measurements, tables: tuple[EmbeddingTable, ...], saved: float, assumed: _AssumedCosts) -> float:
    """What the rest of the mean step gets shorter."""
    if sum(table.gradient_bytes for table in tables) < SWEPT_BYTES:
        return 0.0
    own_ns = float((m.ledger.of("compute") - m.ledger.of("compute", PartKind.CORE_WAIT)).mean())
    return min(assumed.warmer_share * max(own_ns - saved, 0.0), assumed.warmer_ns)


def sparse_fix(words: Words, updater: Updater) -> Fix:
    """How the script asks for that, and what it changes."""
    gradient = words.advise(Remedy.SPARSE_GRADIENT)
    if updater.kind not in _ROW:
        how = words.advise(Remedy.SPARSE_UPDATE, kind=updater.kind)
        decay = ", and no decay of weights" if updater.decays is not False else ""
        text = f"{gradient}, and {how}: a row's averages then change only when a batch touches it{decay}"
        return Fix(text=text, changes_numerics=True)
    if updater.has_momentum or updater.decays is not False:
        how = words.advise(Remedy.SPARSE_PLAIN, kind=updater.kind)
        return Fix(text=f"{gradient}, and {how}: neither is for sparse gradients", changes_numerics=True)
    return Fix(text=f"{gradient}: {updater.kind} then goes over the touched rows alone, and gives them the same values")
