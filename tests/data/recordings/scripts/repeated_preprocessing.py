"""Samples that are decompressed in every epoch, though all of them fit into memory."""

import sys
import zlib

import numpy as np
import torch
from torch import nn
from torch.utils.data import DataLoader, Dataset

PROBLEM = sys.argv[1:] == ["problem"]


class Packed(Dataset):
    def __init__(self, count):
        rows = np.random.default_rng(0).integers(0, 16, (count, 512 * 1024), dtype=np.uint8)
        self.packed = [zlib.compress(row.tobytes()) for row in rows]
        self.ready = None if PROBLEM else [self.unpack(k) for k in range(count)]

    def unpack(self, index):
        return np.frombuffer(zlib.decompress(self.packed[index]), np.uint8)

    def __len__(self):
        return len(self.packed)

    def __getitem__(self, index):
        row = self.unpack(index) if self.ready is None else self.ready[index]
        return torch.from_numpy(row[::2048].astype(np.float32)), index % 10


torch.set_num_threads(1)
model = nn.Sequential(nn.Linear(256, 512), nn.ReLU(), nn.Linear(512, 512), nn.ReLU(), nn.Linear(512, 10))
optimizer = torch.optim.SGD(model.parameters(), lr=1e-4)
loader = DataLoader(Packed(320), batch_size=8, shuffle=True, num_workers=2, persistent_workers=True)
for _ in range(10 if PROBLEM else 30):
    for inputs, targets in loader:
        optimizer.zero_grad()
        nn.functional.cross_entropy(model(inputs), targets).backward()
        optimizer.step()
