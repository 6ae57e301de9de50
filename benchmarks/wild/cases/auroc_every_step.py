"""Click prediction with a running AUROC in the log line."""

import argparse
import json
import time

import torch
import torch.nn as nn
from torch.utils.data import DataLoader, TensorDataset
from torchmetrics.classification import BinaryAUROC


class Clicks(nn.Module):
    def __init__(self, fields=12, buckets=1000, dim=8):
        super().__init__()
        self.tables = nn.ModuleList([nn.Embedding(buckets, dim) for _ in range(fields)])
        self.mlp = nn.Sequential(nn.Linear(fields * dim, 128), nn.ReLU(), nn.Linear(128, 64), nn.ReLU(), nn.Linear(64, 1))

    def forward(self, x):
        return self.mlp(torch.cat([table(x[:, i]) for i, table in enumerate(self.tables)], 1)).squeeze(1)


def train_epoch(model, loader, optimizer, auroc, args, state):
    auroc.reset()
    for x, y in loader:
        logits = model(x)
        loss = nn.functional.binary_cross_entropy_with_logits(logits, y.float())
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        auroc.update(logits.detach().sigmoid(), y)
        state["step"] += 1
        if not args.fixed:
            state["auroc"] = auroc.compute().item()
        if state["step"] == 20:
            state["start"] = time.time()
        if state["step"] % 100 == 0:
            print(f"step {state['step']} loss {loss.item():.4f} auroc {state['auroc']:.4f}")
        if state["step"] == args.steps:
            break
    state["auroc"] = auroc.compute().item()


if __name__ == "__main__":
    parser = argparse.ArgumentParser()
    parser.add_argument("--steps", type=int, default=1500)
    parser.add_argument("--fixed", action="store_true")
    args = parser.parse_args()
    torch.manual_seed(0)
    bs = 256
    x = torch.randint(0, 1000, (bs * 200, 12))
    y = (torch.rand(len(x)) < 0.3).long()
    loader = DataLoader(TensorDataset(x, y), batch_size=bs, shuffle=True)
    model, auroc = Clicks(), BinaryAUROC()
    optimizer = torch.optim.Adagrad(model.parameters(), lr=0.05)
    state = {"step": 0, "auroc": 0.5}
    while state["step"] < args.steps:
        train_epoch(model, loader, optimizer, auroc, args, state)
    seconds = time.time() - state["start"]
    samples = (args.steps - 20) * bs
    print(json.dumps({"steps": args.steps, "samples": samples, "seconds": seconds, "samples_per_s": samples / seconds}))
