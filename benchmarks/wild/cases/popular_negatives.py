"""Session-based recommendation: a GRU over what was looked at, against negatives drawn by popularity."""

import argparse
import json
import time

import numpy as np
import torch
from torch import nn
from torch.utils.data import DataLoader

ITEMS, LENGTH, NEGATIVES = 70_000, 20, 48


def sessions(count, seed):
    """Walks over items: from each, a near one; the first by popularity."""
    rng = np.random.default_rng(seed)
    at = (ITEMS * rng.random(count) ** 2).astype("int64")
    steps = rng.integers(-3, 9, (count, LENGTH)).cumsum(1)
    walks = np.concatenate([at[:, None], at[:, None] + steps], 1) % ITEMS
    return list(torch.from_numpy(walks))


class WithNegatives:
    def __init__(self, popularity, once, seed=5):
        self.p = popularity / popularity.sum()
        self.rng = np.random.default_rng(seed)
        self.upto = None
        if once:
            self.upto = self.p.cumsum()
            self.upto /= self.upto[-1]

    def draw(self, n):
        if self.upto is not None:
            return self.upto.searchsorted(self.rng.random(n), side="right")
        return self.rng.choice(ITEMS, size=n, p=self.p)

    def __call__(self, batch):
        seen = torch.stack(batch)
        wrong = torch.stack([torch.as_tensor(self.draw(NEGATIVES)) for _ in batch])
        return seen[:, :-1], seen[:, 1:], wrong


class Gru4(nn.Module):
    def __init__(self, width=64, hidden=160):
        super().__init__()
        self.items = nn.Embedding(ITEMS, width, sparse=True)
        self.out = nn.Embedding(ITEMS, width, sparse=True)
        self.gru = nn.GRU(width, hidden, batch_first=True)
        self.back = nn.Sequential(nn.Linear(hidden, hidden), nn.GELU(), nn.Linear(hidden, width))
        for table in (self.items, self.out):
            nn.init.normal_(table.weight, std=0.1)

    def forward(self, seen, following, wrong):
        h = self.back(self.gru(self.items(seen))[0])
        right = (h * self.out(following)).sum(-1, keepdim=True)
        others = h @ self.out(wrong).transpose(1, 2)
        return torch.cat([right, others], 2)


def batches(loader, steps):
    left = steps
    while left:
        for batch in loader:
            yield batch
            left -= 1
            if not left:
                return


def run(steps, once):
    popularity = 1.0 / np.arange(1, ITEMS + 1) ** 0.75
    loader = DataLoader(sessions(6400, 0), batch_size=64, shuffle=True, drop_last=True, collate_fn=WithNegatives(popularity, once))
    model = Gru4()
    dense = [*model.gru.parameters(), *model.back.parameters()]
    tables = [model.items.weight, model.out.weight]
    optimizers = [torch.optim.Adam(dense, lr=1e-3), torch.optim.Adagrad(tables, lr=0.05)]
    clock, loss_sum = None, torch.zeros(())
    for i, (seen, following, wrong) in enumerate(batches(loader, steps), 1):
        scores = model(seen, following, wrong)
        loss = nn.functional.cross_entropy(scores.flatten(0, 1), torch.zeros(scores.shape[0] * scores.shape[1], dtype=torch.long))
        for optimizer in optimizers:
            optimizer.zero_grad()
        loss.backward()
        for optimizer in optimizers:
            optimizer.step()
        loss_sum += loss.detach()
        if i == 10:
            clock = time.monotonic()
        if i % 75 == 0:
            print(f"{i:>5} {loss_sum.item() / 75:.4f}", flush=True)
            loss_sum.zero_()
    return time.monotonic() - clock


if __name__ == "__main__":
    parser = argparse.ArgumentParser()
    parser.add_argument("--steps", type=int, default=200)
    parser.add_argument("--fixed", action="store_true", help="add the popularities up once")
    options = parser.parse_args()
    torch.manual_seed(1)
    seconds = run(options.steps, options.fixed)
    samples = (options.steps - 10) * 64
    print(json.dumps({"steps": options.steps, "samples": samples, "seconds": seconds, "samples_per_s": samples / seconds}))
