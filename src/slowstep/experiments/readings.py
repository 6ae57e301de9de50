"""The steps of an experiment, read from the recording while it grows."""

from __future__ import annotations

import json
from dataclasses import dataclass, fields
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from slowstep.experiments import input_times
from slowstep.record.writing import format as fmt
from slowstep.sources._recording.records import DTYPE, taken_apart
from slowstep.sources._recording.sane import is_sane

_KINDS = (fmt.ARM, fmt.STEP, *input_times.KINDS)


@dataclass(frozen=True, kw_only=True, slots=True)
class Steps:
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

    def where(self, mask: NDArray[np.bool_]) -> Steps:
        """Those for which a mask of as many elements says yes."""
        return Steps(**{field.name: getattr(self, field.name)[mask] for field in fields(self)})


class StepReader:
    """Reads what was written since it last looked; cheap enough for several looks a second."""

    def __init__(self, path: Path) -> None:
        self._path, self._offset = path, 0
        self._found: list[NDArray[np.void]] = []

    def read(self) -> Steps:
        """All steps so far. Raises OSError where the file cannot be read."""
        with self._path.open("rb") as file:
            file.seek(self._offset)
            raw = file.read()
        records = np.frombuffer(raw[: len(raw) // fmt.RECORD_BYTES * fmt.RECORD_BYTES], DTYPE)
        # Reserved space ends the file; of records that are under way the kind is written last.
        unfinished = np.flatnonzero(records["kind"] == 0)
        whole = records[: int(unfinished[0])] if len(unfinished) else records
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


def no_steps() -> Steps:
    """What is read before the first step."""
    return _steps(np.zeros(0, DTYPE))


def _steps(found: NDArray[np.void]) -> Steps:
    records = taken_apart(found)
    rows = records[records["kind"] == fmt.ARM]
    return Steps(
        arm=rows["extra"].astype(np.int64),
        block=rows["a"].astype(np.int64),
        ns=(rows["t1"] - rows["t0"]).astype(np.int64),
        samples=rows["b"].astype(np.int64),
        delay_ns=rows["c"].astype(np.int64),
        settling=(rows["flags"] & fmt.SETTLING) != 0,
        input_ns=input_times.input_times(rows, records[np.isin(records["kind"], input_times.KINDS)]),
    )
