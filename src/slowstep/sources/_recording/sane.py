"""Which records hold numbers that can have been measured: others write into files too, and disks lose bits."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from slowstep.record.writing import format as fmt
from slowstep.sources._recording.fit import MOST

# 36 years in ns of a clock that counts from the machine's start: what is later was never measured, and sums would not fit into 64 bits.
LATEST_NS: Final = 2**60
# Times in parts of a step, and the bits of a loss: numbers of another form.
_OF_OTHER_FORM: Final = (fmt.STEP, fmt.LOSS)
# What is no size at all, by field; -1 stands for "unknown" or "no limit" wherever that may be so.
_NEVER_ZERO: Final[Mapping[int, tuple[str, ...]]] = {
    fmt.READING_MEMORY: ("a",),
    fmt.READING_GROUP_MEMORY: ("b",),
    fmt.READING_QUOTA: ("a",),
    fmt.READING_AFFINITY: ("a", "b"),
}


def is_sane(records: Any) -> NDArray[np.bool_]:
    """Which records end no earlier than they begin, and count what can be counted."""
    kinds = records["kind"]
    sane = (records["t0"] <= records["t1"]) & (records["t1"] < LATEST_NS)
    for field in ("a", "b", "c"):
        values = records[field]
        sane &= ((values >= -1) & (values < MOST)) | np.isin(kinds, _OF_OTHER_FORM)
    for kind, fields in _NEVER_ZERO.items():
        for field in fields:
            sane &= (kinds != kind) | (records[field] != 0)
    return np.asarray(sane)
