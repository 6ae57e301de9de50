"""Demand forecast from a table, row by row out of a data set, with a wide residual network."""

import argparse
import json
import time

import numpy as np
import torch
from torch import nn
from torch.utils.data import DataLoader, Dataset
from tqdm import tqdm


class Rows(Dataset):
    def __init__(self, x, y):
        self.x, self.y = x, y

    def __len__(self):
        return len(self.x)

    def __getitem__(self, index):
        return self.x[index], self.y[index]


class AllAtOnce(Rows):
    """The same rows, a batch at a time."""

    def __getitems__(self, indices):
        return list(zip(self.x[indices], self.y[indices], strict=True))


class Residual(nn.Module):
    def __init__(self, width):
        super().__init__()
        self.norm = nn.LayerNorm(width)
        self.up, self.down = nn.Linear(width, 2 * width), nn.Linear(2 * width, width)

    def forward(self, x):
        return x + self.down(torch.relu(self.up(self.norm(x))))


def make_table(rows=40_000, columns=64, seed=0):
    rng = np.random.default_rng(seed)
    x = rng.standard_normal((rows, columns)).astype(np.float32)
    y = (np.tanh(x[:, :8]).sum(1) + x[:, 8] * x[:, 9]).astype(np.float32)
    return torch.from_numpy(x), torch.from_numpy(y)


def fit(args):
    torch.manual_seed(args.seed)
    kind = AllAtOnce if args.fixed else Rows
    loader = DataLoader(kind(*make_table()), batch_size=args.batch_size, shuffle=True, drop_last=True)
    width = args.width
    model = nn.Sequential(nn.Linear(64, width), *[Residual(width) for _ in range(args.blocks)], nn.LayerNorm(width), nn.Linear(width, 1))
    optimizer = torch.optim.Adam(model.parameters(), lr=3e-4, fused=True)
    step, start = 0, time.perf_counter()
    while step < args.steps:
        bar = tqdm(loader, desc=f"epoch {step // len(loader)}", mininterval=1.0)
        for x, y in bar:
            optimizer.zero_grad()
            loss = nn.functional.smooth_l1_loss(model(x).squeeze(1), y)
            loss.backward()
            optimizer.step()
            bar.set_postfix(loss=f"{loss.item():.4f}", refresh=False)
            step += 1
            if step == 5:
                start = time.perf_counter()
            if step >= args.steps:
                break
    return time.perf_counter() - start


if __name__ == "__main__":
    p = argparse.ArgumentParser()
    p.add_argument("--steps", type=int, default=120)
    p.add_argument("--batch-size", type=int, default=768)
    p.add_argument("--width", type=int, default=512)
    p.add_argument("--blocks", type=int, default=4)
    p.add_argument("--seed", type=int, default=0)
    p.add_argument("--fixed", action="store_true", help="fetch the rows of a batch at once")
    a = p.parse_args()
    t = fit(a)
    n = (a.steps - 5) * a.batch_size
    print(json.dumps({"steps": a.steps, "samples": n, "seconds": t, "samples_per_s": n / t}))
