"""Batches for which the training thread waits 2 ms a sample, as for a slow remote store: an experiment with workers ends that."""

import time

import torch
from torch import nn
from torch.utils.data import DataLoader, Dataset


class Remote(Dataset):
    def __len__(self):
        return 800

    def __getitem__(self, index):
        time.sleep(0.002)
        return torch.full((128,), index / 800)


torch.set_num_threads(1)
model = nn.Sequential(nn.Linear(128, 512), nn.Tanh(), nn.Linear(512, 1))
optimizer = torch.optim.SGD(model.parameters(), lr=0.001)
for _ in range(60):
    for inputs in DataLoader(Remote(), batch_size=8, shuffle=True):
        optimizer.zero_grad()
        model(inputs).square().mean().backward()
        optimizer.step()
