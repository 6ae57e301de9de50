"""Pictures of discs and squares in memory, and how batches are made of them."""

from collections.abc import Iterator

import numpy as np

PICTURES, SIZE = 256, 96
CLASSES = 3  # background, disc, square
PASSES, TAPS = 8, 7
# The levels of the model halve sizes this often.
SMALLEST_CROP, STEP_OF_CROPS = 24, 8

Batch = tuple[np.ndarray, np.ndarray]


def make_pictures(rng: np.random.Generator) -> Batch:
    """Pictures, uint8 [256, 96, 96, 3], and the class of each of their pixels, uint8 [256, 96, 96]."""
    images = rng.integers(0, 80, (PICTURES, SIZE, SIZE, 3)).astype(np.uint8)
    masks = np.zeros((PICTURES, SIZE, SIZE), np.uint8)
    rows, columns = np.mgrid[:SIZE, :SIZE]
    for image, mask in zip(images, masks, strict=True):
        for _ in range(rng.integers(2, 6)):
            row, column, radius = rng.integers(10, SIZE - 10), rng.integers(10, SIZE - 10), rng.integers(6, 16)
            shape = int(rng.integers(1, CLASSES))
            far = (rows - row) ** 2 + (columns - column) ** 2 if shape == 1 else np.maximum(abs(rows - row), abs(columns - column)) ** 2
            image[far < radius**2] = rng.integers(80, 256, 3)
            mask[far < radius**2] = shape
    return images, masks


def batches(pictures: Batch, rng: np.random.Generator, batch_size: int, smooth: str, crop: str) -> Iterator[Batch]:
    """Random pictures without end."""
    images, masks = pictures
    while True:
        chosen = rng.integers(0, PICTURES, batch_size)
        image, mask = images[chosen], masks[chosen]
        if rng.random() < 0.5:
            image, mask = image[:, :, ::-1], mask[:, :, ::-1]
        if smooth == "on":
            image = np.stack([smoothed(each) for each in image])
        yield cropped(rng, image, mask) if crop == "random" else (image, mask)


def smoothed(image: np.ndarray) -> np.ndarray:
    """Several passes over each row and column of a picture, far more than the rest of its preparation."""
    values = image.astype(np.float64)
    for _ in range(PASSES):
        for axis in (0, 1):
            values = np.mean([np.roll(values, shift - TAPS // 2, axis) for shift in range(TAPS)], axis=0)
    return values.astype(np.uint8)


def cropped(rng: np.random.Generator, image: np.ndarray, mask: np.ndarray) -> Batch:
    """A part of each, of another height and width in nearly every batch."""
    height, width = rng.integers(SMALLEST_CROP // STEP_OF_CROPS, SIZE // STEP_OF_CROPS + 1, 2) * STEP_OF_CROPS
    return image[:, :height, :width], mask[:, :height, :width]
