"""Train a small classifier on pictures that stream from optimised chunks."""

import argparse
import json
import tempfile
import time
from functools import partial

import numpy as np
import torch
from litdata import StreamingDataLoader, StreamingDataset, optimize
from torch import nn
from torch.nn import functional as F

FULL, THUMB, PICTURES, BATCH = 256, 64, 192, 16


def shrink(picture):
    pixels = torch.as_tensor(picture).permute(2, 0, 1)[None].float()
    return F.interpolate(pixels, (THUMB, THUMB), mode="bicubic", antialias=True, align_corners=False)[0] / 255


def paint(index, small):
    rng = np.random.default_rng(index)
    label = int(rng.integers(0, 10))
    coarse = rng.integers(0, 255, (16, 16, 3), dtype=np.uint8)
    coarse[..., label % 3] //= 2
    picture = np.kron(coarse, np.ones((FULL // 16, FULL // 16, 1), dtype=np.uint8))
    return {"image": shrink(picture) if small else picture, "label": label}


class Thumbnails(StreamingDataset):
    def __getitem__(self, index):
        item = super().__getitem__(index)
        image = item["image"]
        return image if image.shape[-1] == THUMB else shrink(image), item["label"]


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.body = nn.Sequential(
            nn.Conv2d(3, 16, 3, stride=2, padding=1), nn.BatchNorm2d(16), nn.ReLU(),
            nn.Conv2d(16, 32, 3, stride=2, padding=1), nn.BatchNorm2d(32), nn.ReLU(),
            nn.Conv2d(32, 64, 3, stride=2, padding=1), nn.ReLU(), nn.AdaptiveAvgPool2d(1), nn.Flatten(),
        )
        self.head = nn.Linear(64, 10)

    def forward(self, x):
        return self.head(self.body(x))


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--steps", type=int, default=240)
    parser.add_argument("--fixed", action="store_true")
    args = parser.parse_args()
    torch.manual_seed(1)
    with tempfile.TemporaryDirectory() as folder:
        optimize(
            fn=partial(paint, small=args.fixed),
            inputs=list(range(PICTURES)),
            output_dir=folder,
            num_workers=1,
            chunk_size=32,
            verbose=False,
        )
        loader = StreamingDataLoader(Thumbnails(folder, shuffle=True), batch_size=BATCH, num_workers=0)
        net = Net()
        optimizer = torch.optim.Adam(net.parameters(), 1e-3)
        step, start = 0, 0.0
        while step < args.steps:
            for image, label in loader:
                if step == 10:
                    start = time.perf_counter()
                loss = F.cross_entropy(net(image), label)
                optimizer.zero_grad()
                loss.backward()
                optimizer.step()
                step += 1
                if step % 50 == 0:
                    print(step, round(loss.item(), 4), flush=True)
                if step >= args.steps:
                    break
        seconds = time.perf_counter() - start
    samples = (args.steps - 10) * BATCH
    print(json.dumps({"steps": args.steps, "samples": samples, "seconds": seconds, "samples_per_s": samples / seconds}))


if __name__ == "__main__":
    main()
