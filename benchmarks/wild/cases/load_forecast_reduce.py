"""Forecast of electric load by quantiles. The training is a fold: a function of state and batch that gives the next state."""

import argparse
import functools
import itertools
import json
import math
import os
import tempfile
import time
from typing import Any, NamedTuple

import numpy as np
import torch
from torch import nn

PAST, AHEAD, METERS, BATCH = 192, 24, 40, 48
QUANTILES = torch.tensor([0.1, 0.5, 0.9])


class State(NamedTuple):
    step: int
    model: nn.Module
    optimizers: tuple
    schedules: tuple
    smooth: torch.Tensor
    best: float
    began: float
    log: Any
    swa: Any


def meters(hours=6000, seed=0):
    rng = np.random.default_rng(seed)
    t = np.arange(hours)
    day, week = rng.uniform(0.5, 2, (2, METERS, 1))
    phase = rng.uniform(0, 2 * math.pi, (METERS, 1))
    load = day * np.sin(2 * math.pi * t / 24 + phase) + week * np.cos(2 * math.pi * t / 168 + phase) + rng.normal(0, 0.3, (METERS, hours))
    clock = np.stack([np.sin(2 * math.pi * t / 24), np.cos(2 * math.pi * t / 24), t // 24 % 7 >= 5])
    return torch.from_numpy(load.astype("float32")), torch.from_numpy(clock.astype("float32"))


def windows(load, clock, first, last, seed):
    """Batches of windows for ever, each cut out by one gather; no loader."""
    g = torch.Generator().manual_seed(seed)
    reach = torch.arange(PAST + AHEAD)
    while True:
        meter = torch.randint(METERS, (BATCH, 1), generator=g)
        hours = torch.randint(first, last - PAST - AHEAD, (BATCH, 1), generator=g) + reach
        values, marks = load[meter, hours], clock[:, hours].transpose(0, 1)
        past = torch.cat([values[:, None, :PAST], marks[..., :PAST]], 1)
        yield meter.squeeze(1), past, values[:, PAST:]


class Gated(nn.Module):
    def __init__(self, width, dilation):
        super().__init__()
        self.reach = 2 * dilation
        self.conv = nn.Conv1d(width, 2 * width, 3, dilation=dilation)
        self.mix = nn.Conv1d(width, width, 1)

    def forward(self, x):
        a, b = self.conv(nn.functional.pad(x, (self.reach, 0))).chunk(2, 1)
        return x + self.mix(a.tanh() * b.sigmoid())


class Forecaster(nn.Module):
    def __init__(self, width=32):
        super().__init__()
        self.meter = nn.Embedding(METERS, width)
        self.first = nn.Conv1d(4, width, 1)
        self.body = nn.Sequential(*[Gated(width, 2**i) for i in range(5)])
        self.head = nn.Linear(width, AHEAD * 3)

    def forward(self, meter, past):
        h = self.body(self.first(past) + self.meter(meter)[..., None])
        return self.head(h[..., -1]).unflatten(1, (AHEAD, 3))


def pinball(guess, truth):
    miss = truth[..., None] - guess
    return torch.maximum(QUANTILES * miss, (QUANTILES - 1) * miss).mean()


def advance(state, batch, *, validation, every=80):
    meter, past, truth = batch
    loss = pinball(state.model(meter, past), truth)
    for optimizer in state.optimizers:
        optimizer.zero_grad()
    loss.backward()
    nn.utils.clip_grad_norm_(state.model.parameters(), 1.0)
    for optimizer, schedule in zip(state.optimizers, state.schedules):
        optimizer.step()
        schedule.step()
    step = state.step + 1
    state = state._replace(step=step, smooth=torch.lerp(state.smooth, loss.detach(), 0.05))
    if step == 10:
        state = state._replace(began=time.perf_counter())
    if step % 40 == 0:
        state.swa.update_parameters(state.model)
        state.log.write(json.dumps({"step": step, "loss": round(state.smooth.item(), 5)}) + "\n")
    if step % every == 0:
        with torch.no_grad():
            meter, past, truth = validation
            reached = pinball(state.model(meter, past), truth).item()
        print(f"step {step}: validation {reached:.4f}" + (" (best)" if reached < state.best else ""), flush=True)
        state = state._replace(best=min(reached, state.best))
    return state


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--steps", type=int, default=180)
    parser.add_argument("--fixed", action="store_true", help="the same again")
    args = parser.parse_args()
    torch.manual_seed(0)
    load, clock = meters()
    model = Forecaster()
    table = list(model.meter.parameters())
    rest = [p for name, p in model.named_parameters() if not name.startswith("meter.")]
    optimizers = torch.optim.AdamW(rest, lr=1e-3), torch.optim.SGD(table, lr=0.05)
    schedules = (
        torch.optim.lr_scheduler.OneCycleLR(optimizers[0], 3e-3, total_steps=args.steps),
        torch.optim.lr_scheduler.ConstantLR(optimizers[1], 0.5, total_iters=50),
    )
    validation = next(windows(load, clock, 5000, 6000, seed=9))
    with tempfile.TemporaryDirectory() as folder, open(os.path.join(folder, "log.jsonl"), "w") as log:
        swa = torch.optim.swa_utils.AveragedModel(model)
        state = State(0, model, optimizers, schedules, torch.tensor(0.5), math.inf, 0.0, log, swa)
        batches = itertools.islice(windows(load, clock, 0, 5000, seed=3), args.steps)
        state = functools.reduce(functools.partial(advance, validation=validation), batches, state)
    seconds = time.perf_counter() - state.began
    samples = (state.step - 10) * BATCH
    print(json.dumps({"steps": state.step, "samples": samples, "seconds": seconds, "samples_per_s": samples / seconds}))


if __name__ == "__main__":
    main()
