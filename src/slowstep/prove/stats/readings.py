"""The steps of an experiment, read from the recording while it grows."""

from __future__ import annotations

import json
from dataclasses import dataclass, fields
from pathlib import Path
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from slowstep.record.writing import format as fmt
from slowstep.sources._recording.records import DTYPE, steps_as_records
from slowstep.sources._recording.sane import is_sane

Records = NDArray[Any]

# What a recording tells of the input, on the thread that asks for it; STEP records are taken apart before.
KINDS: Final = (fmt.WAIT, fmt.START, fmt.SHUTDOWN)


def input_times(arms: Records, spans: Records) -> NDArray[np.int64]:
    """Ns by step, shape (steps,): of ARM records in time order, and of records of KINDS. Steps that end an epoch hold both its iterators.

    An iterator that gave batches in one step only is no input of the training: a validation reads its own from end to end between two
    updates.
    """
    found = np.zeros(len(arms), dtype=np.int64)
    if not len(arms) or not len(spans):
        return found
    step = np.searchsorted(arms["t1"], spans["t1"])
    here = (step < len(arms)) & (spans["thread"] == arms["thread"][0])
    spans, step = spans[here], step[here]
    mine = spans["a"] == fmt.NO_ITERATOR
    mine |= np.isin(spans["a"], _of_several_steps(spans, step))
    spans, step = spans[mine], step[mine]
    began = np.maximum(spans["t0"], arms["t0"][step])
    length_ns = np.where(spans["t1"] > began, spans["t1"] - began, 0)
    np.add.at(found, step, length_ns.astype(np.int64))
    return found


def _of_several_steps(spans: Records, step: NDArray[np.int64]) -> NDArray[np.int64]:
    """The iterators that gave batches in more than one step."""
    gave = (spans["kind"] == fmt.WAIT) & ((spans["flags"] & fmt.END) == 0)
    pairs = np.unique(np.column_stack([spans["a"][gave], step[gave]]), axis=0)
    iterators, steps = np.unique(pairs[:, 0], return_counts=True)
    return np.asarray(iterators[steps > 1], dtype=np.int64)


_KINDS = (fmt.ARM, fmt.STEP, *KINDS)


@dataclass(frozen=True, kw_only=True, slots=True)
class ExperimentSteps:
    """Arrays of one element a step, in time order: arm, block, ns, samples (-1 unknown), run-queue delay ns (-1 unknown), settling, and ns
    of it in which the training's input was waited for.
    """

    arm: NDArray[np.int64]
    block: NDArray[np.int64]
    ns: NDArray[np.int64]
    samples: NDArray[np.int64]
    delay_ns: NDArray[np.int64]
    settling: NDArray[np.bool_]
    input_ns: NDArray[np.int64]

    def where(self, mask: NDArray[np.bool_]) -> ExperimentSteps:
        """Those for which a mask of as many elements says yes."""
        return ExperimentSteps(**{field.name: getattr(self, field.name)[mask] for field in fields(self)})


def after_each_other(*parts: ExperimentSteps) -> ExperimentSteps:
    """All steps of these, in this order."""
    names = [field.name for field in fields(ExperimentSteps)]
    return ExperimentSteps(**{name: np.concatenate([getattr(part, name) for part in parts]) for name in names})


def whole_records(path: Path, offset: int) -> Records:
    """The records of a file, from a place in bytes on, that are written to their end. Raises OSError where it cannot be read."""
    with path.open("rb") as file:
        file.seek(offset)
        raw = file.read()
    records = np.frombuffer(raw[: len(raw) // fmt.RECORD_BYTES * fmt.RECORD_BYTES], DTYPE)
    # Reserved space ends the file; of records that are under way the kind is written last.
    unfinished = np.flatnonzero(records["kind"] == 0)
    return records[: int(unfinished[0])] if len(unfinished) else records


class StepReader:
    """Reads what was written since it last looked; cheap enough for several looks a second."""

    def __init__(self, path: Path) -> None:
        self._path, self._offset = path, 0
        self._found: list[NDArray[np.void]] = []

    def read(self) -> ExperimentSteps:
        """All steps so far. Raises OSError where the file cannot be read."""
        whole = whole_records(self._path, self._offset)
        self._offset += len(whole) * fmt.RECORD_BYTES
        used = whole[np.isin(whole["kind"], _KINDS) & is_sane(whole)]
        if len(used):
            self._found.append(used)
        return _steps(np.concatenate(self._found)) if self._found else no_steps()


class NoteReader:
    """Reads the lines that a process has written into its notes since it last looked."""

    def __init__(self, path: Path) -> None:
        self._path, self._offset = path, 0
        self._found: list[dict[str, Any]] = []

    def read(self) -> list[dict[str, Any]]:
        """All notes so far. Raises OSError where the file cannot be read."""
        with self._path.open("rb") as file:
            file.seek(self._offset)
            # The last line may be on its way.
            whole = file.read().rpartition(b"\n")[0]
        if whole:
            self._offset += len(whole) + 1
            self._found += map(json.loads, filter(None, whole.split(b"\n")))
        return self._found


def no_steps() -> ExperimentSteps:
    """What is read before the first step."""
    return _steps(np.zeros(0, DTYPE))


def _steps(found: NDArray[np.void]) -> ExperimentSteps:
    records = steps_as_records(found)
    rows = records[records["kind"] == fmt.ARM]
    return ExperimentSteps(
        arm=rows["extra"].astype(np.int64),
        block=rows["a"].astype(np.int64),
        ns=(rows["t1"] - rows["t0"]).astype(np.int64),
        samples=rows["b"].astype(np.int64),
        delay_ns=rows["c"].astype(np.int64),
        settling=(rows["flags"] & fmt.SETTLING) != 0,
        input_ns=input_times(rows, records[np.isin(records["kind"], KINDS)]),
    )
