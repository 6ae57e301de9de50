"""Subjects of short texts, on an Accelerate loop that keeps its whole state on disk."""

import argparse
import json
import tempfile
import time

import torch
from accelerate import Accelerator
from accelerate.utils import ProjectConfiguration
from torch import nn
from torch.utils.data import DataLoader, TensorDataset


def make_data(n=16384, words=60_000, length=24, seed=0):
    g = torch.Generator().manual_seed(seed)
    subject = torch.randint(0, 20, (n,), generator=g)
    text = (torch.rand(n, length, generator=g).pow(3) * (words - 2000)).long() + subject[:, None] * 50
    return TensorDataset(text, subject)


class SubjectModel(nn.Module):
    """Classifier over word vectors that were trained elsewhere and stay as they are."""

    def __init__(self, words=60_000, dim=256, width=1024, subjects=20):
        super().__init__()
        self.vectors = nn.EmbeddingBag(words, dim, mode="mean")
        self.vectors.weight.requires_grad_(False)
        self.body = nn.Sequential(nn.Linear(dim, width), nn.GELU(), nn.Linear(width, width), nn.GELU(), nn.Linear(width, subjects))

    def forward(self, text):
        return self.body(self.vectors(text))


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--steps", type=int, default=300)
    parser.add_argument("--batch_size", type=int, default=256)
    parser.add_argument("--checkpointing_steps", type=int, default=None)
    parser.add_argument("--fixed", action="store_true")
    args = parser.parse_args()
    every = args.checkpointing_steps or (120 if args.fixed else 4)
    torch.manual_seed(0)
    with tempfile.TemporaryDirectory(dir="/var/tmp") as folder:
        project = ProjectConfiguration(project_dir=folder, automatic_checkpoint_naming=True, total_limit=2)
        accelerator = Accelerator(cpu=True, project_config=project)
        model = SubjectModel()
        optimizer = torch.optim.AdamW([p for p in model.parameters() if p.requires_grad], lr=3e-4)
        scheduler = torch.optim.lr_scheduler.LinearLR(optimizer, 0.1, 1.0, total_iters=50)
        loader = DataLoader(make_data(), batch_size=args.batch_size, shuffle=True, drop_last=True)
        model, optimizer, loader, scheduler = accelerator.prepare(model, optimizer, loader, scheduler)
        completed, start = 0, time.perf_counter()
        while completed < args.steps:
            for text, subject in loader:
                with accelerator.accumulate(model):
                    loss = nn.functional.cross_entropy(model(text), subject)
                    accelerator.backward(loss)
                    optimizer.step()
                    scheduler.step()
                    optimizer.zero_grad()
                completed += 1
                if completed % every == 0:
                    accelerator.save_state()
                if completed == 10:
                    start = time.perf_counter()
                if completed % 60 == 0:
                    accelerator.print(f"{completed}: {loss.item():.4f}", flush=True)
                if completed == args.steps:
                    break
        seconds = time.perf_counter() - start
    samples = (args.steps - 10) * args.batch_size
    print(json.dumps({"steps": args.steps, "samples": samples, "seconds": seconds, "samples_per_s": samples / seconds}))


if __name__ == "__main__":
    main()
