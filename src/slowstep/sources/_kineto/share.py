"""What another process has read of the file: its columns in files, its dictionaries and counts; joined to those of this process."""

from __future__ import annotations

import pickle
from collections import Counter
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import numpy as np

from slowstep.sources._kineto.columns import Columns
from slowstep.sources._kineto.store import TablePart

# Column of codes -> the dictionary that they are from.
CODES: Final = {
    "thread": "threads", "name": "names", "collective": "collectives", "shapes": "shapes", "types": "types", "stack": "stacks",
    "grid": "grids", "block": "blocks",
}  # fmt: skip


@dataclass(frozen=True, slots=True)
class Share:
    """One process's share: rows by table, and the values of each dictionary in the order of their codes."""

    parts: tuple[TablePart, ...]
    values: dict[str, list[Any]]
    thread_names: dict[tuple[Any, Any], str]
    collective_operators: dict[int, tuple[int, int, int]]
    copied_bytes: dict[int, int]
    foreign: set[str]
    counts: Counter[str]


def write_share(columns: Columns, counts: Counter[str], folder: Path) -> None:
    """Leave all of `columns` in `folder`, which is this process's own."""
    share = Share(
        parts=tuple(grown.part(folder) for grown in columns.grown),
        values={name: list(getattr(columns, name)) for name in CODES.values()},
        thread_names=columns.thread_names,
        collective_operators=columns.collective_operators,
        copied_bytes=columns.copied_bytes,
        foreign=columns.groups.foreign,
        counts=counts,
    )
    (folder / "share").write_bytes(pickle.dumps(share))


def join_share(columns: Columns, counts: Counter[str], folder: Path) -> None:
    """Add what another process left in `folder`; its files must stay until the columns were taken."""
    # Of a process and a folder that are slowstep's own.
    share: Share = pickle.loads((folder / "share").read_bytes())
    codes = {}
    for column, name in CODES.items():
        own = getattr(columns, name)
        codes[column] = np.array([own[value] for value in share.values[name]], dtype=np.int32)
    for grown, part in zip(columns.grown, share.parts, strict=True):
        grown.join(part, codes)
    renamed = codes["collective"].tolist()
    columns.collective_operators |= {key: (renamed[code], *rest) for key, (code, *rest) in share.collective_operators.items()}
    columns.thread_names |= share.thread_names
    columns.copied_bytes |= share.copied_bytes
    columns.groups.foreign |= share.foreign
    counts.update(share.counts)
