"""Every activation is kept in lists of numbers, which the garbage collector walks through again and again, or in arrays."""

import array
import sys

import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

PROBLEM = sys.argv[1:] == ["problem"]

torch.set_num_threads(1)
data = TensorDataset(torch.randn(1280, 128), torch.randn(1280, 1))
model = nn.Sequential(nn.Linear(128, 512), nn.Tanh(), nn.Linear(512, 1))
optimizer = torch.optim.SGD(model.parameters(), lr=0.001)
kept = []
for _ in range(2):
    for inputs, targets in DataLoader(data, batch_size=16, shuffle=True):
        optimizer.zero_grad()
        nn.functional.mse_loss(model(inputs), targets).backward()
        optimizer.step()
        kept.append([[0.0] * 1000 for _ in range(100)] if PROBLEM else array.array("d", bytes(8000)))
