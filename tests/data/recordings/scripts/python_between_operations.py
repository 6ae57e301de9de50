"""A running average that a loop takes position by position, or one product with a matrix of weights."""

import sys

import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

PROBLEM = sys.argv[1:] == ["problem"]
POSITIONS = 64


def running_average(hidden):
    states, state = [], torch.zeros(hidden.shape[0], hidden.shape[2])
    for position in range(POSITIONS):
        state = 0.9 * state + 0.1 * hidden[:, position]
        states.append(state)
    return torch.stack(states, 1)


class Smoothed(nn.Module):
    def __init__(self):
        super().__init__()
        self.first, self.last = nn.Linear(32, 64), nn.Linear(64, 1)
        ages = torch.arange(POSITIONS)[:, None] - torch.arange(POSITIONS)
        self.weights = torch.where(ages >= 0, 0.1 * 0.9 ** ages.clamp(min=0), 0.0)

    def forward(self, inputs):
        hidden = torch.tanh(self.first(inputs))
        return self.last(running_average(hidden) if PROBLEM else self.weights @ hidden)


torch.set_num_threads(1)
data = TensorDataset(torch.randn(960, POSITIONS, 32), torch.randn(960, POSITIONS, 1))
model = Smoothed()
optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
for _ in range(5):
    for inputs, targets in DataLoader(data, batch_size=32, shuffle=True):
        optimizer.zero_grad()
        nn.functional.mse_loss(model(inputs), targets).backward()
        optimizer.step()
