"""Autoencoder of mesh patches with Accelerate; the state is saved so that a preempted job can go on."""

import argparse
import json
import os
import shutil
import tempfile
import time

import torch
from accelerate import Accelerator
from torch import nn
from torch.utils.data import DataLoader, TensorDataset


class Autoencoder(nn.Module):
    def __init__(self, codes=512):
        super().__init__()
        self.encode = nn.Sequential(nn.Linear(192, 256), nn.GELU(), nn.Linear(256, 64))
        self.codebook = nn.Embedding(codes, 64)
        self.table = nn.Embedding(120_000, 64).requires_grad_(False)  # pretrained
        self.decode = nn.Sequential(nn.Linear(64, 256), nn.GELU(), nn.Linear(256, 192))

    def forward(self, x, index):
        z = self.encode(x)
        nearest = torch.cdist(z.detach(), self.codebook.weight).argmin(1)
        return self.decode(z + self.codebook(nearest) + 0.01 * self.table(index))


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--steps", type=int, default=600)
    parser.add_argument("--checkpoint_every", type=int, default=0)
    parser.add_argument("--fixed", action="store_true")
    args = parser.parse_args()
    every = args.checkpoint_every or (300 if args.fixed else 5)

    torch.manual_seed(0)
    accelerator = Accelerator(cpu=True)
    patches = torch.randn(6400, 192)
    loader = DataLoader(TensorDataset(patches, torch.arange(6400)), batch_size=64, shuffle=True)
    model = Autoencoder()
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3)
    model, optimizer, loader = accelerator.prepare(model, optimizer, loader)
    with tempfile.TemporaryDirectory(dir="/var/tmp") as folder:
        step = 0
        while step < args.steps:
            for x, index in loader:
                loss = nn.functional.mse_loss(model(x, index), x)
                accelerator.backward(loss)
                optimizer.step()
                optimizer.zero_grad()
                step += 1
                if step == 10:
                    start = time.perf_counter()
                if step % every == 0:
                    target = os.path.join(folder, f"step_{step}")
                    accelerator.save_state(target)
                    previous = os.path.join(folder, f"step_{step - every}")
                    shutil.rmtree(previous, ignore_errors=True)
                if step % 50 == 0:
                    accelerator.print(f"step {step}: {loss.item():.4f}")
                if step == args.steps:
                    break
        seconds = time.perf_counter() - start
    samples = (args.steps - 10) * 64
    print(json.dumps({"steps": args.steps, "samples": samples, "seconds": seconds, "samples_per_s": samples / seconds}))


if __name__ == "__main__":
    main()
