"""A first epoch that reads from the disk what later ones find in memory; else the files were read before."""

import os
import sys
import tempfile

import torch
from torch import nn
from torch.utils.data import DataLoader, Dataset

PROBLEM = sys.argv[1:] == ["problem"]
BYTES = 1_000_000


class Files(Dataset):
    def __init__(self, folder, count):
        self.paths = [f"{folder}/{k}.bin" for k in range(count)]
        for path in self.paths:
            with open(path, "wb") as file:
                file.write(os.urandom(BYTES))
                os.fsync(file.fileno())
                if PROBLEM:
                    os.posix_fadvise(file.fileno(), 0, 0, os.POSIX_FADV_DONTNEED)

    def __len__(self):
        return len(self.paths)

    def __getitem__(self, index):
        with open(self.paths[index], "rb") as file:
            content = bytearray(file.read())
        return torch.frombuffer(content, dtype=torch.uint8)[:4096].float()


torch.set_num_threads(1)
model = nn.Sequential(nn.Linear(4096, 512), nn.ReLU(), nn.Linear(512, 1))
optimizer = torch.optim.SGD(model.parameters(), lr=1e-6)
with tempfile.TemporaryDirectory(dir=".") as folder:
    loader = DataLoader(Files(folder, 800), batch_size=8, shuffle=True, num_workers=1, persistent_workers=True)
    for _ in range(6):
        for inputs in loader:
            optimizer.zero_grad()
            model(inputs).square().mean().backward()
            optimizer.step()
