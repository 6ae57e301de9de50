"""A deep, narrow residual MLP on tabular data, gradients clipped by total norm."""

import argparse
import json
import time

import torch
from torch import nn


class Residual(nn.Module):
    def __init__(self, width):
        super().__init__()
        self.norm = nn.LayerNorm(width)
        self.up, self.down = nn.Linear(width, width), nn.Linear(width, width)

    def forward(self, x):
        return x + self.down(torch.relu(self.up(self.norm(x))))


def clip_gradients(parameters, max_norm, per_layer):
    """Clip to max_norm, and keep each layer's norm for the log."""
    total = 0.0
    for name, p in parameters:
        if p.grad is None:
            continue
        norm = p.grad.data.norm(2).item()
        per_layer[name] = per_layer.get(name, 0.0) * 0.9 + 0.1 * norm
        total += norm**2
    total = total**0.5
    for _, p in parameters:
        scale = max_norm / max(total, max_norm, 1e-6)
        p.grad.data = torch.where(torch.isfinite(p.grad.data), p.grad.data * scale, torch.zeros_like(p.grad.data))
    return total


def main():
    ap = argparse.ArgumentParser()
    ap.add_argument("--steps", type=int, default=1200)
    ap.add_argument("--fixed", action="store_true")
    args = ap.parse_args()
    torch.manual_seed(0)
    width, bs = 32, 256
    model = nn.Sequential(nn.Linear(20, width), *[Residual(width) for _ in range(40)], nn.Linear(width, 1))
    optimizer = torch.optim.SGD(model.parameters(), lr=1e-3, momentum=0.9)
    x = torch.randn(20_000, 20)
    y = x.square().sum(1, keepdim=True).sqrt()
    named, per_layer = list(model.named_parameters()), {}
    for step in range(args.steps):
        rows = torch.randint(0, len(x), (bs,))
        loss = nn.functional.smooth_l1_loss(model(x[rows]), y[rows])
        optimizer.zero_grad()
        loss.backward()
        if args.fixed:
            norm = nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        else:
            norm = clip_gradients(named, 1.0, per_layer)
        optimizer.step()
        if step == 20:
            start = time.perf_counter()
        if step % 100 == 0:
            print(f"step {step} loss {loss.item():.4f} grad norm {float(norm):.3f}")
    seconds = time.perf_counter() - start
    samples = (args.steps - 21) * bs
    print(json.dumps({"steps": args.steps, "samples": samples, "seconds": seconds, "samples_per_s": samples / seconds}))


if __name__ == "__main__":
    main()
