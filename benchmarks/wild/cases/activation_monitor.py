"""An MLP-Mixer on small pictures, with an eye on what its activations look like."""

import argparse
import contextlib
import json
import os
import tempfile
import time

import torch
import torch.nn.functional as F
from torch import nn
from torch.utils.data import DataLoader, TensorDataset


class Block(nn.Module):
    def __init__(self, tokens, dim):
        super().__init__()
        self.norm1, self.norm2 = nn.LayerNorm(dim), nn.LayerNorm(dim)
        self.across = nn.Sequential(nn.Linear(tokens, 2 * tokens), nn.GELU(), nn.Linear(2 * tokens, tokens))
        self.within = nn.Sequential(nn.Linear(dim, 3 * dim), nn.GELU(), nn.Linear(3 * dim, dim))

    def forward(self, x):
        x = x + self.across(self.norm1(x).transpose(1, 2)).transpose(1, 2)
        return x + self.within(self.norm2(x))


class Mixer(nn.Module):
    def __init__(self, classes=10, dim=96, depth=4, patch=4, side=32):
        super().__init__()
        self.patches = nn.Conv2d(3, dim, patch, stride=patch)
        self.blocks = nn.Sequential(*[Block((side // patch) ** 2, dim) for _ in range(depth)])
        self.head = nn.Sequential(nn.LayerNorm(dim), nn.Linear(dim, classes))

    def forward(self, x):
        x = self.patches(x).flatten(2).transpose(1, 2)
        return self.head(self.blocks(x)).transpose(1, 2).mean(2)


class ActivationMonitor:
    """Norm, mean, skewness, kurtosis and peak of what each module puts out, a line of JSON each time."""

    def __init__(self, model, path, every=1):
        self.file, self.every, self.step, self.row = open(path, "w"), every, 0, {}
        self.handles = [m.register_forward_hook(self.hook_for(name or "all")) for name, m in model.named_modules()]

    def hook_for(self, name):
        def hook(module, inputs, output):
            if module.training and self.step % self.every == 0:
                self.measure(name, output.detach())

        return hook

    def measure(self, name, value):
        mean = value.mean(-1, keepdim=True)
        off = value - mean
        variance = off.pow(2).mean(-1)
        self.row[f"{name}/l2"] = value.norm(dim=-1).mean().item()
        self.row[f"{name}/mean"] = mean.mean().item()
        self.row[f"{name}/skewness"] = (off.pow(3).mean(-1) / (variance.pow(1.5) + 1e-6)).mean().item()
        self.row[f"{name}/kurtosis"] = (off.pow(4).mean(-1) / (variance.pow(2) + 1e-6)).mean().item()
        self.row[f"{name}/max"] = value.amax(-1).mean().item()

    def next(self):
        if self.row:
            self.file.write(json.dumps({"step": self.step, **self.row}) + "\n")
            self.row = {}
        self.step += 1

    def close(self):
        for handle in self.handles:
            handle.remove()
        self.file.close()


def pictures(n, seed):
    g = torch.Generator().manual_seed(seed)
    y = torch.randint(0, 10, (n,), generator=g)
    x = torch.randn(n, 3, 32, 32, generator=g)
    for i, label in enumerate(y.tolist()):
        x[i, label % 3, label : label + 12] += 0.7
    return TensorDataset(x, y)


def run(steps, every):
    torch.manual_seed(1)
    batch, done, start = 24, 0, 0.0
    loader = DataLoader(pictures(1200, 2), batch_size=batch, shuffle=True, drop_last=True)
    model = Mixer()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.05, momentum=0.9, nesterov=True)
    scheduler = torch.optim.lr_scheduler.CosineAnnealingLR(optimizer, -(-steps // len(loader)))
    with tempfile.TemporaryDirectory() as folder:
        with contextlib.closing(ActivationMonitor(model, os.path.join(folder, "activations.jsonl"), every)) as monitor:
            for epoch in range(-(-steps // len(loader))):
                total = torch.zeros(())
                for x, y in loader:
                    if done == 8:
                        start = time.perf_counter()
                    loss = F.cross_entropy(model(x), y, label_smoothing=0.1)
                    optimizer.zero_grad()
                    loss.backward()
                    optimizer.step()
                    monitor.next()
                    total += loss.detach()
                    done += 1
                    if done == steps:
                        break
                scheduler.step()
                print(f"epoch {epoch + 1}: loss {total / len(loader):.4f}")
            seconds = time.perf_counter() - start
    samples = (steps - 8) * batch
    return {"steps": steps, "loss": loss.item(), "samples": samples, "seconds": seconds, "samples_per_s": samples / seconds}


if __name__ == "__main__":
    parser = argparse.ArgumentParser()
    parser.add_argument("--steps", type=int, default=110)
    parser.add_argument("--fixed", action="store_true", help="look every 50th step")
    options = parser.parse_args()
    print(json.dumps(run(options.steps, 50 if options.fixed else 1)))
