"""A model under torch.compile, whose sizes stay the same: nothing is wrong with it."""

import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

torch.set_num_threads(1)
data = TensorDataset(torch.randn(3840, 256), torch.randint(0, 10, (3840,)))
model = nn.Sequential(nn.Linear(256, 1024), nn.GELU(), nn.Linear(1024, 1024), nn.GELU(), nn.Linear(1024, 10))
optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
compiled = torch.compile(model)
for _ in range(5):
    for inputs, targets in DataLoader(data, batch_size=128, shuffle=True):
        optimizer.zero_grad()
        nn.functional.cross_entropy(compiled(inputs), targets).backward()
        optimizer.step()
