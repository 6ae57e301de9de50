"""A new iterator of a loader with workers for every batch, instead of one for each epoch."""

import sys

import torch
from torch import nn
from torch.utils.data import DataLoader, Dataset

PROBLEM = sys.argv[1:] == ["problem"]
STEPS = 150


class Signals(Dataset):
    def __len__(self):
        return 960

    def __getitem__(self, index):
        generator = torch.Generator().manual_seed(index)
        return torch.randn(256, generator=generator), index % 10


torch.set_num_threads(1)
model = nn.Sequential(nn.Linear(256, 1024), nn.ReLU(), nn.Linear(1024, 1024), nn.ReLU(), nn.Linear(1024, 10))
optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
loader = DataLoader(Signals(), batch_size=32, shuffle=True, num_workers=1)


def train(inputs, targets):
    optimizer.zero_grad()
    nn.functional.cross_entropy(model(inputs), targets).backward()
    optimizer.step()


if PROBLEM:
    for _ in range(STEPS):
        train(*next(iter(loader)))
else:
    for _ in range(10):
        for batch in loader:
            train(*batch)
