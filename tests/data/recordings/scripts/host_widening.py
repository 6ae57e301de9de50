"""Bytes that become one-hot floats in the worker, 64 times as large, before they go through the queue."""

import sys

import torch
from torch import nn
from torch.utils.data import DataLoader, Dataset

PROBLEM = sys.argv[1:] == ["problem"]


class Labels(Dataset):
    def __init__(self):
        self.maps = torch.randint(0, 16, (480, 128, 128), dtype=torch.uint8)

    def __len__(self):
        return len(self.maps)

    def __getitem__(self, index):
        labels = self.maps[index]
        return nn.functional.one_hot(labels.long(), 16).permute(2, 0, 1).float() if PROBLEM else labels


torch.set_num_threads(1)
model = nn.Sequential(nn.Conv2d(16, 4, 8, stride=8), nn.ReLU(), nn.Conv2d(4, 1, 1))
optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
loader = DataLoader(Labels(), batch_size=16, num_workers=1, persistent_workers=True)
for _ in range(10):
    for batch in loader:
        inputs = batch if PROBLEM else nn.functional.one_hot(batch.long(), 16).permute(0, 3, 1, 2).float()
        optimizer.zero_grad()
        model(inputs).square().mean().backward()
        optimizer.step()
