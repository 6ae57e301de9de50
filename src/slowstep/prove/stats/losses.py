"""The losses of a run, read from its recording while it grows."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from slowstep.prove.stats.readings import whole_records
from slowstep.record.writing import format as fmt
from slowstep.sources._recording.records import DTYPE


@dataclass(frozen=True, kw_only=True, slots=True)
class UpdateLosses:
    """One element an update, the first one first: mean loss of its backward passes, how many (0: the loss is unknown), and a check sum of
    the batches that were received for it (-1: none)."""

    loss: NDArray[np.float64]
    passes: NDArray[np.int64]
    inputs: NDArray[np.int64]

    @property
    def first_not_finite(self) -> int | None:
        """The first step (from 1) whose loss is no finite number; None where all are, or are not known."""
        bad = np.flatnonzero((self.passes > 0) & ~np.isfinite(self.loss))
        return int(bad[0]) + 1 if len(bad) else None

    def __len__(self) -> int:
        return len(self.loss)


class LossReader:
    """Reads what was written since it last looked; of several processes of a recording, the one with most losses counts."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._offsets: dict[Path, int] = {}
        self._found: dict[Path, list[NDArray[np.void]]] = {}

    def read(self) -> UpdateLosses:
        """All losses so far. Raises OSError where a file cannot be read."""
        for path in self._folder.glob("*-*.rec"):
            self._read_on(path)
        rows = max((np.concatenate(parts) for parts in self._found.values()), key=len, default=np.zeros(0, DTYPE))
        return UpdateLosses(loss=rows["a"].astype("<i8").view("<f8"), passes=rows["b"].astype(np.int64), inputs=rows["c"].astype(np.int64))

    def _read_on(self, path: Path) -> None:
        whole = whole_records(path, self._offsets.get(path, 0))
        self._offsets[path] = self._offsets.get(path, 0) + len(whole) * fmt.RECORD_BYTES
        losses = whole[whole["kind"] == fmt.LOSS]
        if len(losses):
            self._found.setdefault(path, []).append(losses)
