"""Vision transformer on small images with Accelerate: four micro-batches to an update."""

import argparse
import json
import time

import torch
from accelerate import Accelerator
from torch import nn
from torch.utils.data import DataLoader, TensorDataset


class SmallViT(nn.Module):
    def __init__(self, side=32, patch=4, dim=128, depth=3, heads=4, classes=10):
        super().__init__()
        self.patch = nn.Conv2d(3, dim, patch, patch)
        self.position = nn.Parameter(0.02 * torch.randn(1, (side // patch) ** 2, dim))
        layer = nn.TransformerEncoderLayer(dim, heads, 4 * dim, dropout=0.0, activation="gelu", batch_first=True, norm_first=True)
        self.encoder = nn.TransformerEncoder(layer, depth, norm=nn.LayerNorm(dim), enable_nested_tensor=False)
        self.head = nn.Linear(dim, classes)

    def forward(self, x):
        x = self.patch(x).flatten(2).transpose(1, 2) + self.position
        return self.head(self.encoder(x).mean(1))


def stripes(n=2048, seed=0):
    g = torch.Generator().manual_seed(seed)
    y = torch.randint(0, 10, (n,), generator=g)
    wave = torch.sin(torch.linspace(0, 6.28, 32)[None] * (1 + y[:, None]).float())
    x = wave[:, None, None, :].expand(n, 3, 32, 32) + 0.8 * torch.randn(n, 3, 32, 32, generator=g)
    return TensorDataset(x, y)


def training_function(args):
    # --fixed: one large batch in place of four micro-batches; the update is the same.
    parts = 1 if args.fixed else args.accumulate
    accelerator = Accelerator(cpu=True, gradient_accumulation_steps=parts)
    torch.manual_seed(42)
    model = SmallViT()
    optimizer = torch.optim.AdamW(model.parameters(), lr=5e-4, fused=True)
    loader = DataLoader(stripes(), batch_size=args.micro_batch * args.accumulate // parts, shuffle=True, drop_last=True)
    model, optimizer, loader = accelerator.prepare(model, optimizer, loader)
    updates, total, start = 0, 0.0, time.perf_counter()
    while updates < args.steps:
        for images, labels in loader:
            with accelerator.accumulate(model):
                loss = nn.functional.cross_entropy(model(images), labels)
                accelerator.backward(loss)
                if accelerator.sync_gradients:
                    accelerator.clip_grad_norm_(model.parameters(), 1.0)
                optimizer.step()
                optimizer.zero_grad()
            total += loss.detach()
            if accelerator.sync_gradients:
                updates += 1
                if updates == 3:
                    start = time.perf_counter()
                if updates % 10 == 0:
                    accelerator.print(f"update {updates}: mean loss {float(total) / (10 * parts):.4f}", flush=True)
                    total = 0.0
                if updates == args.steps:
                    break
    return time.perf_counter() - start


if __name__ == "__main__":
    parser = argparse.ArgumentParser()
    parser.add_argument("--steps", type=int, default=60)
    parser.add_argument("--micro_batch", type=int, default=32)
    parser.add_argument("--accumulate", type=int, default=4)
    parser.add_argument("--fixed", action="store_true")
    config = parser.parse_args()
    spent = training_function(config)
    count = (config.steps - 3) * config.micro_batch * config.accumulate
    print(json.dumps({"steps": config.steps, "samples": count, "seconds": spent, "samples_per_s": count / spent}))
