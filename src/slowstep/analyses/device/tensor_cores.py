"""Which devices have Tensor Cores (AMD: matrix cores), and why a matrix multiplication or convolution does not run on them.

The sizes that Tensor Cores need for full use are multiples of 16 bytes in every dimension: 8 elements of 16 bit, 4 of TF32, 16 of 8 bit
(NVIDIA, Matrix Multiplication Background User's Guide, "Tensor Core requirements"); for convolutions the channels, in and out (NVIDIA,
Convolutional Layers User's Guide). Newer libraries use the cores for other sizes as well, at a lower rate.
"""

from __future__ import annotations

import json
import math
import re
from collections.abc import Callable
from enum import StrEnum
from typing import Any, Final, NamedTuple

import polars as pl

from slowstep.frameworks._events import Takes
from slowstep.frameworks._known import operators
from slowstep.timeline.shapes import elements_of, read_shapes


class WhyNot(StrEnum):
    """Why a kernel of an operator that could use Tensor Cores does not."""

    FULL_PRECISION = "full-precision"  # float32 without TF32
    NO_TF32 = "no-tf32"  # float32, which the Tensor Cores of this device do not take
    DOUBLE = "double"
    ONE_ROW = "one-row"  # a dimension of 1: a product with a vector
    MISALIGNED = "misaligned"  # sizes that are not multiples of so many elements
    UNKNOWN = "unknown"


class Missed(NamedTuple):
    """Why a kernel misses the Tensor Cores; where for its sizes, of how many elements they should be multiples, and what they are."""

    why_not: WhyNot
    multiple: int | None = None
    sizes: dict[str, int] | None = None


MULTIPLE: Final = {"float16": 8, "bfloat16": 8, "tf32": 4, "float32": 4, "int8": 16, "float8": 16}
# Volta was the first with Tensor Cores, Ampere the first that takes TF32 (CUDA C++ Programming Guide, compute capabilities).
FIRST_TENSOR_CORES: Final = 7.0
FIRST_TF32: Final = 8.0
# AMD's first with matrix cores is the MI100 (CDNA); the MI300's architecture is gfx940, told as 9.4.
AMD_WITH_MATRIX_CORES: Final = re.compile(r"\bMI[1-9]\d\d")
AMD_MI300: Final = 9.39


def has_tensor_cores(vendor: str | None, name: str | None, capability: float | None, seen_in_use: bool) -> bool | None:
    """Whether a device has them; None where neither its name nor its capability nor a kernel tells."""
    if seen_in_use:
        return True
    if vendor == "amd":
        known = bool(name and AMD_WITH_MATRIX_CORES.search(name)) or (capability is not None and capability >= AMD_MI300)
        return known or None
    if capability is None:
        return None
    # The cheaper Turing boards have their compute capability but not their Tensor Cores.
    return capability >= FIRST_TENSOR_CORES and not (name and "GTX 16" in name)


def _product(left: list[int], right: list[int]) -> dict[str, int]:
    return {"M": left[-2] if len(left) > 1 else 1, "K": left[-1], "N": right[-1] if len(right) > 1 else 1}


def _of_rows(rows: list[int], weight: list[int]) -> dict[str, int]:
    return {"M": math.prod(rows[:-1]), "K": rows[-1], "N": weight[0] if len(weight) > 1 else 1}


def _convolution(weight: list[int]) -> dict[str, int]:
    return {"in": weight[1], "out": weight[0]}


_SIZES: Final[dict[Takes, Callable[..., dict[str, int]]]] = {
    Takes.FACTORS: _product,
    Takes.ROWS: _of_rows,
    Takes.WEIGHT: _convolution,
}


def sizes_of(operator: str, shapes: str | None) -> dict[str, int] | None:
    """The sizes that matter: `M`, `K`, `N` of a product, `in` and `out` channels of a convolution. None where they are not known."""
    inputs: list[Any] = [shape if elements_of(shape) is not None else [] for shape in read_shapes(shapes) or ()]
    known = operators().get(operator)
    try:
        if known is not None and known.inputs:
            return _SIZES[known.takes](*(inputs[index] for index in known.inputs))
    except IndexError:
        return None
    return None


def why_not(operator: str, shapes: str | None, precision: str | None, capability: float | None, vendor: str | None) -> Missed:
    """Why a kernel of an operator that could use Tensor Cores does not."""
    sizes, known = sizes_of(operator, shapes), operators().get(operator)
    if (known is not None and known.takes is Takes.VECTOR) or (sizes and "in" not in sizes and 1 in sizes.values()):
        return Missed(WhyNot.ONE_ROW)
    if precision == "float64":
        return Missed(WhyNot.DOUBLE)
    if precision == "float32" and vendor != "amd":
        return Missed(WhyNot.NO_TF32 if capability is not None and capability < FIRST_TF32 else WhyNot.FULL_PRECISION)
    multiple = MULTIPLE.get(precision or "")
    if sizes and multiple and any(size % multiple for size in sizes.values()):
        return Missed(WhyNot.MISALIGNED, multiple, sizes)
    return Missed(WhyNot.UNKNOWN)


def add_why_not(rows: pl.DataFrame, capability: float | None, vendor: str | None) -> pl.DataFrame:
    """`rows` (columns innermost, shapes, precision, eligible, tensor_core) with `why_not`,
    `multiple` and `sizes`, null for kernels that need no reason.
    """
    asked = pl.col("eligible") & (pl.col("tensor_core") == False)  # noqa: E712 null is neither
    keys = ["innermost", "shapes", "precision"]
    known = rows.filter(asked).select(keys).unique()
    reasons = [why_not(name or "", shapes, precision, capability, vendor) for name, shapes, precision in known.iter_rows()]
    found = pl.DataFrame(
        [(missed.why_not, missed.multiple, missed.sizes and json.dumps(missed.sizes)) for missed in reasons],
        schema={"why_not": pl.String, "multiple": pl.Int64, "sizes": pl.String},
        orient="row",
    )
    joined = rows.join(pl.concat([known, found], how="horizontal"), on=keys, how="left", nulls_equal=True, maintain_order="left")
    return joined.with_columns(pl.when(asked).then(name).alias(name) for name in found.columns)
