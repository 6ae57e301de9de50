from __future__ import annotations

import pytest

from slowstep.timeline.element_types import element_bytes


@pytest.mark.parametrize(
    ("name", "size"),
    [
        ("BFloat16", 2),
        ("c10::BFloat16", 2),
        ("Long", 8),
        ("long int", 8),
        ("c10::complex<float>", 8),
        ("c10::complex<c10::Half>", 4),
        ("Float8_e4m3fn", 1),
        ("unsigned char", 1),
        ("std::string", None),
        ("", None),
    ],
)
def test_a_type_has_one_size_however_it_is_written(name, size):
    assert element_bytes(name) == size
