"""A small image segmentation, healthy or with one problem: the six experiments of the case study that slowstep grew from, in PyTorch.

python cases.py --case NAME [--fixed] [--steps N] [--size tiny]. Prints `finished steps=... samples=... seconds=...`.
The case study is "TensorFlow Performance Analysis" by Chaim Rand (2020): its samples/s, on one V100, are in `STUDY`.
"""

from __future__ import annotations

import argparse
import itertools
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory

import numpy as np
import torch
from torch import nn
from torch.utils.data import DataLoader, Dataset

# What the case study measured, samples/s.
STUDY = {
    "base": 100,
    "small-batch": 40,
    "throttled-input": 22,
    "heavy-preprocessing": 25,
    "large-copies": 84,
    "wide-convolution": 96,
    "heavy-callback": 43,
}
CASES = tuple(STUDY)
CLASSES = 16
SMALL_BATCH = 2
# Of ten records nine are dropped: as many samples take ten times the bytes.
RECORDS_PER_SAMPLE = 10
COPIES_PER_SAMPLE = 10
# The study's network was used to 14.9 of the 33.4 GB/min that it could do.
STUDY_HEADROOM = 33.4 / 14.9
# Its overloaded preprocessing let through a quarter of the base's samples.
STUDY_PREPROCESSING = 0.25
IMAGES_STORED = 64


@dataclass(frozen=True, kw_only=True)
class Settings:
    """One training. `cap_per_s` are the records that all workers together may read, `rounds` the convolutions for each sample."""

    case: str = "base"
    batch_size: int = 64
    side: int = 128
    width: int = 64
    layers: int = 8
    workers: int = 8
    device: str = "cuda"
    cap_per_s: float = 0.0
    rounds: int = 1

    def without_problem(self) -> Settings:
        """The same training with its problem removed."""
        return Settings(**{**vars_of(self), "case": "base"})


TINY = Settings(batch_size=8, side=16, width=4, layers=1, workers=1, device="cpu")


def vars_of(settings: Settings) -> dict[str, object]:
    """The fields as keywords."""
    return {name: getattr(settings, name) for name in Settings.__dataclass_fields__}


class Frames(Dataset[tuple[torch.Tensor, torch.Tensor]]):
    """Frames and their masks, kept in memory as bytes."""

    def __init__(self, settings: Settings) -> None:
        self.settings = settings
        made = np.random.default_rng(0)
        self.frames = made.integers(0, 255, (32, 3, settings.side, settings.side), dtype=np.uint8)
        self.masks = made.integers(0, CLASSES, (32, settings.side, settings.side), dtype=np.int64)

    def __len__(self) -> int:
        return 1_000_000

    def __getitem__(self, index: int) -> tuple[torch.Tensor, torch.Tensor]:
        settings = self.settings
        if settings.cap_per_s:
            records = RECORDS_PER_SAMPLE if settings.case == "throttled-input" else 1
            time.sleep(records * max(settings.workers, 1) / settings.cap_per_s)
        frame = torch.from_numpy(self.frames[index % 32])
        if settings.case == "heavy-preprocessing":
            frame = convolve(frame, settings.rounds)
        if settings.case == "large-copies":
            frame = frame.repeat(COPIES_PER_SAMPLE, 1, 1)
        return frame, torch.from_numpy(self.masks[index % 32])


def convolve(frame: torch.Tensor, rounds: int) -> torch.Tensor:
    """A separable convolution of 7 x 7 on a frame, so many times."""
    values, kernel = frame[None].float(), torch.full((3, 1, 7, 7), 1 / 49)
    for _ in range(rounds):
        values = nn.functional.conv2d(values, kernel, padding=3, groups=3)
    return values[0].to(torch.uint8)


class Segmentation(nn.Module):
    """Convolutions of 3 x 3; in the case `wide-convolution` one of 15 x 15 behind them."""

    def __init__(self, settings: Settings) -> None:
        super().__init__()
        width = settings.width
        hidden = [nn.Sequential(nn.Conv2d(width, width, 3, padding=1), nn.ReLU()) for _ in range(settings.layers)]
        self.body = nn.Sequential(nn.Conv2d(3, width, 3, padding=1), nn.ReLU(), *hidden, nn.Conv2d(width, CLASSES, 1))
        self.wide = nn.Conv2d(CLASSES, CLASSES, 15, padding=7) if settings.case == "wide-convolution" else nn.Identity()

    def forward(self, frames: torch.Tensor) -> torch.Tensor:
        logits: torch.Tensor = self.wide(self.body(frames))
        return logits


def store_images(folder: Path, side: int) -> None:
    """Random images, stored one by one."""
    for number in range(IMAGES_STORED):
        np.save(folder / f"{number}.npy", np.random.default_rng(number).integers(0, 255, (side, side, 3), dtype=np.uint8))


def train(settings: Settings) -> Iterator[int]:
    """Train for ever; the samples of each step."""
    torch.manual_seed(0)
    size = SMALL_BATCH if settings.case == "small-batch" else settings.batch_size
    on_device = settings.device != "cpu"
    loader = DataLoader(
        Frames(settings), batch_size=size, num_workers=settings.workers, pin_memory=on_device and settings.case != "large-copies"
    )
    model = Segmentation(settings).to(settings.device)
    optimizer = torch.optim.Adam(model.parameters(), lr=1e-4)
    with TemporaryDirectory() as folder:
        for number, (frames, masks) in enumerate(loader):
            frames = frames.to(settings.device, non_blocking=True)[:, :3].float().div(255)
            loss = nn.functional.cross_entropy(model(frames), masks.to(settings.device, non_blocking=True))
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            if settings.case == "heavy-callback":
                store_images(Path(folder), settings.side)
            if number % 50 == 0:
                loss.item()
            yield size


def wait_for(device: str) -> None:
    """Until the device has done all that it was given."""
    if device != "cpu":
        torch.cuda.synchronize()


def main() -> None:
    """Train for some steps and say how fast."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--case", choices=CASES, default="base")
    parser.add_argument("--fixed", action="store_true", help="without the problem")
    parser.add_argument("--steps", type=int, default=80)
    parser.add_argument("--size", choices=("full", "tiny"), default="full")
    parser.add_argument("--cap-per-s", type=float, default=0.0, help="records that may be read in a second")
    parser.add_argument("--rounds", type=int, default=1, help="convolutions in the case heavy-preprocessing")
    arguments = parser.parse_args()
    size = TINY if arguments.size == "tiny" else Settings()
    device = "cuda" if torch.cuda.is_available() else "cpu"
    given = {"case": arguments.case, "cap_per_s": arguments.cap_per_s, "rounds": arguments.rounds, "device": device}
    settings = Settings(**{**vars_of(size), **given})
    began = time.perf_counter()
    samples = sum(itertools.islice(train(settings.without_problem() if arguments.fixed else settings), arguments.steps))
    wait_for(device)
    print(f"finished steps={arguments.steps} samples={samples} seconds={time.perf_counter() - began:.3f}")


if __name__ == "__main__":
    main()
