"""Generative adversarial network for one-channel textures, two optimizers, every loss logged."""

import argparse
import csv
import json
import os
import tempfile
import time

import torch
from torch import nn


class Generator(nn.Module):
    def __init__(self, latent=128, width=1024, pixels=784):
        super().__init__()
        self.latent = latent
        self.net = nn.Sequential(
            nn.Linear(latent, width), nn.LeakyReLU(0.2), nn.Linear(width, width), nn.LeakyReLU(0.2), nn.Linear(width, pixels), nn.Tanh()
        )

    def forward(self, n):
        return self.net(torch.randn(n, self.latent))


class Critic(nn.Module):
    def __init__(self, width=1024, pixels=784):
        super().__init__()
        self.net = nn.Sequential(
            nn.Linear(pixels, width), nn.LeakyReLU(0.2), nn.Linear(width, width), nn.LeakyReLU(0.2), nn.Linear(width, 1)
        )

    def forward(self, x):
        return self.net(x).squeeze(1)


class StepLog:
    """Rows are kept and written out a hundred at a time."""

    def __init__(self, path, flush_every=100):
        self.file = open(path, "w", newline="")  # noqa: SIM115
        self.writer = csv.writer(self.file)
        self.flush_every = flush_every
        self.rows = []

    def add(self, step, **values):
        self.rows.append([step, *values.values()])
        if len(self.rows) >= self.flush_every:
            self.flush()

    def flush(self):
        self.writer.writerows(self.rows)
        self.file.flush()
        self.rows.clear()

    def close(self):
        self.flush()
        self.file.close()


class GanTrainer:
    def __init__(self, data, batch_size, log):
        self.data, self.batch_size, self.log = data, batch_size, log
        self.generator, self.critic = Generator(), Critic()
        self.g_optimizer = torch.optim.Adam(self.generator.parameters(), lr=2e-4, betas=(0.5, 0.999))
        self.d_optimizer = torch.optim.Adam(self.critic.parameters(), lr=2e-4, betas=(0.5, 0.999))
        self.bce = nn.BCEWithLogitsLoss()

    def critic_step(self, real):
        with torch.no_grad():
            fake = self.generator(len(real))
        scores = self.critic(torch.cat([real, fake]))
        target = torch.cat([torch.ones(len(real)), torch.zeros(len(real))])
        loss = self.bce(scores, target)
        self.d_optimizer.zero_grad()
        loss.backward()
        self.d_optimizer.step()
        return loss

    def generator_step(self):
        self.critic.requires_grad_(False)
        loss = self.bce(self.critic(self.generator(self.batch_size)), torch.ones(self.batch_size))
        self.g_optimizer.zero_grad()
        loss.backward()
        self.g_optimizer.step()
        self.critic.requires_grad_(True)
        return loss

    def train(self, steps):
        start = time.perf_counter()
        for step in range(1, steps + 1):
            real = self.data[torch.randint(0, len(self.data), (self.batch_size,))]
            d_loss, g_loss = self.critic_step(real), self.generator_step()
            if self.log is not None:
                self.log.add(step, d_loss=d_loss.item(), g_loss=g_loss.item())
            if step == 5:
                start = time.perf_counter()
            if step % 25 == 0:
                print(f"[{step}/{steps}] D {d_loss.item():.3f} G {g_loss.item():.3f}", flush=True)
        return time.perf_counter() - start


def textures(n=4096, seed=8):
    g = torch.Generator().manual_seed(seed)
    grid = torch.linspace(0, 6.28, 28)
    fx, fy = torch.rand(n, 1, 1, generator=g) * 4, torch.rand(n, 1, 1, generator=g) * 4
    return torch.sin(fx * grid[None, :, None] + fy * grid[None, None, :]).reshape(n, 784)


if __name__ == "__main__":
    ap = argparse.ArgumentParser()
    ap.add_argument("--steps", type=int, default=150)
    ap.add_argument("--batch-size", type=int, default=512)
    ap.add_argument("--fixed", action="store_true", help="without the log of every step")
    opts = ap.parse_args()
    torch.manual_seed(0)
    with tempfile.TemporaryDirectory() as folder:
        step_log = None if opts.fixed else StepLog(os.path.join(folder, "losses.csv"))
        took = GanTrainer(textures(), opts.batch_size, step_log).train(opts.steps)
        if step_log is not None:
            step_log.close()
    total = (opts.steps - 5) * opts.batch_size
    print(json.dumps({"steps": opts.steps, "samples": total, "seconds": took, "samples_per_s": total / took}))
