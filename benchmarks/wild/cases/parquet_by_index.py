"""A classifier of token sequences that are taken out of a Parquet file by their index."""

import argparse
import json
import os
import tempfile
import time

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import torch
import torch.nn as nn
from torch.utils.data import DataLoader, Dataset, Sampler

ROWS, GROUP, TOKENS, WORDS = 8000, 500, 128, 5000


def store(path):
    rng = np.random.default_rng(2)
    tokens = pa.FixedSizeListArray.from_arrays(pa.array(rng.integers(0, WORDS, ROWS * TOKENS, dtype=np.int32)), TOKENS)
    table = pa.table({"tokens": tokens, "label": pa.array(rng.integers(0, 4, ROWS))})
    pq.write_table(table, path, row_group_size=GROUP, compression="snappy")


class Sequences(Dataset):
    def __init__(self, path, keep):
        self.parquet, self.keep, self.kept = pq.ParquetFile(path), keep, (None, None)

    def __len__(self):
        return ROWS

    def group(self, number):
        if self.keep and self.kept[0] == number:
            return self.kept[1]
        table = self.parquet.read_row_group(number)
        self.kept = number, table
        return table

    def __getitem__(self, index):
        table = self.group(index // GROUP)
        row = index % GROUP
        tokens = table["tokens"].chunk(0).slice(row, 1).flatten().to_numpy()
        return torch.from_numpy(tokens.astype(np.int64)), table["label"][row].as_py()


class ByGroup(Sampler):
    """The row groups in random order, and their rows in random order."""

    def __len__(self):
        return ROWS

    def __iter__(self):
        for group in torch.randperm(ROWS // GROUP).tolist():
            yield from (group * GROUP + torch.randperm(GROUP)).tolist()


class Classifier(nn.Module):
    def __init__(self):
        super().__init__()
        self.words = nn.EmbeddingBag(WORDS, 64, mode="mean")
        self.rest = nn.Sequential(nn.Linear(64, 256), nn.ReLU(), nn.Linear(256, 256), nn.ReLU(), nn.Linear(256, 4))

    def forward(self, tokens):
        return self.rest(self.words(tokens))


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--steps", type=int, default=300)
    parser.add_argument("--fixed", action="store_true")
    args = parser.parse_args()
    torch.manual_seed(0)
    batch_size = 32
    with tempfile.TemporaryDirectory() as folder:
        path = os.path.join(folder, "sequences.parquet")
        store(path)
        data = Sequences(path, keep=args.fixed)
        order = {"sampler": ByGroup()} if args.fixed else {"shuffle": True}
        loader = DataLoader(data, batch_size=batch_size, **order)
        model = Classifier()
        optimizer = torch.optim.Adam(model.parameters(), lr=1e-3)
        criterion = nn.CrossEntropyLoss()
        step, start = 0, 0.0
        while step < args.steps:
            for tokens, label in loader:
                optimizer.zero_grad()
                loss = criterion(model(tokens), label)
                loss.backward()
                optimizer.step()
                step += 1
                if step == 20:
                    start = time.time()
                if step % 50 == 0:
                    print("step", step, "loss", round(loss.item(), 4))
                if step == args.steps:
                    break
        seconds = time.time() - start
    samples = (args.steps - 20) * batch_size
    print(json.dumps({"steps": args.steps, "samples": samples, "seconds": seconds, "samples_per_s": samples / seconds}))


if __name__ == "__main__":
    main()
