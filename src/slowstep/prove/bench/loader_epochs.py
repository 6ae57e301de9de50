"""What a loader's epochs take beside their batches: the start of workers, the first batch, the end of workers. Pure.

An epoch takes what was seen at its edges, and for each batch between them what a batch takes in a row. So it does not matter how long
epochs are: of long ones one start is enough to know its share, of short ones there may be nothing but edges.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from slowstep.prove.stats.figures import FEWEST_BLOCKS, Figure, combined, inverse, ratio

_UNKNOWN: Final = -1
_NS, _BATCHES = 0, 1


@dataclass(frozen=True, kw_only=True, slots=True)
class EpochTable:
    """Epochs of `batches` each. `table` has a row for each that was begun: ns, batches, samples and bytes of what is counted at its edges.

    `edge_ns` is the part of that which lies before the first batch and after the last: nothing computes then. `seen` are the samples of
    the rows as the recorder counts them.
    """

    batches: float
    table: NDArray[np.int64]
    edge_ns: float
    seen: tuple[int, ...]

    def amount(self, column: int, rows: NDArray[np.int64]) -> float:
        """What of a column an epoch has, `rows` being of batches between the edges."""
        both = np.concatenate((self.table, rows))
        return float(both[:, column].sum() / both[:, _BATCHES].sum()) * self.batches

    def whole_s(self, steady: Figure | None, column: int, rows: NDArray[np.int64]) -> Figure | None:
        """Seconds of an epoch, where so much of a column comes in a second between the edges; None where too little is known."""
        seconds, ones = self.table[:, _NS] / 1e9, np.ones(len(self.table))
        if self.batches <= float(self.table[:, _BATCHES].mean()):
            rate = ratio(ones, seconds, least=FEWEST_BLOCKS)
            return None if rate is None else inverse(rate)
        if steady is None:
            return None
        # Beside other time edges scatter by their seconds: one that took long makes an epoch as much longer, and not endless.
        edges = ratio(seconds, ones, least=FEWEST_BLOCKS)
        if edges is None:
            # Of one start nobody knows how far it scatters.
            edges = Figure(value=float(seconds[0]), draws=np.full(len(steady.draws), seconds[0]))
        between = self.amount(column, rows) - float(self.table[:, column].mean())
        return combined(np.add, edges, inverse(steady, max(between, 0.0)))


def read_epochs(drains: Sequence[dict[str, Any]]) -> EpochTable | None:
    """The epochs of readings with the same number of workers; None where none began, or nobody knows how long they are."""
    all_edges = [edge for d in drains for edge in d["edges"]]
    # Of a length that was tried first, and turned out to be longer than an epoch, only the length is known.
    edges = [edge for edge in all_edges if edge["filled"] == all_edges[-1]["filled"]]
    ended = [edge["batches"] for edge in all_edges if edge["batches"] != _UNKNOWN]
    told = next((d["epoch_batches"] for d in drains if d["epoch_batches"]), None)
    if not edges or (not ended and told is None):
        return None
    ends = [edge["end_ns"] for edge in edges if edge["end_ns"] != _UNKNOWN]
    end_ns = float(np.mean(ends)) if ends else 0.0
    table = np.array(
        [
            [
                edge["start_ns"] + edge["fill_ns"] + (end_ns if edge["end_ns"] == _UNKNOWN else edge["end_ns"]),
                edge["filled"],
                edge["samples"],
                edge["size_bytes"],
            ]
            for edge in edges
        ],
        dtype=np.int64,
    )
    return EpochTable(
        batches=float(np.mean(ended)) if ended else float(told or 0),
        table=table,
        edge_ns=float(np.mean([edge["start_ns"] for edge in edges])) + end_ns,
        seen=tuple(edge["seen"] for edge in edges),
    )
