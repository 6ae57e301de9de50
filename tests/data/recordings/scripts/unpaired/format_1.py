"""Sums over the pixels in Python for every sample, on the training thread: recorded in the first format."""

import torch
from torch import nn
from torch.utils.data import DataLoader, Dataset


class Pictures(Dataset):
    def __init__(self):
        self.pictures = torch.randint(0, 256, (400, 256)).tolist()

    def __len__(self):
        return len(self.pictures)

    def __getitem__(self, index):
        return torch.tensor(stretched(self.pictures[index]))


def stretched(pixels):
    low, high = min(pixels), max(pixels)
    total = 0.0
    for _ in range(8):
        for pixel in pixels:
            total += (pixel - low) / (high - low)
    return [(pixel - low) / (high - low) - total / len(pixels) / 8 for pixel in pixels]


torch.set_num_threads(1)
model = nn.Sequential(nn.Linear(256, 256), nn.Tanh(), nn.Linear(256, 1))
optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
for _ in range(5):
    for inputs in DataLoader(Pictures(), batch_size=8, shuffle=True):
        optimizer.zero_grad()
        model(inputs).square().mean().backward()
        optimizer.step()
