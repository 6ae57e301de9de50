"""A small radiance field: rays in, colours out."""

import argparse
import json
import time

import torch
import torch.nn as nn
import torch.nn.functional as F


def get_rays(n, generator):
    origin = torch.rand(n, 3, generator=generator) - 0.5
    direction = F.normalize(torch.randn(n, 3, generator=generator), dim=-1)
    return origin, direction


class Field(nn.Module):
    def __init__(self, depth=6, width=64, bands=4):
        super().__init__()
        self.bands = bands
        size = 3 + 6 * bands
        self.layers = nn.ModuleList([nn.Linear(size if i == 0 else width, width) for i in range(depth)])
        self.out = nn.Linear(width, 4)

    def embed(self, x):
        parts = [x]
        for band in range(self.bands):
            parts += [torch.sin(2.0**band * x), torch.cos(2.0**band * x)]
        return torch.cat(parts, -1)

    def forward(self, x):
        h = self.embed(x)
        for layer in self.layers:
            h = F.relu(layer(h))
        return self.out(h)


def render(field, origin, direction, samples=12):
    depth = torch.linspace(0.1, 2.0, samples)
    points = origin[:, None] + direction[:, None] * depth[None, :, None]
    raw = field(points)
    alpha = 1 - torch.exp(-F.relu(raw[..., 3]) * 0.15)
    through = torch.cumprod(torch.cat([torch.ones(len(origin), 1), 1 - alpha + 1e-6], 1), 1)[:, :-1]
    return ((alpha * through)[..., None] * torch.sigmoid(raw[..., :3])).sum(1)


def train(args):
    torch.manual_seed(0)
    torch.autograd.set_detect_anomaly(not args.fixed)
    generator = torch.Generator().manual_seed(1)
    field = Field()
    optimizer = torch.optim.Adam(field.parameters(), lr=5e-4)
    for i in range(args.steps):
        if i == 20:
            t0 = time.time()
        origin, direction = get_rays(args.rays, generator)
        target = (direction + 1) / 2
        loss = F.mse_loss(render(field, origin, direction), target)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        if i % 100 == 0:
            print(f"[TRAIN] iter {i} loss {loss.item():.5f}")
    dt = time.time() - t0
    n = (args.steps - 20) * args.rays
    print(json.dumps({"steps": args.steps, "samples": n, "seconds": dt, "samples_per_s": n / dt}))


if __name__ == "__main__":
    parser = argparse.ArgumentParser()
    parser.add_argument("--steps", type=int, default=2000)
    parser.add_argument("--rays", type=int, default=64)
    parser.add_argument("--fixed", action="store_true")
    train(parser.parse_args())
