"""Undo JPEG and blur. Batches are sent into a coroutine that trains; a worker spoils the pictures while the last ones are learnt from."""

import contextlib
import io
import json
import time

import click
import numpy as np
import torch
from PIL import Image, ImageFilter
from torch import nn
from torch.utils.data import DataLoader, IterableDataset


class Spoiled(IterableDataset):
    def __init__(self, pictures, seed):
        self.pictures, self.seed = pictures, seed

    def spoil(self, picture, rng):
        if rng.random() < 0.5:
            picture = picture.transpose(Image.Transpose.FLIP_LEFT_RIGHT)
        picture = picture.rotate(90 * int(rng.integers(4)))
        bad = picture.filter(ImageFilter.BoxBlur(1)) if rng.random() < 0.4 else picture
        with io.BytesIO() as file:
            bad.save(file, "JPEG", quality=int(rng.integers(15, 45)))
            bad = Image.open(file).convert("RGB")
        return [torch.from_numpy(np.array(p, dtype="uint8")).permute(2, 0, 1) for p in (bad, picture)]

    def __iter__(self):
        rng = np.random.default_rng(self.seed)
        while True:
            for i in rng.permutation(len(self.pictures)):
                yield self.spoil(self.pictures[i], rng)


def draw(count):
    rng = np.random.default_rng(7)
    for _ in range(count):
        coarse = Image.fromarray(rng.integers(0, 255, (5, 5, 3), dtype=np.uint8)).resize((64, 64), Image.Resampling.BICUBIC)
        fine = np.asarray(coarse).copy()
        y, x = rng.integers(4, 40, 2)
        fine[y : y + 16, x : x + 16] ^= 96
        yield Image.fromarray(fine)


class Residual(nn.Module):
    def __init__(self, width):
        super().__init__()
        self.inner = nn.Sequential(nn.Conv2d(width, width, 3, padding=1), nn.PReLU(width), nn.Conv2d(width, width, 3, padding=1))

    def forward(self, x):
        return x + self.inner(x)


def training(model, accumulate, say_every):
    """Wants (bad, good) by send; gives the loss after each round of accumulation, else None."""
    optimizer = torch.optim.RAdam(model.parameters(), lr=5e-4)
    schedule = torch.optim.lr_scheduler.CosineAnnealingLR(optimizer, 200)
    lately, said, result = [], 0, None
    while True:
        try:
            bad, good = yield result
        except GeneratorExit:
            print(f"... trained on {said} batches", flush=True)
            raise
        bad, good = bad.float() / 255, good.float() / 255
        loss = (bad + model(bad) - good).abs().mean()
        (loss / accumulate).backward()
        lately.append(loss.detach())
        said, result = said + 1, None
        if said % accumulate == 0:
            optimizer.step()
            schedule.step()
            optimizer.zero_grad(set_to_none=True)
            result = lately[-1]
        if said % say_every == 0:
            print(f"... {said}: {torch.stack(lately).mean().item():.4f}", flush=True)
            lately.clear()


@torch.inference_mode()
def psnr(model, held_out):
    bad, good = (part.float() / 255 for part in held_out)
    return (-10 * (bad + model(bad) - good).pow(2).mean().log10()).item()


@click.command()
@click.option("--steps", default=190)
@click.option("--fixed", is_flag=True, help="Nothing.")
def main(steps, fixed):
    torch.manual_seed(0)
    pictures = list(draw(400))
    held_out = next(iter(DataLoader(Spoiled(pictures[:16], 99), batch_size=16)))
    stream = iter(DataLoader(Spoiled(pictures[16:], 1), batch_size=16, num_workers=1, prefetch_factor=4))
    width = 32
    model = nn.Sequential(nn.Conv2d(3, width, 3, 2, 1), Residual(width), Residual(width), Residual(width), nn.Conv2d(width, 12, 3, padding=1), nn.PixelShuffle(2))
    with contextlib.closing(training(model, accumulate=2, say_every=50)) as trainer:
        next(trainer)
        for step in range(steps):
            if step == 8:
                start = time.perf_counter()
            trainer.send(next(stream))
            if step % 100 == 99:
                print(f"PSNR {psnr(model, held_out):.2f} dB", flush=True)
        seconds = time.perf_counter() - start
    samples = (steps - 8) * 16
    print(json.dumps({"steps": steps, "samples": samples, "seconds": seconds, "samples_per_s": samples / seconds}))


if __name__ == "__main__":
    main()
