"""One picture in 32 is as large as a poster and takes a hundred times as long to read, or all are of one size."""

import sys

import torch
from torch import nn
from torch.utils.data import DataLoader, Dataset

PROBLEM = sys.argv[1:] == ["problem"]


class Pictures(Dataset):
    def __len__(self):
        return 960

    def __getitem__(self, index):
        side = 2400 if PROBLEM and index % 32 == 0 else 240
        return torch.full((1, 1, side, side), index / 960).exp().sum().expand(256)


torch.set_num_threads(1)
model = nn.Sequential(nn.Linear(256, 512), nn.Tanh(), nn.Linear(512, 1))
optimizer = torch.optim.SGD(model.parameters(), lr=0.001)
for _ in range(2):
    for inputs in DataLoader(Pictures(), batch_size=16, shuffle=True):
        optimizer.zero_grad()
        model(inputs).square().mean().backward()
        optimizer.step()
