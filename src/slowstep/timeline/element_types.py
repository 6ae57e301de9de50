"""Bytes of one element of a tensor, by the name of its type as profilers write it."""

from __future__ import annotations

from typing import Final

# Names of c10::ScalarType, and what C++ calls the same types (torch.profiler writes these for an operator's inputs).
_BYTES: Final = {
    "byte": 1, "char": 1, "bool": 1, "short": 2, "int": 4, "long": 8, "half": 2, "float": 4, "double": 8, "bfloat16": 2,
    "complexhalf": 4, "complexfloat": 8, "complexdouble": 16, "uint16": 2, "uint32": 4, "uint64": 8,
    "float8_e5m2": 1, "float8_e4m3fn": 1, "float8_e5m2fnuz": 1, "float8_e4m3fnuz": 1,
    "long int": 8, "signed char": 1, "unsigned char": 1, "complex<half>": 4, "complex<float>": 8, "complex<double>": 16,
}  # fmt: skip


def element_bytes(name: str) -> int | None:
    """Bytes of one element of a type, as `BFloat16` or `c10::BFloat16`; None for a type that is not known."""
    return _BYTES.get(name.replace("c10::", "").lower())
