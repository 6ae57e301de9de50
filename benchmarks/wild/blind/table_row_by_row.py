"""Default risk of loans: a small network on a table that fits in memory."""

import argparse
import json
import time

import torch
from torch import nn
from torch.utils.data import BatchSampler, DataLoader, RandomSampler, TensorDataset


def loans(rows, columns=28, seed=4):
    g = torch.Generator().manual_seed(seed)
    table = torch.randn(rows, columns, generator=g)
    score = table[:, :6].sum(1) + table[:, 6] * table[:, 7] + torch.randn(rows, generator=g)
    return TensorDataset(table, (score > 1.5).float())


class RiskNet(nn.Module):
    def __init__(self, columns=28, width=128):
        super().__init__()
        self.body = nn.Sequential(
            nn.BatchNorm1d(columns),
            nn.Linear(columns, width),
            nn.SiLU(),
            nn.Dropout(0.1),
            nn.Linear(width, width),
            nn.SiLU(),
            nn.Linear(width, 1),
        )

    def forward(self, x):
        return self.body(x).squeeze(1)


def make_loader(data, args):
    if args.fixed:
        batches = BatchSampler(RandomSampler(data), batch_size=args.batch_size, drop_last=True)
        return DataLoader(data, sampler=batches, batch_size=None)
    return DataLoader(data, batch_size=args.batch_size, shuffle=True, drop_last=True)


class Fit:
    def __init__(self, args):
        torch.manual_seed(17)
        self.args = args
        self.loader = make_loader(loans(args.rows), args)
        self.model = RiskNet()
        self.optimizer = torch.optim.AdamW(self.model.parameters(), lr=2e-3, weight_decay=1e-3)
        self.criterion = nn.BCEWithLogitsLoss()
        self.step = 0
        self.start = time.perf_counter()

    def epoch(self):
        self.model.train()
        running, count = 0.0, 0
        for x, y in self.loader:
            loss = self.criterion(self.model(x), y)
            self.optimizer.zero_grad()
            loss.backward()
            self.optimizer.step()
            running, count, self.step = running + loss.item(), count + 1, self.step + 1
            if self.step == 10:
                self.start = time.perf_counter()
            if self.step >= self.args.steps:
                break
        return running / count

    def run(self):
        epoch = 0
        while self.step < self.args.steps:
            print(f"epoch {epoch} loss {self.epoch():.5f}", flush=True)
            epoch += 1
        return time.perf_counter() - self.start


if __name__ == "__main__":
    parser = argparse.ArgumentParser()
    parser.add_argument("--steps", type=int, default=350)
    parser.add_argument("--rows", type=int, default=200_000)
    parser.add_argument("--batch-size", type=int, default=4096)
    parser.add_argument("--fixed", action="store_true")
    cli = parser.parse_args()
    seconds = Fit(cli).run()
    samples = (cli.steps - 10) * cli.batch_size
    print(json.dumps({"steps": cli.steps, "samples": samples, "seconds": seconds, "samples_per_s": samples / seconds}))
