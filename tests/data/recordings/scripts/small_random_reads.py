"""Samples that lie in many pieces on the disk, a few bytes each, instead of side by side; the page cache holds none of it."""

import os
import sys
import tempfile

import numpy as np
import torch
from torch import nn
from torch.utils.data import DataLoader, Dataset

PROBLEM = sys.argv[1:] == ["problem"]
SAMPLES, VALUES = 20_000, 64


class Columns(Dataset):
    """Values of one sample lie far from each other (by columns), or side by side (by rows)."""

    def __init__(self, path):
        self.path = path
        np.random.default_rng(0).standard_normal((VALUES, SAMPLES), dtype=np.float32).tofile(path)
        with open(path, "rb") as file:
            os.fsync(file.fileno())

    def __len__(self):
        return 960

    def __getitem__(self, index):
        with open(self.path, "rb", buffering=0) as file:
            # As it is where the file is larger than the memory.
            os.posix_fadvise(file.fileno(), 0, 0, os.POSIX_FADV_DONTNEED)
            if PROBLEM:
                values = bytearray()
                for column in range(VALUES):
                    values += os.pread(file.fileno(), 4, (column * SAMPLES + index) * 4)
            else:
                values = bytearray(os.pread(file.fileno(), VALUES * 4, index * VALUES * 4))
        return torch.frombuffer(values, dtype=torch.float32)


torch.set_num_threads(1)
model = nn.Sequential(nn.Linear(VALUES, 256), nn.ReLU(), nn.Linear(256, 1))
optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
with tempfile.TemporaryDirectory(dir=".") as folder:
    loader = DataLoader(Columns(f"{folder}/values.bin"), batch_size=8, shuffle=True, num_workers=1, persistent_workers=True)
    for _ in range(4 if PROBLEM else 15):
        for inputs in loader:
            optimizer.zero_grad()
            model(inputs).square().mean().backward()
            optimizer.step()
