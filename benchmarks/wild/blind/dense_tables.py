"""Click model with two large embedding tables."""

import argparse
import json
import time

import torch
from torch import nn


class ClickModel(nn.Module):
    def __init__(self, users, items, dim, sparse):
        super().__init__()
        self.user = nn.Embedding(users, dim, sparse=sparse)
        self.item = nn.Embedding(items, dim, sparse=sparse)
        nn.init.normal_(self.user.weight, std=0.02)
        nn.init.normal_(self.item.weight, std=0.02)
        self.mlp = nn.Sequential(nn.Linear(2 * dim, 256), nn.ReLU(), nn.Linear(256, 128), nn.ReLU(), nn.Linear(128, 1))

    def forward(self, user, item):
        return self.mlp(torch.cat([self.user(user), self.item(item)], dim=1)).squeeze(1)


class Recommender:
    def __init__(self, args):
        torch.manual_seed(args.seed)
        self.args = args
        self.model = ClickModel(args.users, args.items, args.dim, sparse=args.fixed)
        tables = [*self.model.user.parameters(), *self.model.item.parameters()]
        if args.fixed:
            self.optimizers = [torch.optim.SparseAdam(tables, lr=args.lr), torch.optim.Adam(self.model.mlp.parameters(), lr=args.lr)]
        else:
            self.optimizers = [torch.optim.Adam(self.model.parameters(), lr=args.lr)]
        self.loss_fn = nn.BCEWithLogitsLoss()

    def batches(self):
        g = torch.Generator().manual_seed(self.args.seed)
        n = 400_000
        # Popular users and items are seen more often.
        user = (torch.rand(n, generator=g).pow(2) * self.args.users).long()
        item = (torch.rand(n, generator=g).pow(3) * self.args.items).long()
        click = ((user * 31 + item * 17) % 10 < 3).float()
        while True:
            order = torch.randperm(n, generator=g)
            for ids in order.split(self.args.batch_size)[:-1]:
                yield user[ids], item[ids], click[ids]

    def fit(self):
        start = time.perf_counter()
        running = 0.0
        for step, (user, item, click) in enumerate(self.batches(), 1):
            loss = self.loss_fn(self.model(user, item), click)
            for optimizer in self.optimizers:
                optimizer.zero_grad()
            loss.backward()
            for optimizer in self.optimizers:
                optimizer.step()
            running += loss.item()
            if step == 10:
                start = time.perf_counter()
            if step % 50 == 0:
                print(f"step {step:5d} bce {running / 50:.4f}", flush=True)
                running = 0.0
            if step == self.args.steps:
                break
        return time.perf_counter() - start


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--steps", type=int, default=200)
    parser.add_argument("--batch-size", type=int, default=2048)
    parser.add_argument("--users", type=int, default=150_000)
    parser.add_argument("--items", type=int, default=50_000)
    parser.add_argument("--dim", type=int, default=64)
    parser.add_argument("--lr", type=float, default=1e-3)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--fixed", action="store_true")
    options = parser.parse_args()
    elapsed = Recommender(options).fit()
    seen = (options.steps - 10) * options.batch_size
    print(json.dumps({"steps": options.steps, "samples": seen, "seconds": elapsed, "samples_per_s": seen / elapsed}))
