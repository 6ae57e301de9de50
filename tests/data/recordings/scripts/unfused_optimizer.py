"""Adam over many small parameters, one after the other or in one operation."""

import sys

import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

PROBLEM = sys.argv[1:] == ["problem"]

torch.set_num_threads(1)
data = TensorDataset(torch.randn(1600, 128), torch.randint(0, 10, (1600,)))
model = nn.Sequential(*(nn.Sequential(nn.Linear(128, 128), nn.LayerNorm(128), nn.Tanh()) for _ in range(12)), nn.Linear(128, 10))
optimizer = torch.optim.Adam(model.parameters(), lr=0.001, fused=not PROBLEM)
for _ in range(4):
    for inputs, targets in DataLoader(data, batch_size=32, shuffle=True):
        optimizer.zero_grad()
        nn.functional.cross_entropy(model(inputs), targets).backward()
        optimizer.step()
