"""The precision of an operator, from the element types of its inputs as profilers write them."""

from __future__ import annotations

import re
from typing import Final

import polars as pl

# PyTorch writes C++ names (`c10::BFloat16`, `float`, `long int`), other frameworks their own; the first that a list names counts.
TYPES: Final = re.compile(
    r"(?P<float8>float8\w*|\be[45]m[23]\w*)|(?P<bfloat16>bfloat16|\bbf16)|(?P<float16>\bhalf|float16|\bf16)|(?P<float64>double|float64|\bf64)"
    r"|(?P<float32>\bfloat(32)?\b|\bf32)|(?P<int8>\b(un)?signed char|\bu?int8\b|\bq?[us]8\b|quint8|qint8)",
    re.IGNORECASE,
)
SIXTEEN_BIT: Final = ("float16", "bfloat16")


def precision_of(types: str) -> str | None:
    """The precision of a list of element types as in the trace; None where it holds none of the known ones."""
    found = TYPES.search(types)
    return found.lastgroup if found else None


def precisions(types: pl.Series) -> pl.Series:
    """The precision of each list of element types, shape (n,); null where it is null or holds none of the known ones."""
    texts = types.cast(pl.String)
    known = texts.drop_nulls().unique()
    found = pl.Series([precision_of(text) for text in known.to_list()], dtype=pl.String)
    return texts.replace_strict(known, found, default=None, return_dtype=pl.String)
