from __future__ import annotations

import pytest

from slowstep.timeline.shapes import elements_of, read_shapes, read_types, spelled_shapes


def test_shapes_have_one_spelling() -> None:
    assert spelled_shapes(b"[ [8,  16], [],\n[[2], [3, 4]] ]") == "[[8,16],[],[[2],[3,4]]]"
    assert read_types('["float", "Scalar"]') == ["float", "Scalar"]


@pytest.mark.parametrize(
    "text", ["", "null", "7", '"text"', "[1]", '[["a"]]', "[[1.5]]", "[[true]]", "[[9223372036854775808]]", "[[[[1]]]]", "[[1"]
)
def test_what_is_of_another_type_is_no_shape(text: str) -> None:
    assert read_shapes(text) is None


def test_elements_are_those_of_one_tensor() -> None:
    assert [elements_of(shape) for shape in ([2, 3], [], [2, -1], [[2], [3]])] == [6, 1, None, None]
