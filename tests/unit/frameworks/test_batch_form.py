"""What a batch is made of, and whether 8 bits would carry its values."""

from __future__ import annotations

import numpy as np
import pytest

from slowstep.frameworks.torch.inside._loader.batch_form import MOST_TENSORS, batch_form, fits_a_byte

RANDOM = np.random.default_rng(0)
PICTURES = RANDOM.integers(0, 256, (4, 3, 64, 64), dtype=np.uint8)


def test_an_empty_batch_has_no_tensors() -> None:
    assert batch_form([]) == {"tensors": 0, "bytes": 0, "types": {}, "spare_bytes": 0, "array_bytes": 0}


def test_tensors_are_counted_at_any_depth_and_their_bytes_by_type() -> None:
    batch = {"a": [np.zeros(2, np.float32), (np.zeros(3, np.int64),)], "b": np.zeros(1, np.float32), "name": "x"}

    form = batch_form(batch)

    assert (form["tensors"], form["bytes"], form["types"]) == (3, 36, {"float32": 12, "int64": 24})
    assert form["array_bytes"] == 36


def test_counting_ends_somewhere() -> None:
    assert batch_form([np.zeros(1)] * (MOST_TENSORS + 5))["tensors"] == MOST_TENSORS


@pytest.mark.parametrize(
    "pictures",
    [
        PICTURES.astype(np.float32),
        PICTURES.astype(np.float32) / 255,
        (PICTURES.astype(np.float32) / 255 - np.float32(0.45)) / np.float32(0.225),
        (PICTURES.astype(np.float32) / 255 - np.float32([0.485, 0.456, 0.406])[:, None, None])
        / np.float32([0.2, 0.22, 0.225])[:, None, None],
        np.eye(1000, dtype=np.float32)[RANDOM.integers(0, 1000, 16)],
        PICTURES.astype(np.int64) % 4,
    ],
    ids=["as they are", "from 0 to 1", "normalised", "normalised by channel", "one-hot", "classes as int64"],
)
def test_widened_bytes_are_found(pictures: np.ndarray) -> None:
    form = batch_form([pictures])

    assert form["spare_bytes"] == pictures.nbytes - pictures.size


@pytest.mark.parametrize(
    "values",
    [
        RANDOM.random((4, 3, 64, 64), dtype=np.float32),
        PICTURES.astype(np.float32) * RANDOM.random((4, 1, 1, 1), dtype=np.float32),
        PICTURES,
        RANDOM.integers(0, 50_000, (16, 512)),
        np.zeros((4, 3, 64, 64), np.float32),
        np.full((4, 3, 64, 64), np.nan, np.float32),
        RANDOM.integers(0, 10, 16),
        np.zeros((0, 3), np.float32),
        np.float64(3.0) * np.ones(()),
    ],
    ids=[
        "floats",
        "brightened at random",
        "bytes already",
        "token ids",
        "all zero",
        "not a number",
        "a few labels",
        "no sample",
        "one value",
    ],
)
def test_what_8_bits_would_not_carry_is_left_alone(values: np.ndarray) -> None:
    assert batch_form([values])["spare_bytes"] == 0


def test_levels_off_the_grid_are_no_bytes() -> None:
    assert not fits_a_byte([0.0, 1.0, 2.4] * 200)
    assert fits_a_byte([0.0, 1.0, 2.0] * 200)
