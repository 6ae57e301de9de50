"""User embeddings from a Parquet file, one row for each sample."""

import argparse
import json
import os
import tempfile
import time

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import torch
from torch import nn
from torch.utils.data import DataLoader, Dataset

GROUP, WIDTH = 1024, 64


def write(path, rows):
    rng = np.random.default_rng(0)
    columns = {f"f{i}": rng.standard_normal(rows).astype(np.float32) for i in range(WIDTH)}
    columns["label"] = rng.integers(0, 2, rows)
    pq.write_table(pa.table(columns), path, row_group_size=GROUP, compression="zstd")


class ParquetRows(Dataset):
    def __init__(self, path):
        self.file = pq.ParquetFile(path)

    def __len__(self):
        return self.file.metadata.num_rows

    def __getitem__(self, i):
        group = self.file.read_row_group(i // GROUP, use_threads=False)
        row = group.slice(i % GROUP, 1).to_pylist()[0]
        label = row.pop("label")
        return torch.tensor(list(row.values())), torch.tensor(float(label))


class InMemoryRows(Dataset):
    def __init__(self, path):
        table = pq.read_table(path)
        self.label = torch.from_numpy(table["label"].to_numpy()).float()
        self.x = torch.from_numpy(np.stack([table[f"f{i}"].to_numpy() for i in range(WIDTH)], 1))

    def __len__(self):
        return len(self.x)

    def __getitem__(self, i):
        return self.x[i], self.label[i]


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--steps", type=int, default=120)
    parser.add_argument("--workers", type=int, default=2)
    parser.add_argument("--fixed", action="store_true")
    args = parser.parse_args()
    torch.manual_seed(0)
    bs = 32
    with tempfile.TemporaryDirectory() as folder:
        path = os.path.join(folder, "users.parquet")
        write(path, 16 * GROUP)
        dataset = (InMemoryRows if args.fixed else ParquetRows)(path)
        loader = DataLoader(dataset, batch_size=bs, shuffle=True, drop_last=True, num_workers=args.workers)
        model = nn.Sequential(nn.Linear(WIDTH, 512), nn.ReLU(), nn.Linear(512, 512), nn.ReLU(), nn.Linear(512, 1))
        optimizer = torch.optim.Adam(model.parameters(), lr=1e-3)
        step = 0
        while step < args.steps:
            for x, y in loader:
                loss = nn.functional.binary_cross_entropy_with_logits(model(x).squeeze(1), y)
                optimizer.zero_grad()
                loss.backward()
                optimizer.step()
                step += 1
                if step == 10:
                    start = time.time()
                if step % 20 == 0:
                    print(f"step {step}: {loss.item():.4f}")
                if step == args.steps:
                    break
        seconds = time.time() - start
    samples = (args.steps - 10) * bs
    print(json.dumps({"steps": args.steps, "samples": samples, "seconds": seconds, "samples_per_s": samples / seconds}))


if __name__ == "__main__":
    main()
