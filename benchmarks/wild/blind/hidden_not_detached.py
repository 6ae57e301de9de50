"""Stateful LSTM on long load curves: the state is carried over from window to window."""

import argparse
import json
import time

import torch
from torch import nn


class Forecaster(nn.Module):
    def __init__(self, features=8, hidden=128):
        super().__init__()
        self.lstm = nn.LSTM(features, hidden, batch_first=True)
        self.head = nn.Linear(hidden, features)
        self.state = None

    def reset(self):
        self.state = None

    def forward(self, x):
        out, self.state = self.lstm(x, self.state)
        return self.head(out)


def load_curves(series=32, length=12 * 48 + 1, features=8, seed=5):
    g = torch.Generator().manual_seed(seed)
    t = torch.arange(length).float()
    period = torch.rand(series, 1, features, generator=g) * 40 + 8
    curve = torch.sin(2 * torch.pi * t[None, :, None] / period)
    return curve + 0.1 * torch.randn(series, length, features, generator=g)


def train(args):
    torch.manual_seed(0)
    model = Forecaster()
    opt = torch.optim.Adam(model.parameters(), lr=1e-3)
    mse = nn.MSELoss()
    start = time.perf_counter()
    for step in range(1, args.steps + 1):
        curves = load_curves(args.series, args.windows * args.window + 1, seed=step)
        model.reset()
        opt.zero_grad()
        total = 0.0
        # One update per set of curves: the gradients of its windows are added up.
        for w in range(args.windows):
            a = w * args.window
            x, y = curves[:, a : a + args.window], curves[:, a + 1 : a + args.window + 1]
            loss = mse(model(x), y) / args.windows
            if args.fixed:
                loss.backward()
                model.state = tuple(s.detach() for s in model.state)
            else:
                loss.backward(retain_graph=True)
            total += loss.item()
        nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        opt.step()
        if step == 5:
            start = time.perf_counter()
        if step % 10 == 0:
            print(f"update {step} mse {total:.4f}", flush=True)
    return time.perf_counter() - start


if __name__ == "__main__":
    ap = argparse.ArgumentParser()
    ap.add_argument("--steps", type=int, default=120)
    ap.add_argument("--series", type=int, default=32)
    ap.add_argument("--windows", type=int, default=8)
    ap.add_argument("--window", type=int, default=24)
    ap.add_argument("--fixed", action="store_true")
    cli = ap.parse_args()
    secs = train(cli)
    count = (cli.steps - 5) * cli.series
    print(json.dumps({"steps": cli.steps, "samples": count, "seconds": secs, "samples_per_s": count / secs}))
