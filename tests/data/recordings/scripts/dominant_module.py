"""A model with one block that takes most of the time: a convolution of a large kernel at full resolution."""

import sys

import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

PROBLEM = sys.argv[1:] == ["problem"]


class WideContext(nn.Module):
    def __init__(self):
        super().__init__()
        self.convolution = nn.Conv2d(8, 8, 15 if PROBLEM else 3, padding="same")

    def forward(self, images):
        return self.convolution(images)


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.first = nn.Conv2d(1, 8, 3, padding=1)
        self.context = WideContext()
        self.last = nn.Linear(8, 10)

    def forward(self, images):
        hidden = torch.relu(self.first(images))
        hidden = torch.relu(self.context(hidden))
        return self.last(hidden.mean((2, 3)))


torch.set_num_threads(1)
data = TensorDataset(torch.randn(256, 1, 48, 48), torch.randint(0, 10, (256,)))
model = Net()
optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
for _ in range(8):
    for inputs, targets in DataLoader(data, batch_size=8, shuffle=True):
        optimizer.zero_grad()
        nn.functional.cross_entropy(model(inputs), targets).backward()
        optimizer.step()
