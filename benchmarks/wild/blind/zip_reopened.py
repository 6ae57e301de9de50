"""Flower classifier that reads its pictures out of one zip archive."""

import argparse
import io
import json
import os
import tempfile
import time
import zipfile

import numpy as np
import torch
import torch.nn as nn
from PIL import Image
from torch.utils.data import DataLoader, Dataset

CLASSES = 12


def write_archive(path, count=900, side=72):
    rng = np.random.default_rng(7)
    labels = rng.integers(0, CLASSES, count)
    with zipfile.ZipFile(path, "w", zipfile.ZIP_STORED) as archive:
        for i, label in enumerate(labels):
            small = rng.integers(0, 200, (9, 9, 3), dtype=np.uint8) + np.uint8(label * 4)
            picture = Image.fromarray(small).resize((side, side), Image.BICUBIC)
            out = io.BytesIO()
            picture.save(out, "JPEG", quality=85)
            archive.writestr(f"{label:02d}/flower_{i:05d}.jpg", out.getvalue())


class ZippedFlowers(Dataset):
    def __init__(self, path, keep_open):
        self.path = path
        self.keep_open = keep_open
        self.archive = None
        with zipfile.ZipFile(path) as archive:
            self.names = sorted(archive.namelist())

    def __len__(self):
        return len(self.names)

    def load(self, name):
        if self.keep_open:
            if self.archive is None:
                self.archive = zipfile.ZipFile(self.path)
            return self.archive.read(name)
        with zipfile.ZipFile(self.path) as archive:
            return archive.read(name)

    def __getitem__(self, index):
        name = self.names[index]
        picture = Image.open(io.BytesIO(self.load(name))).convert("RGB")
        if torch.rand(()) < 0.5:
            picture = picture.transpose(Image.FLIP_LEFT_RIGHT)
        pixels = np.asarray(picture, dtype=np.float32) / 255.0 - 0.5
        return torch.from_numpy(pixels).permute(2, 0, 1), int(name[:2])


def block(cin, cout):
    return nn.Sequential(nn.Conv2d(cin, cout, 3, 2, 1, bias=False), nn.BatchNorm2d(cout), nn.ReLU(inplace=True))


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--steps", type=int, default=160)
    parser.add_argument("--batch-size", type=int, default=32)
    parser.add_argument("--fixed", action="store_true")
    args = parser.parse_args()
    torch.manual_seed(0)
    model = nn.Sequential(block(3, 32), block(32, 64), block(64, 128), nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(128, CLASSES))
    optimizer = torch.optim.SGD(model.parameters(), lr=0.05, momentum=0.9)
    criterion = nn.CrossEntropyLoss()
    with tempfile.TemporaryDirectory() as folder:
        path = os.path.join(folder, "flowers.zip")
        write_archive(path)
        loader = DataLoader(ZippedFlowers(path, args.fixed), batch_size=args.batch_size, shuffle=True, drop_last=True)
        step, start = 0, time.perf_counter()
        while step < args.steps:
            for images, targets in loader:
                loss = criterion(model(images), targets)
                optimizer.zero_grad()
                loss.backward()
                optimizer.step()
                step += 1
                if step == 10:
                    start = time.perf_counter()
                if step % 40 == 0:
                    print(f"step {step} loss {loss.item():.4f}", flush=True)
                if step == args.steps:
                    break
    seconds = time.perf_counter() - start
    samples = (args.steps - 10) * args.batch_size
    print(json.dumps({"steps": args.steps, "samples": samples, "seconds": seconds, "samples_per_s": samples / seconds}))


if __name__ == "__main__":
    main()
