"""EEG decoding: windows are cut out of long recordings by a table of their positions."""

import argparse
import json
import time

import numpy as np
import pandas as pd
import torch
from torch import nn
from torch.utils.data import DataLoader, Dataset

CHANNELS, WINDOW = 8, 128


class WindowsDataset(Dataset):
    def __init__(self, signal, metadata, precompute=False):
        self.signal, self.metadata = signal, metadata
        self.starts = metadata["start"].to_numpy() if precompute else None
        self.targets = metadata["target"].to_numpy() if precompute else None

    def __len__(self):
        return len(self.metadata)

    def crop(self, index):
        if self.starts is not None:
            return self.starts[index], self.targets[index]
        window = self.metadata.iloc[index]
        return window["start"], window["target"]

    def __getitem__(self, index):
        start, target = self.crop(index)
        return self.signal[:, start : start + WINDOW].copy(), int(target)


def make_data(windows=6000):
    rng = np.random.default_rng(0)
    signal = rng.standard_normal((CHANNELS, 200_000)).astype(np.float32)
    metadata = pd.DataFrame(
        {
            "subject": rng.integers(1, 10, windows),
            "session": rng.choice(["train", "test"], windows),
            "start": rng.integers(0, 200_000 - WINDOW, windows),
            "target": rng.integers(0, 4, windows),
            "quality": rng.random(windows),
        }
    )
    return signal, metadata


class ShallowNet(nn.Module):
    def __init__(self):
        super().__init__()
        self.temporal = nn.Conv1d(CHANNELS, 20, 25, stride=4)
        self.pool = nn.AvgPool1d(20, 6)
        self.head = nn.Linear(40, 4)

    def forward(self, x):
        x = self.pool(self.temporal(x).square())
        return self.head(torch.log(x.clamp_min(1e-6)).flatten(1))


class Trainer:
    def __init__(self, model, loader, max_steps):
        self.model, self.loader, self.max_steps = model, loader, max_steps
        self.optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3)
        self.step, self.began = 0, None

    def run_epoch(self):
        for x, y in self.loader:
            loss = nn.functional.cross_entropy(self.model(x), y)
            self.optimizer.zero_grad()
            loss.backward()
            self.optimizer.step()
            self.step += 1
            if self.step == 20:
                self.began = time.perf_counter()
            if self.step >= self.max_steps:
                return
        print(f"step {self.step}: loss {loss.item():.3f}")

    def fit(self):
        while self.step < self.max_steps:
            self.run_epoch()
        return time.perf_counter() - self.began


if __name__ == "__main__":
    ap = argparse.ArgumentParser()
    ap.add_argument("--steps", type=int, default=3000)
    ap.add_argument("--fixed", action="store_true")
    args = ap.parse_args()
    torch.manual_seed(0)
    loader = DataLoader(WindowsDataset(*make_data(), precompute=args.fixed), batch_size=64, shuffle=True, drop_last=True)
    seconds = Trainer(ShallowNet(), loader, args.steps).fit()
    samples = (args.steps - 20) * 64
    print(json.dumps({"steps": args.steps, "samples": samples, "seconds": seconds, "samples_per_s": samples / seconds}))
