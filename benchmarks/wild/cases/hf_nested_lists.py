"""Behaviour cloning from recorded episodes: frames and actions in a Hugging Face dataset."""

import argparse
import json
import time

import numpy as np
import torch
import torch.nn.functional as F
from datasets import Array3D, Dataset, Features, Value
from torch import nn
from torch.utils.data import DataLoader


def collect(frames, fixed):
    rng = np.random.default_rng(0)
    images = rng.integers(0, 256, (frames, 3, 48, 48), dtype=np.uint8)
    actions = rng.integers(0, 6, frames)
    if fixed:
        features = Features({"image": Array3D(shape=(3, 48, 48), dtype="uint8"), "action": Value("int64")})
        return Dataset.from_dict({"image": images, "action": actions}, features=features)
    return Dataset.from_dict({"image": images.tolist(), "action": actions.tolist()})


class Policy(nn.Module):
    def __init__(self):
        super().__init__()
        self.net = nn.Sequential(
            nn.Conv2d(3, 32, 5, stride=2), nn.ReLU(),
            nn.Conv2d(32, 64, 3, stride=2), nn.ReLU(),
            nn.Conv2d(64, 64, 3), nn.ReLU(),
            nn.Flatten(), nn.LazyLinear(256), nn.ReLU(), nn.Linear(256, 6),
        )

    def forward(self, image):
        return self.net(image.float() / 255)


def cycle(loader):
    while True:
        yield from loader


def train(config):
    torch.manual_seed(0)
    dataset = collect(1500, config.fixed)
    dataset.set_format(type="torch")
    loader = DataLoader(dataset, batch_size=config.batch_size, shuffle=True, drop_last=True)
    policy = Policy()
    policy(torch.zeros(1, 3, 48, 48))
    optimizer = torch.optim.Adam(policy.parameters(), lr=3e-4)
    for step, batch in enumerate(cycle(loader), start=1):
        loss = F.cross_entropy(policy(batch["image"]), batch["action"])
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        if step == 5:
            start = time.perf_counter()
        if step % 20 == 0:
            print(f"{step:5d}  loss {loss.item():.4f}")
        if step == config.steps:
            break
    took = time.perf_counter() - start
    samples = (config.steps - 5) * config.batch_size
    print(json.dumps(dict(steps=config.steps, samples=samples, seconds=took, samples_per_s=samples / took)))


if __name__ == "__main__":
    parser = argparse.ArgumentParser()
    parser.add_argument("--steps", type=int, default=120)
    parser.add_argument("--batch_size", type=int, default=32)
    parser.add_argument("--fixed", action="store_true")
    train(parser.parse_args())
