"""Momentum contrast on blobs: a queue of keys, two views from a worker, and observers that look when they like."""

import argparse
import collections
import copy
import json
import time

import torch
import torch.nn.functional as F
from torch import nn
from torch.utils.data import DataLoader, Dataset


class TwoViews(Dataset):
    """Pictures of 40 x 40; a view is a window of 32 x 32, perhaps mirrored, brighter or darker."""

    def __init__(self, n):
        g = torch.Generator().manual_seed(0)
        self.pictures = F.interpolate(torch.rand(n, 3, 10, 10, generator=g), scale_factor=4, mode="bilinear")

    def __len__(self):
        return len(self.pictures)

    def view(self, x):
        top, left = torch.randint(0, 9, (2,)).tolist()
        x = x[:, top : top + 32, left : left + 32]
        if torch.rand(()) < 0.5:
            x = x.flip(2)
        return x * (0.7 + 0.6 * torch.rand(3, 1, 1))

    def __getitem__(self, i):
        return self.view(self.pictures[i]), self.view(self.pictures[i])


def conv(i, o, stride):
    return [nn.Conv2d(i, o, 3, stride, 1, bias=False), nn.BatchNorm2d(o), nn.ReLU(inplace=True)]


def encoder():
    return nn.Sequential(
        *conv(3, 48, 2), *conv(48, 96, 1), *conv(96, 128, 2), *conv(128, 128, 1), nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(128, 64)
    )


class MoCo(nn.Module):
    def __init__(self, size=1024):
        super().__init__()
        self.query = encoder()
        self.key = copy.deepcopy(self.query).requires_grad_(False)
        self.register_buffer("queue", F.normalize(torch.randn(64, size), dim=0))
        self.at = 0

    def forward(self, a, b):
        q = F.normalize(self.query(a), dim=1)
        with torch.no_grad():
            torch._foreach_lerp_(list(self.key.parameters()), list(self.query.parameters()), 0.01)
            k = F.normalize(self.key(b), dim=1)
        logits = torch.cat([(q * k).sum(1, keepdim=True), q @ self.queue.clone()], 1) / 0.1
        self.queue[:, self.at : self.at + len(k)] = k.T
        self.at = (self.at + len(k)) % self.queue.shape[1]
        return F.cross_entropy(logits, torch.zeros(len(q), dtype=torch.long))


class Subject:
    def __init__(self):
        self.observers = collections.defaultdict(list)

    def on(self, what, every=1):
        def keep(f):
            self.observers[what].append((every, f))
            return f

        return keep

    def tell(self, what, step, **news):
        for every, observer in self.observers[what]:
            if step % every == 0:
                observer(step, **news)


def forever(loader):
    while True:
        yield from loader


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--steps", type=int, default=220)
    parser.add_argument("--fixed", action="store_true", help="nothing to fix")
    args = parser.parse_args()
    torch.manual_seed(0)
    batch = 32
    model, training = MoCo(), Subject()
    optimizer = torch.optim.SGD(model.query.parameters(), lr=0.03, momentum=0.9, weight_decay=1e-4)
    recent = collections.deque(maxlen=50)

    @training.on("batch")
    def remember(step, loss):
        recent.append(loss)

    @training.on("batch", every=50)
    def say(step, loss):
        print(f"after {step} steps: {torch.stack(list(recent)).mean().item():.4f}", flush=True)

    @training.on("batch", every=100)
    def spread(step, loss):
        print(f"spread of the queue: {model.queue.std(1).mean().item():.4f}", flush=True)

    loader = DataLoader(TwoViews(1920), batch, shuffle=True, drop_last=True, num_workers=1, persistent_workers=True, prefetch_factor=4)
    for step, (a, b) in enumerate(forever(loader), 1):
        loss = model(a, b)
        optimizer.zero_grad(set_to_none=True)
        loss.backward()
        optimizer.step()
        training.tell("batch", step, loss=loss.detach())
        if step == 10:
            start = time.perf_counter()
        if step >= args.steps:
            break
    seconds = time.perf_counter() - start
    samples = (args.steps - 10) * batch
    print(json.dumps({"steps": args.steps, "loss": loss.item(), "samples": samples, "seconds": seconds, "samples_per_s": samples / seconds}))


if __name__ == "__main__":
    main()
