"""A layer that makes its weights orthogonal again in each 25th call, which nothing that is recorded names."""

import sys

import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

PROBLEM = sys.argv[1:] == ["problem"]


class Orthogonal(nn.Linear):
    calls = 0

    def forward(self, inputs):
        self.calls += 1
        if PROBLEM and self.calls % 25 == 0:
            with torch.no_grad():
                left, _, right = torch.linalg.svd(self.weight[:384, :384])
                self.weight[:384, :384] = left @ right
        return super().forward(inputs)


torch.set_num_threads(1)
data = TensorDataset(torch.randn(3200, 512), torch.randint(0, 10, (3200,)))
model = nn.Sequential(nn.Linear(512, 1024), nn.Tanh(), Orthogonal(1024, 512), nn.Tanh(), nn.Linear(512, 10))
optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
for _ in range(12):
    for inputs, targets in DataLoader(data, batch_size=64, shuffle=True):
        optimizer.zero_grad()
        nn.functional.cross_entropy(model(inputs), targets).backward()
        optimizer.step()
