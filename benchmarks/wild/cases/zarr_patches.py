"""Denoising of microscopy stacks: random patches out of one Zarr volume."""

import argparse
import json
import tempfile
import time
from pathlib import Path

import numpy as np
import torch
import torch.nn as nn
import zarr
from torch.utils.data import DataLoader, Dataset

PATCH = 64


def write_volume(path, chunks):
    rng = np.random.default_rng(0)
    volume = zarr.create_array(store=str(path), shape=(16, 1024, 1024), chunks=chunks, dtype="uint16")
    for z in range(16):
        coarse = rng.integers(0, 4096, (32, 32), dtype=np.uint16)
        volume[z] = coarse.repeat(32, 0).repeat(32, 1) + rng.integers(0, 32, (1024, 1024), dtype=np.uint16)


class RandomPatches(Dataset):
    def __init__(self, path, count):
        self.volume = zarr.open_array(str(path), mode="r")
        self.count = count

    def __len__(self):
        return self.count

    def __getitem__(self, index):
        rng = np.random.default_rng(index)
        z = int(rng.integers(0, self.volume.shape[0]))
        y, x = (int(v) for v in rng.integers(0, 1024 - PATCH, 2))
        patch = self.volume[z, y : y + PATCH, x : x + PATCH].astype(np.float32) / 4096
        return torch.from_numpy(patch)[None]


class UNet(nn.Module):
    def __init__(self, width=12):
        super().__init__()
        self.down = nn.Sequential(nn.Conv2d(1, width, 3, padding=1), nn.ReLU(), nn.Conv2d(width, width, 3, padding=1), nn.ReLU())
        self.mid = nn.Sequential(nn.MaxPool2d(2), nn.Conv2d(width, 2 * width, 3, padding=1), nn.ReLU(), nn.Upsample(scale_factor=2))
        self.up = nn.Conv2d(3 * width, 1, 3, padding=1)

    def forward(self, x):
        d = self.down(x)
        return self.up(torch.cat([d, self.mid(d)], 1))


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--steps", type=int, default=120)
    parser.add_argument("--fixed", action="store_true", help="chunks as large as a patch")
    args = parser.parse_args()
    torch.manual_seed(0)
    batch_size = 8
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "stack.zarr"
        write_volume(path, (1, 128, 128) if args.fixed else (16, 512, 512))
        loader = DataLoader(RandomPatches(path, batch_size * args.steps), batch_size=batch_size)
        model = UNet()
        optimizer = torch.optim.Adam(model.parameters(), lr=1e-3)
        for i, clean in enumerate(loader):
            if i == 5:
                start = time.perf_counter()
            loss = nn.functional.l1_loss(model(clean + 0.1 * torch.randn_like(clean)), clean)
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            if i % 20 == 0:
                print(f"iteration {i}: l1 {loss.item():.4f}")
        seconds = time.perf_counter() - start
    samples = (args.steps - 5) * batch_size
    print(json.dumps({"steps": args.steps, "samples": samples, "seconds": seconds, "samples_per_s": samples / seconds}))


if __name__ == "__main__":
    main()
