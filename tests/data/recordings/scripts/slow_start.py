"""An index of the data set that is made anew at every start, and takes half a minute."""

import hashlib
import sys

import torch
from torch import nn
from torch.utils.data import DataLoader, Dataset

PROBLEM = sys.argv[1:] == ["problem"]


class Indexed(Dataset):
    def __init__(self):
        self.index = self.scan() if PROBLEM else list(range(3200))

    def scan(self):
        found = []
        for k in range(3200):
            digest = b""
            for _ in range(15_000):
                digest = hashlib.sha256(digest + k.to_bytes(4, "big")).digest()
            found.append(k if digest else None)
        return found

    def __len__(self):
        return len(self.index)

    def __getitem__(self, index):
        return torch.full((512,), self.index[index] / 3200), index % 10


torch.set_num_threads(1)
model = nn.Sequential(nn.Linear(512, 1024), nn.Tanh(), nn.Linear(1024, 1024), nn.Tanh(), nn.Linear(1024, 10))
optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
loader = DataLoader(Indexed(), batch_size=64, shuffle=True)
for _ in range(6):
    for inputs, targets in loader:
        optimizer.zero_grad()
        nn.functional.cross_entropy(model(inputs), targets).backward()
        optimizer.step()
