"""The mean of all losses so far, which goes through all of them again after every step, or is kept as a sum."""

import sys

import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

PROBLEM = sys.argv[1:] == ["problem"]
losses, total = [], 0.0


def mean_loss(new):
    global total
    if not PROBLEM:
        total += sum(new)
        return total
    losses.extend(new)
    smooth = losses[0]
    for loss in losses:
        smooth += 0.01 * (loss - smooth)
    return smooth


torch.set_num_threads(1)
data = TensorDataset(torch.randn(3200, 256), torch.randint(0, 10, (3200,)))
model = nn.Sequential(nn.Linear(256, 512), nn.Tanh(), nn.Linear(512, 512), nn.Tanh(), nn.Linear(512, 10))
optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
for _ in range(6):
    for inputs, targets in DataLoader(data, batch_size=64, shuffle=True):
        optimizer.zero_grad()
        each = nn.functional.cross_entropy(model(inputs), targets, reduction="none")
        each.mean().backward()
        optimizer.step()
        mean_loss(each.tolist() * 12)
