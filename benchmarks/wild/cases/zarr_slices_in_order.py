"""Denoising of the slices of a Zarr volume, one after the other."""

import argparse
import json
import os
import tempfile
import time

import numpy as np
import torch
import zarr
from torch import nn
from torch.utils.data import DataLoader, Dataset

DEPTH, SIDE = 256, 256


def make_volume(folder, chunks):
    rng = np.random.default_rng(3)
    store = os.path.join(folder, "volume.zarr")
    array = zarr.create_array(store=store, shape=(DEPTH, SIDE, SIDE), chunks=chunks, dtype="uint16")
    coarse = rng.integers(0, 2000, (DEPTH // 16, SIDE // 16, SIDE // 16), dtype=np.uint16)
    volume = coarse.repeat(16, 0).repeat(16, 1).repeat(16, 2)
    array[:] = volume + rng.integers(0, 64, volume.shape, dtype=np.uint16)
    return store


class Slices(Dataset):
    def __init__(self, store):
        self.volume = zarr.open_array(store, mode="r")

    def __len__(self):
        return self.volume.shape[0]

    def load(self, z):
        return self.volume[z]

    def __getitem__(self, z):
        plane = torch.from_numpy(self.load(z).astype("float32"))
        return (plane / 2064)[None]


def main(steps, fixed):
    torch.manual_seed(0)
    with tempfile.TemporaryDirectory() as folder:
        data = Slices(make_volume(folder, (1, SIDE, SIDE) if fixed else (64, 64, 64)))
        loader = DataLoader(data, batch_size=8, shuffle=False)
        net = nn.Sequential(nn.Conv2d(1, 8, 3, padding=1), nn.ReLU(), nn.Conv2d(8, 8, 3, padding=1), nn.ReLU(), nn.Conv2d(8, 1, 1))
        optimizer = torch.optim.AdamW(net.parameters(), lr=2e-3)
        done, began = 0, None
        while done < steps:
            for clean in loader:
                noisy = clean + torch.randn_like(clean) * 0.05
                loss = (net(noisy) - clean).square().mean()
                optimizer.zero_grad()
                loss.backward()
                optimizer.step()
                done += 1
                if done == 10:
                    began = time.perf_counter()
                if done == steps:
                    break
            print(f"{done} steps, loss {loss.item():.5f}")
        return (done - 10) * 8, time.perf_counter() - began


if __name__ == "__main__":
    arguments = argparse.ArgumentParser()
    arguments.add_argument("--steps", type=int, default=48)
    arguments.add_argument("--fixed", action="store_true", help="a chunk for each slice")
    given = arguments.parse_args()
    samples, seconds = main(given.steps, given.fixed)
    print(json.dumps({"steps": given.steps, "samples": samples, "seconds": seconds, "samples_per_s": samples / seconds}))
