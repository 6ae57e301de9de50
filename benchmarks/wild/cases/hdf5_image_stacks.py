"""Segmentation of images that lie in stacks of twelve in an HDF5 file."""

import argparse
import json
import tempfile
import time
from pathlib import Path

import h5py
import numpy as np
import torch
import torch.nn as nn
import torch.nn.functional as F
from torch.utils.data import DataLoader, Dataset

SIDE, STACK = 96, 12


def prepare(path, n, stack):
    rng = np.random.default_rng(1)
    with h5py.File(path, "w") as h5:
        images = h5.create_dataset("images", (n, 3, SIDE, SIDE), "u1", chunks=(stack, 3, SIDE, SIDE), compression="gzip")
        masks = h5.create_dataset("masks", (n, SIDE, SIDE), "u1", chunks=(stack, SIDE, SIDE), compression="gzip")
        for begin in range(0, n, STACK):
            coarse = rng.integers(0, 256, (STACK, 3, SIDE // 8, SIDE // 8), dtype=np.uint8).repeat(8, 2).repeat(8, 3)
            images[begin : begin + STACK] = (coarse & 0xF8) | rng.integers(0, 8, coarse.shape, dtype=np.uint8)
            masks[begin : begin + STACK] = (coarse.mean(1) > 128) ^ (rng.random((STACK, SIDE, SIDE)) < 0.02)


class Segments(Dataset):
    def __init__(self, path, n):
        self.path, self.n, self.h5 = path, n, None

    def __len__(self):
        return self.n

    def __getitem__(self, index):
        if self.h5 is None:
            self.h5 = h5py.File(self.path, "r")
        image = self.h5["images"][index].astype(np.float32) / 255
        mask = self.h5["masks"][index]
        return image, mask.astype(np.int64)


class Net(nn.Module):
    def __init__(self, width=8):
        super().__init__()
        self.encode = nn.Sequential(nn.Conv2d(3, width, 3, 2, 1), nn.ReLU(), nn.Conv2d(width, 2 * width, 3, 2, 1), nn.ReLU())
        self.decode = nn.Conv2d(2 * width, 2, 1)

    def forward(self, x):
        return F.interpolate(self.decode(self.encode(x)), scale_factor=4)


def train(args, path):
    n = 2400
    prepare(path, n, 1 if args.fixed else STACK)
    data = Segments(path, n)
    loader = DataLoader(data, args.batch_size, shuffle=True, drop_last=True, num_workers=2, persistent_workers=True)
    net = Net()
    opt = torch.optim.SGD(net.parameters(), lr=0.05, momentum=0.9)
    step = 0
    while True:
        for image, mask in loader:
            loss = F.cross_entropy(net(image), mask)
            opt.zero_grad(set_to_none=True)
            loss.backward()
            opt.step()
            step += 1
            if step == 20:
                start = time.perf_counter()
            if step % 100 == 0:
                print(f"[{step}] {loss.item():.3f}")
            if step == args.steps:
                return time.perf_counter() - start


if __name__ == "__main__":
    parser = argparse.ArgumentParser()
    parser.add_argument("--steps", type=int, default=400)
    parser.add_argument("--batch-size", type=int, default=16)
    parser.add_argument("--fixed", action="store_true", help="a chunk for each image")
    args = parser.parse_args()
    torch.manual_seed(0)
    with tempfile.TemporaryDirectory() as folder:
        seconds = train(args, Path(folder) / "train.h5")
    samples = (args.steps - 20) * args.batch_size
    print(json.dumps({"steps": args.steps, "samples": samples, "seconds": seconds, "samples_per_s": samples / seconds}))
