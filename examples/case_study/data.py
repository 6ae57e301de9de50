"""Pictures of shapes as JPEG files, their masks as PNG files, and the dataset that reads them."""

import io
import shutil
import tempfile
import time
from pathlib import Path

import numpy as np
import torch
from PIL import Image, ImageDraw
from torch.utils.data import Dataset

PAIRS = 278  # with batches of 3, 4, 8, 16, 24 and 32 an epoch ends with a smaller one of several samples, as in most trainings
FILE_SIZE = 320
INPUT_SIZE = 56
CLASSES = 4  # background, disc, square, triangle


def make_files(folder: Path, pairs: int = PAIRS, seed: int = 0) -> Path:
    """Return the folder with the pictures, made on the first call; runs started together do not disturb each other."""
    done = folder / f"shapes-{FILE_SIZE}-{pairs}-{seed}"
    if done.is_dir():
        return done
    folder.mkdir(parents=True, exist_ok=True)
    unfinished = Path(tempfile.mkdtemp(dir=folder, prefix="unfinished-"))
    rng = np.random.default_rng(seed)
    for index in range(pairs):
        image, mask = draw_pair(rng)
        image.save(unfinished / f"{index:04}.jpg", quality=90)
        mask.save(unfinished / f"{index:04}.png")
    try:
        unfinished.rename(done)
    except OSError:  # another run was faster
        shutil.rmtree(unfinished)
    return done


def draw_pair(rng: np.random.Generator) -> tuple[Image.Image, Image.Image]:
    noise = rng.integers(0, 256, (FILE_SIZE // 8, FILE_SIZE // 8, 3), dtype=np.uint8)
    image = Image.fromarray(noise).resize((FILE_SIZE, FILE_SIZE), Image.Resampling.BICUBIC)
    mask = Image.new("L", image.size)
    on_image, on_mask = ImageDraw.Draw(image), ImageDraw.Draw(mask)
    for _ in range(rng.integers(2, 6)):
        x, y = (int(v) for v in rng.integers(20, FILE_SIZE - 20, 2))
        radius = int(rng.integers(12, 40))
        color = tuple(int(v) for v in rng.integers(0, 256, 3))
        shape = int(rng.integers(1, CLASSES))
        draw_shape(on_image, shape, x, y, radius, color)
        draw_shape(on_mask, shape, x, y, radius, shape)
    return image, mask


def draw_shape(draw: ImageDraw.ImageDraw, shape: int, x: int, y: int, radius: int, fill: int | tuple[int, ...]) -> None:
    box = (x - radius, y - radius, x + radius, y + radius)
    if shape == 1:
        draw.ellipse(box, fill=fill)
    elif shape == 2:
        draw.rectangle(box, fill=fill)
    else:
        draw.polygon([(x, y - radius), (x - radius, y + radius), (x + radius, y + radius)], fill=fill)


class ShapesDataset(Dataset):
    """(image, mask) as float32 [3, 56, 56] and int64 [56, 56] arrays, augmented."""

    def __init__(self, folder: Path, augment, read_latency_ms: float = 0.0) -> None:
        self.images = sorted(folder.glob("*.jpg"))
        self.augment = augment
        self.read_latency_s = read_latency_ms / 1000

    def __len__(self) -> int:
        return len(self.images)

    def __getitem__(self, index: int) -> tuple[np.ndarray, np.ndarray]:
        path = self.images[index]
        image = Image.open(io.BytesIO(self.read_bytes(path))).resize((INPUT_SIZE, INPUT_SIZE), Image.Resampling.BILINEAR)
        mask = Image.open(io.BytesIO(self.read_bytes(path.with_suffix(".png")))).resize(image.size, Image.Resampling.NEAREST)
        pixels = np.asarray(image, dtype=np.float32).transpose(2, 0, 1) / 255
        pixels, labels = self.augment(pixels, np.asarray(mask, dtype=np.int64))
        return np.ascontiguousarray(pixels), np.ascontiguousarray(labels)

    def read_bytes(self, path: Path) -> bytes:
        # Not a real network file system: the sleep stands for its round trip, and gives the core away as a real one does.
        if self.read_latency_s:
            time.sleep(self.read_latency_s)
        return path.read_bytes()


def augment_default(pixels: np.ndarray, labels: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    pixels, labels = random_flip(pixels, labels)
    return darken_corners(pixels, strength=float(torch.rand(()))), labels


def augment_slow(pixels: np.ndarray, labels: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    pixels, labels = random_flip(pixels, labels)
    return darken_corners_pixel_by_pixel(pixels, strength=float(torch.rand(()))), labels


def random_flip(pixels: np.ndarray, labels: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    if torch.rand(()) < 0.5:
        return pixels[:, :, ::-1], labels[:, ::-1]
    return pixels, labels


def darken_corners(pixels: np.ndarray, strength: float) -> np.ndarray:
    square = np.linspace(-1, 1, INPUT_SIZE) ** 2
    light = 1 - strength * np.minimum(square[:, None] + square[None, :], 1)
    return pixels * light.astype(np.float32)


def darken_corners_pixel_by_pixel(pixels: np.ndarray, strength: float) -> np.ndarray:
    """The same as `darken_corners`, as it is often written first."""
    square = (np.linspace(-1, 1, INPUT_SIZE) ** 2).tolist()
    darkened = np.empty_like(pixels)
    for y in range(INPUT_SIZE):
        for x in range(INPUT_SIZE):
            light = 1 - strength * min(square[y] + square[x], 1)
            darkened[:, y, x] = pixels[:, y, x] * light
    return darkened


def collate_slow(samples: list[tuple[np.ndarray, np.ndarray]]) -> tuple[torch.Tensor, torch.Tensor]:
    """The same as the default collate, by way of Python lists."""
    images = [torch.tensor([[[float(value) for value in row] for row in channel] for channel in image]) for image, _ in samples]
    masks = [torch.tensor(mask.tolist()) for _, mask in samples]
    return torch.stack(images), torch.stack(masks)
