"""A tf.data pipeline cut after each of its stages, as far as they follow one another."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Final

from slowstep.frameworks.tensorflow.inside._stages import NO_STAGE, functions_of, inputs_of, kind_of
from slowstep.frameworks.tensorflow.inside.tasks._calls import calls_of
from slowstep.record.attributes import held_by

# Those nearest the training, each with all before it; what is before the first of them is in its row.
MOST_PREFIXES: Final = 12
# What only says how elements are put together.
_SHAPES: Final = (NO_STAGE, "Restructured")
# The data set of numbers beside `enumerate` is one whose class TensorFlow forgets.
_COUNTS: Final = ("Range", "Variant")
# They hand elements on: what they take is in the row of the stage before them.
_HAND_ON: Final = ("Repeat", "Take", "Skip", "Prefetch")
_BATCH, _UNBATCH = "batch", "unbatch"
# Readers of these share what they read, or take it from the training.
_SHARED: Final = {"DataService": "it reads from a tf.data service, whose elements other readers would miss"}
_ONCE: Final = {
    "generator": "it reads a generator that can be read once only, and the training would miss what is read of it",
    "PyDataset": "it reads a PyDataset by workers that the training shares",
    "DataLoader": "it reads a DataLoader of another framework, which the training shares",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Prefix:
    """All stages up to one, with those behind it that only hand on. `stage` is how notes describe that one.

    `reads` is how many data sets the first of all reads that were not cut; `holds_single` tells that its elements are samples that a later
    stage makes batches of. `batch_size` is what the stage was given, `last` the stage itself.
    """

    dataset: Any
    last: Any
    stage: dict[str, Any]
    reads: int
    holds_single: bool
    batch_size: int | None


def prefixes_of(dataset: Any) -> list[Prefix]:
    """From the reader to the whole, each with the options of the whole. Raises what TensorFlow does."""
    stages, options = _in_a_row(dataset), dataset.options()
    kinds = [kind_of(each) for each in stages]
    begins = [number for number, kind in enumerate(kinds) if not number or kind not in _HAND_ON]
    found = []
    for begin, end in zip(begins, [*begins[1:], len(stages)], strict=True):
        stage, each = stages[begin], stages[end - 1]
        found.append(
            Prefix(
                dataset=dataset if end == len(stages) else each.with_options(options),
                last=stage,
                stage=_described(stage, then=kinds[begin + 1 : end]),
                reads=0 if begin else len(inputs_of(stage)),
                holds_single=not _is_batched(kinds[:end]) and any(_batches(kind) for kind in kinds[end:]),
                batch_size=_batch_size(stage),
            )
        )
    return found[-MOST_PREFIXES:]


def _described(stage: Any, then: list[str]) -> dict[str, Any]:
    kind = kind_of(stage)
    return {"kind": kind, "then": then, "calls": calls_of(stage), "makes_batches": _batches(kind), **functions_of(stage)}


def why_not(prefixes: list[Prefix]) -> str | None:
    """Why the pipeline cannot be read beside the training; None where it can."""
    for prefix in prefixes:
        shared = next((why for kind, why in _SHARED.items() if prefix.stage["kind"].startswith(kind)), None)
        if (why := shared or _ONCE.get(str(prefix.stage.get("reads")))) is not None:
            return why
    return None


def _in_a_row(dataset: Any) -> list[Any]:
    """The stages from the first one, or from the one that joins several, to the last."""
    found, each = list[Any](), dataset
    while each is not None:
        if kind_of(each) not in _SHAPES:
            found.append(each)
        each = None if functions_of(each).get("generator") else _only_input(each)
    return found[::-1]


def _only_input(dataset: Any) -> Any:
    """The data set that a stage reads; None where it reads none, or several. One that only counts, as beside `enumerate`, is none."""
    inputs = inputs_of(dataset)
    if len(inputs) > 1:
        inputs = [each for each in inputs if not _counts_only(each)]
    return inputs[0] if len(inputs) == 1 else None


def _counts_only(dataset: Any) -> bool:
    types, shapes = dataset._flat_types, dataset._flat_shapes
    return kind_of(dataset) in _COUNTS and [each.name for each in types] == ["int64"] and shapes[0].rank == 0


def _batch_size(dataset: Any) -> int | None:
    given = held_by(dataset, "_batch_size")
    # A tensor of TensorFlow's, unless the data set is one of a graph.
    return int(given) if hasattr(given, "numpy") else None


def _is_batched(kinds: list[str]) -> bool:
    last = next((kind for kind in reversed(kinds) if _BATCH in kind.lower()), "")
    return _batches(last)


def _batches(kind: str) -> bool:
    return _BATCH in kind.lower() and _UNBATCH not in kind.lower()
