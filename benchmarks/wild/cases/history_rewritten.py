"""A forecaster of residual blocks (N-BEATS) for made-up sales; its history is a table one can open while it trains."""

from __future__ import annotations

import argparse
import csv
import json
import tempfile
import time
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np
import pandas as pd
import torch
from torch import Tensor, nn


@dataclass
class Settings:
    past: int = 96
    ahead: int = 24
    width: int = 128
    blocks: int = 6
    batch: int = 64
    steps: int = 550
    fixed: bool = False
    lr: float = 1e-3


class Block(nn.Module):
    def __init__(self, s: Settings):
        super().__init__()
        self.body = nn.Sequential(
            nn.Linear(s.past, s.width), nn.ReLU(), nn.Linear(s.width, s.width), nn.ReLU(), nn.Linear(s.width, s.width), nn.ReLU()
        )
        self.back, self.ahead = nn.Linear(s.width, s.past), nn.Linear(s.width, s.ahead)

    def forward(self, x: Tensor) -> tuple[Tensor, Tensor]:
        h = self.body(x)
        return x - self.back(h), self.ahead(h)


class Forecaster(nn.Module):
    def __init__(self, s: Settings):
        super().__init__()
        self.blocks = nn.ModuleList(Block(s) for _ in range(s.blocks))

    def forward(self, x: Tensor) -> Tensor:
        total = 0.0
        for block in self.blocks:
            x, part = block(x)
            total = total + part
        return total


@dataclass
class History:
    path: Path
    rows: list[dict[str, float]] = field(default_factory=list)

    def add(self, **row: float) -> None:
        self.rows.append(row)
        pd.DataFrame(self.rows).to_csv(self.path, index=False)

    def close(self) -> None:
        pass


@dataclass
class AppendedHistory(History):
    def add(self, **row: float) -> None:
        if not self.rows:
            self.file = self.path.open("w", newline="")
            self.writer = csv.DictWriter(self.file, fieldnames=list(row))
            self.writer.writeheader()
        self.rows.append(row)
        self.writer.writerow(row)

    def close(self) -> None:
        self.file.close()


class Sales:
    def __init__(self, s: Settings, seed: int = 4):
        rng = np.random.default_rng(seed)
        t = np.arange(2000)
        season = np.sin(2 * np.pi * (t[None] / rng.choice([7, 24, 48], (300, 1)) + rng.random((300, 1))))
        self.table = torch.tensor(season + 0.3 * rng.normal(size=season.shape), dtype=torch.float32)
        self.s, self.g = s, torch.Generator().manual_seed(seed)
        self.window = torch.arange(s.past + s.ahead)

    def __iter__(self):
        return self

    def __next__(self) -> tuple[Tensor, Tensor]:
        shop = torch.randint(0, 300, (self.s.batch, 1), generator=self.g)
        at = torch.randint(0, 2000 - len(self.window), (self.s.batch, 1), generator=self.g)
        both = self.table[shop, at + self.window]
        return both[:, : self.s.past], both[:, self.s.past :]


def fit(s: Settings, path: Path) -> dict:
    torch.manual_seed(0)
    model, data = Forecaster(s), Sales(s)
    optimizer = torch.optim.AdamW(model.parameters(), lr=s.lr)
    schedule = torch.optim.lr_scheduler.ExponentialLR(optimizer, 0.999)
    history = (AppendedHistory if s.fixed else History)(path)
    for step in range(s.steps):
        if step == 10:
            start = time.perf_counter()
        x, y = next(data)
        error = model(x) - y
        loss = error.abs().mean()
        optimizer.zero_grad()
        loss.backward()
        norm = nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        schedule.step()
        far = error.detach().abs().mean(0).tolist()
        history.add(step=step, loss=loss.item(), norm=norm.item(), lr=schedule.get_last_lr()[0], **{f"mae_{i + 1}": e for i, e in enumerate(far)})
    seconds = time.perf_counter() - start
    history.close()
    print(pd.read_csv(path)[["loss", "norm", "mae_1", "mae_24"]].tail(100).mean().round(4).to_dict())
    samples = (s.steps - 10) * s.batch
    return {"steps": s.steps, "loss": loss.item(), "samples": samples, "seconds": seconds, "samples_per_s": samples / seconds}


if __name__ == "__main__":
    parser = argparse.ArgumentParser()
    parser.add_argument("--steps", type=int, default=Settings.steps)
    parser.add_argument("--fixed", action="store_true", help="add a line instead of writing all again")
    settings = Settings(**vars(parser.parse_args()))
    with tempfile.TemporaryDirectory() as folder:
        print(json.dumps(fit(settings, Path(folder) / "history.csv")))
