"""Language modelling with batches of similar length, grouped anew for every pass."""

import argparse
import json
import time

import numpy as np
import torch
from datasets import Dataset
from torch import nn
from torch.utils.data import DataLoader, Sampler


class LengthGrouped(Sampler):
    """All rows sorted by length within large random blocks, so that a batch needs little padding; a pass trains on some of the batches."""

    def __init__(self, lengths, batch_size, per_pass, generator, block=4000):
        self.lengths, self.batch_size, self.per_pass = lengths, batch_size, per_pass
        self.generator, self.block = generator, block

    def __len__(self):
        return self.per_pass

    def __iter__(self):
        rows = torch.randperm(len(self.lengths), generator=self.generator).tolist()
        grouped = []
        for first in range(0, len(rows), self.block):
            grouped += sorted(rows[first : first + self.block], key=lambda i: self.lengths[i], reverse=True)
        batches = [grouped[i : i + self.batch_size] for i in range(0, len(grouped), self.batch_size)]
        for b in torch.randperm(len(batches), generator=self.generator)[: self.per_pass].tolist():
            yield batches[b]


def make_dataset(n):
    rng = np.random.default_rng(0)
    lengths = rng.integers(8, 40, n)
    tokens = [rng.integers(1, 256, length).tolist() for length in lengths]
    return Dataset.from_dict({"input_ids": tokens, "length": lengths.tolist()})


def pad(rows):
    longest = max(len(row["input_ids"]) for row in rows)
    return torch.tensor([row["input_ids"] + [0] * (longest - len(row["input_ids"])) for row in rows])


class GRULM(nn.Module):
    def __init__(self):
        super().__init__()
        self.embed = nn.Embedding(256, 64, padding_idx=0)
        self.rnn = nn.GRU(64, 96, batch_first=True)
        self.out = nn.Linear(96, 256)

    def forward(self, ids):
        return self.out(self.rnn(self.embed(ids))[0])


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--steps", type=int, default=600)
    parser.add_argument("--fixed", action="store_true")
    args = parser.parse_args()
    torch.manual_seed(0)
    bs = 32
    dataset = make_dataset(20_000)
    lengths = list(dataset["length"]) if args.fixed else dataset["length"]
    sampler = LengthGrouped(lengths, bs, per_pass=50, generator=torch.Generator().manual_seed(0))
    loader = DataLoader(dataset, batch_sampler=sampler, collate_fn=pad)
    model = GRULM()
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3)
    step = 0
    while step < args.steps:
        for ids in loader:
            loss = nn.functional.cross_entropy(model(ids[:, :-1]).transpose(1, 2), ids[:, 1:], ignore_index=0)
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            step += 1
            if step == 10:
                start = time.perf_counter()
            if step == args.steps:
                break
        print(f"pass ended at step {step}, loss {loss.item():.4f}")
    seconds = time.perf_counter() - start
    samples = (args.steps - 10) * bs
    print(json.dumps({"steps": args.steps, "samples": samples, "seconds": seconds, "samples_per_s": samples / seconds}))


if __name__ == "__main__":
    main()
