"""Activity recognition from windows of wearable sensors."""

import argparse
import json
import time

import numpy as np
import torch
from torch import nn
from torch.utils.data import DataLoader, Dataset

CHANNELS = 9
ACTIVITIES = 6


class SensorWindows(Dataset):
    """Each recording is a list of frames, as the device wrote them."""

    def __init__(self, recordings=400, frames=1200, window=96, seed=11):
        rng = np.random.default_rng(seed)
        self.window = window
        self.activity = rng.integers(0, ACTIVITIES, recordings)
        self.recordings = []
        for activity in self.activity:
            phase = np.linspace(0, 8 * np.pi * (1 + activity), frames)[:, None]
            signal = np.sin(phase + rng.uniform(0, 6, CHANNELS)) + 0.5 * rng.standard_normal((frames, CHANNELS))
            self.recordings.append(list(signal.astype(np.float32)))

    def __len__(self):
        return len(self.recordings) * 10

    def __getitem__(self, idx):
        frames = self.recordings[idx // 10]
        first = (idx % 10) * 110
        return frames[first : first + self.window], int(self.activity[idx // 10])


def pad_windows(samples):
    windows, targets = zip(*samples, strict=True)
    return torch.tensor(windows), torch.tensor(targets)


def stack_windows(samples):
    windows, targets = zip(*samples, strict=True)
    return torch.from_numpy(np.array(windows)), torch.tensor(targets)


class ConvGru(nn.Module):
    def __init__(self, hidden=96):
        super().__init__()
        self.front = nn.Sequential(nn.Conv1d(CHANNELS, 64, 5, 2, 2), nn.ReLU(), nn.Conv1d(64, 96, 5, 2, 2), nn.ReLU())
        self.gru = nn.GRU(96, hidden, batch_first=True)
        self.head = nn.Linear(hidden, ACTIVITIES)

    def forward(self, x):
        x = self.front(x.transpose(1, 2)).transpose(1, 2)
        out, _ = self.gru(x)
        return self.head(out[:, -1])


def train(args):
    torch.manual_seed(args.seed)
    loader = DataLoader(
        SensorWindows(),
        batch_size=args.batch_size,
        shuffle=True,
        drop_last=True,
        collate_fn=stack_windows if args.fixed else pad_windows,
    )
    model = ConvGru()
    optim = torch.optim.Adam(model.parameters(), lr=args.lr)
    sched = torch.optim.lr_scheduler.CosineAnnealingLR(optim, args.steps)
    done, correct, t0 = 0, 0, time.time()
    while done < args.steps:
        for x, y in loader:
            optim.zero_grad()
            logits = model(x)
            loss = nn.functional.cross_entropy(logits, y)
            loss.backward()
            optim.step()
            sched.step()
            correct += (logits.argmax(1) == y).sum().item()
            done += 1
            if done == 10:
                t0 = time.time()
            if done % 50 == 0:
                print(f"it {done}: loss {loss.item():.3f} acc {correct / (50 * args.batch_size):.3f}")
                correct = 0
            if done >= args.steps:
                break
    return time.time() - t0


if __name__ == "__main__":
    p = argparse.ArgumentParser()
    p.add_argument("--steps", type=int, default=400)
    p.add_argument("--batch-size", type=int, default=64)
    p.add_argument("--lr", type=float, default=2e-3)
    p.add_argument("--seed", type=int, default=0)
    p.add_argument("--fixed", action="store_true")
    a = p.parse_args()
    spent = train(a)
    n = (a.steps - 10) * a.batch_size
    print(json.dumps({"steps": a.steps, "samples": n, "seconds": spent, "samples_per_s": n / spent}))
