"""Outputs of every step that are kept in a list, for a plot that nobody makes."""

import sys
import time

import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

PROBLEM = sys.argv[1:] == ["problem"]

torch.set_num_threads(1)
data = TensorDataset(torch.randn(3200, 512), torch.randint(0, 128, (3200,)))
model = nn.Sequential(nn.Linear(512, 1024), nn.Tanh(), nn.Linear(1024, 1024), nn.Tanh(), nn.Linear(1024, 128))
optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
outputs = []
begin = time.monotonic()
while time.monotonic() < begin + 75:
    for inputs, targets in DataLoader(data, batch_size=256, shuffle=True):
        optimizer.zero_grad()
        logits = model(inputs)
        nn.functional.cross_entropy(logits, targets).backward()
        optimizer.step()
        if PROBLEM:
            outputs.append(logits.detach())
