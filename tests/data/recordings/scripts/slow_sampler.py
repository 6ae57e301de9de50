"""A sampler that draws with weights by going through all of them for each index, or draws all indices at once."""

import random
import sys

import torch
from torch import nn
from torch.utils.data import DataLoader, Sampler, TensorDataset

PROBLEM = sys.argv[1:] == ["problem"]


class Weighted(Sampler):
    def __init__(self, weights):
        self.weights = weights

    def __len__(self):
        return 960

    def __iter__(self):
        return one_by_one(self.weights, 960) if PROBLEM else iter(random.choices(range(len(self.weights)), self.weights, k=960))


def one_by_one(weights, count):
    for _ in range(count):
        left, index = random.random() * sum(weights), 0
        while left > weights[index]:
            left -= weights[index]
            index += 1
        yield index


torch.set_num_threads(1)
data = TensorDataset(torch.randn(6000, 256))
model = nn.Sequential(nn.Linear(256, 512), nn.Tanh(), nn.Linear(512, 1))
optimizer = torch.optim.SGD(model.parameters(), lr=0.001)
for _ in range(3):
    for (inputs,) in DataLoader(data, batch_size=16, sampler=Weighted([1 + index % 3 for index in range(6000)])):
        optimizer.zero_grad()
        model(inputs).square().mean().backward()
        optimizer.step()
