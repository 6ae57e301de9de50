from __future__ import annotations

from typing import Any

import pytest

from slowstep.analyses.input.place_layout import Batch, find_layout

ROWS, LENGTH, WIDTH = 8, 64, 256
# A product on all places, and what was given to it.
FLAT = (ROWS * LENGTH, WIDTH)


def _exponent(shape: tuple[int, ...], *others: tuple[int, ...], rows: int = ROWS, convolved: tuple[tuple[int, ...], ...] = ()) -> int:
    shapes: list[Any] = [*((each, False) for each in (shape, *others)), *((each, True) for each in convolved)]
    return find_layout(shapes, Batch(rows=rows, length=LENGTH, filled=None, longest=LENGTH)).exponent(shape)


@pytest.mark.parametrize(
    "shape",
    [
        (ROWS, LENGTH, WIDTH),
        (LENGTH, ROWS, WIDTH),
        (ROWS, WIDTH, LENGTH),
        (ROWS * LENGTH, WIDTH),
        (ROWS * LENGTH,),
        (ROWS, 4, LENGTH, 32),
        (ROWS, LENGTH, 4, WIDTH // 4),
        (ROWS * 4, LENGTH, 32),
        (ROWS, LENGTH - 1, WIDTH),
    ],
    ids=["samples first", "time first", "convolved", "flat", "losses", "heads", "before heads", "heads of samples", "shifted labels"],
)
def test_what_has_a_row_for_each_place_grows_with_the_length(shape: tuple[int, ...]) -> None:
    assert _exponent(shape, FLAT) == 1


@pytest.mark.parametrize("shape", [(ROWS, 6, LENGTH, LENGTH), (ROWS * 6, LENGTH, LENGTH), (6, LENGTH, LENGTH), (LENGTH, LENGTH, 4)])
def test_each_place_by_each_grows_with_the_square(shape: tuple[int, ...]) -> None:
    assert _exponent(shape, FLAT) == 2


@pytest.mark.parametrize("samples_first", [True, False])
def test_as_many_samples_as_places_make_no_square(samples_first: bool) -> None:
    assert _exponent((LENGTH, LENGTH, WIDTH), (LENGTH * LENGTH, WIDTH), rows=LENGTH) == 1


@pytest.mark.parametrize(
    ("shape", "flat"),
    [((ROWS, LENGTH, LENGTH), (ROWS * LENGTH, LENGTH)), ((ROWS, 4, LENGTH, LENGTH), (ROWS * LENGTH, 4 * LENGTH))],
    ids=["width", "width of a head"],
)
def test_as_many_features_as_places_make_no_square(shape: tuple[int, ...], flat: tuple[int, ...]) -> None:
    assert _exponent(shape, flat) == 1


@pytest.mark.parametrize(
    ("shape", "others"),
    [
        ((ROWS, LENGTH * ROWS * 2), ()),
        ((ROWS, 20, LENGTH), ((ROWS * 20, LENGTH),)),
        ((ROWS, LENGTH, 20, 20), ((ROWS * 20, WIDTH),)),
        ((ROWS * 256, 768), ((ROWS * 256, 768),)),
    ],
    ids=["a wide layer", "features of what was cut off", "as many heads", "patches of images"],
)
def test_other_dimensions_that_are_as_long_are_no_lengths(shape: tuple[int, ...], others: tuple[tuple[int, ...], ...]) -> None:
    assert _exponent(shape, *others) == 0


@pytest.mark.parametrize("shape", [(ROWS, LENGTH, 28, 28), (ROWS, 128, LENGTH, LENGTH), (ROWS, 3 + LENGTH, LENGTH, LENGTH)])
def test_pixels_and_channels_of_images_beside_texts_are_no_lengths(shape: tuple[int, ...]) -> None:
    assert _exponent(shape, FLAT, convolved=((ROWS, LENGTH, 28, 28),)) == 0


def test_channels_of_convolutions_over_sequences_are_no_lengths() -> None:
    assert _exponent((ROWS, LENGTH, 500), convolved=((ROWS, LENGTH, 500),)) == 0
    assert _exponent((ROWS, LENGTH, LENGTH), convolved=((ROWS, LENGTH, LENGTH),)) == 1
